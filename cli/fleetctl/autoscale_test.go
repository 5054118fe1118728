package fleetctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley"
	"parley/cli/remote"
	"parley/fleet"
	"parley/fleet/scale"
	"parley/gateway/admin"
)

var begun = time.Unix(1_000_000_000, 0)

// TestSights reads the state of a gateway from its metrics, also after it began anew.
func TestSights(t *testing.T) {
	read := func(text string) []remote.Metric { return remote.ParseMetrics([]byte(text)) }
	workers := []fleet.Standing{
		{Name: "a", State: fleet.Up, Answering: 2, UsedTokens: 30, CapacityTokens: 100},
		{Name: "b", State: fleet.Up, Answering: 1, UsedTokens: 10, CapacityTokens: 100},
		{Name: "c", State: fleet.Asleep, CapacityTokens: 100},
	}
	var s readings
	s.begin()
	s.add("a", read(`# HELP x
parley_queue_wait_seconds_count{pool="local",tier="free"} 7
parley_queue_wait_seconds_count{pool="local",tier="pro"} 3
parley_queue_waiting{model="m",pool="local",tier="free"} 4
parley_queue_estimated_wait_seconds{model="m",pool="local"} 1.5
parley_shed_total{tier="free"} 2
`))
	got := s.state(workers, 1)
	want := scale.State{
		Ready:    2,
		Starting: 1,
		Arrived:  16,
		Begun:    10,
		Queued:   4,
		Streams:  3,
		Wait:     1500 * time.Millisecond,
		KV:       0.2,
	}
	if got != want {
		t.Errorf("the state is %+v, want %+v", got, want)
	}
	s.begin()
	s.add("a", nil)
	s.begin()
	s.add("a", read("parley_queue_wait_seconds_count 5\n"))
	s.add("b", read("parley_queue_wait_seconds_count 1\nparley_queue_waiting 3\n"))
	if got = s.state(nil, 0); got.Arrived != 25 || got.Begun != 16 || got.Queued != 3 {
		t.Errorf("after a restart, and with another gateway, there is %+v, want 25, 16 and 3", got)
	}
}

// TestGateways asks every address of a name, leaves out one that does not answer, and has all
// do what is ordered.
func TestGateways(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Method+" "+r.Host+r.URL.Path)
		if r.URL.Path == "/fleet/metrics" {
			io.WriteString(w, "parley_queue_wait_seconds_count 2\n")
			return
		}
		io.WriteString(w, `{"data":[{"name":"w","state":"up","answering":1}]}`)
	}))
	defer server.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	c, err := remote.New("http://gateways.test:" + port)
	if err != nil {
		t.Fatal(err)
	}
	addresses := []string{"127.0.0.1", "no such host"}
	g := &gateways{client: c}
	g.lookup = func(_ context.Context, host string) ([]string, error) {
		if host != "gateways.test" {
			t.Errorf("the addresses of %q are looked up", host)
		}
		return addresses, nil
	}
	var s readings
	workers, err := g.look(t.Context(), &s)
	if err != nil || len(workers) != 1 || s.state(workers, 0).Begun != 2 {
		t.Fatalf("there are %+v, %v", workers, err)
	}
	if err := g.order(t.Context(), "w", "drain"); err != nil || asked[len(asked)-1] !=
		"POST gateways.test:"+port+"/fleet/workers/w/drain" {
		t.Errorf("it asked %q, %v", asked, err)
	}
	addresses = addresses[1:]
	if _, err := g.look(t.Context(), &s); err == nil {
		t.Error("no error, although no gateway answers")
	}
	if err := g.order(t.Context(), "w", "drain"); err == nil {
		t.Error("no error, although every gateway rejects the order")
	}
	addresses = nil
	if workers, err := g.look(t.Context(), &s); err == nil {
		t.Errorf("without a gateway there are %+v", workers)
	}
	both := merge([]fleet.Standing{{Name: "a", State: fleet.Draining, Answering: 1}},
		[]fleet.Standing{{Name: "b", Answering: 3}, {Name: "a", State: fleet.Up, Answering: 2}})
	if len(both) != 2 || both[0].Answering != 3 || both[0].State != fleet.Up {
		t.Errorf("two gateways have %+v", both)
	}
}

// orders remember what was asked of a gateway.
type orders struct{ said []string }

func (o *orders) take(_ context.Context, worker, verb string) error {
	verb, _, _ = strings.Cut(verb, "?")
	o.said = append(o.said, verb+" "+worker)
	return nil
}

// newLocalWorkers returns workers that end at once, and what it asks of a gateway.
func newLocalWorkers(t *testing.T) (*localWorkers, *orders) {
	said := &orders{}
	life, end := context.WithCancel(t.Context())
	c := &localWorkers{ctx: life, order: said.take, ended: func(error) {}}
	c.args = func(string, string) []string { return nil }
	c.program.LogDir, c.program.Path = t.TempDir(), "/does/not/exist"
	t.Cleanup(func() {
		end()
		c.all.Wait()
	})
	return c, said
}

// TestLocalWorkers starts workers, lets them leave when they have no answer under way, and keeps one
// that is about to leave where more are wanted.
func TestLocalWorkers(t *testing.T) {
	c, said := newLocalWorkers(t)
	life := c.ctx
	want := func(n int) {
		t.Helper()
		if err := c.set(life, scale.Sizing{Workers: n}, nil, begun); err != nil {
			t.Fatal(err)
		}
	}
	want(2)
	if starting, ready := c.observe(life, nil, begun); starting != 2 || ready != 0 {
		t.Errorf("%d start, ready in %v", starting, ready)
	}
	up := func(answers int) []fleet.Standing {
		return []fleet.Standing{
			{Name: c.workers[0].address, State: fleet.Up},
			{Name: c.workers[1].address, State: fleet.Up, Answering: answers},
		}
	}
	both := up(1)
	if starting, ready := c.observe(life, both, begun.Add(8*time.Second)); starting != 0 || ready != 8*time.Second {
		t.Errorf("%d start, ready in %v", starting, ready)
	}
	second := c.workers[1].address
	want(1)
	c.observe(life, both, begun)
	want(2)
	want(1)
	c.observe(life, both, begun)
	if len(c.workers) != 2 {
		t.Error("one was ended that had an answer under way")
	}
	c.observe(life, up(0), begun)
	if len(c.workers) != 1 || c.workers[0].address == second {
		t.Errorf("%d are left", len(c.workers))
	}
	all := []string{"drain " + second, "resume " + second, "drain " + second}
	if !slices.Equal(said.said, all) {
		t.Errorf("the gateway was asked to %q, want %q", said.said, all)
	}
}

// TestSleepers wakes workers and puts the least busy to sleep, never one that cannot.
func TestSleepers(t *testing.T) {
	said := &orders{}
	s := &sleepers{order: said.take, woken: map[string]time.Time{}}
	workers := []fleet.Standing{
		{Name: "a", State: fleet.Up, Sleeps: true, Answering: 5},
		{Name: "b", State: fleet.Asleep, Sleeps: true},
		{Name: "c", State: fleet.Up},
	}
	set := func(n int) {
		t.Helper()
		if err := s.set(t.Context(), scale.Sizing{Workers: n}, workers, begun); err != nil {
			t.Fatal(err)
		}
	}
	set(2)
	set(3)
	if starting, _ := s.observe(t.Context(), workers, begun); starting != 1 {
		t.Errorf("%d wake, want 1", starting)
	}
	set(3)
	workers[1].State = fleet.Up
	starting, ready := s.observe(t.Context(), workers, begun.Add(4*time.Second))
	if starting != 0 || ready != 4*time.Second {
		t.Errorf("%d wake, ready in %v", starting, ready)
	}
	set(1)
	if all := []string{"wake b", "sleep b", "sleep a"}; !slices.Equal(said.said, all) {
		t.Errorf("the gateway was asked to %q, want %q", said.said, all)
	}
}

// TestSleepersThatDoNotWake has a worker drained and another one lost while they wake, and a third
// one warming up: others are woken for the first two, none for the third.
func TestSleepersThatDoNotWake(t *testing.T) {
	said := &orders{}
	s := &sleepers{order: said.take, woken: map[string]time.Time{}}
	var workers []fleet.Standing
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		workers = append(workers, fleet.Standing{Name: name, State: fleet.Asleep, Sleeps: true})
	}
	step := func(n int) (starting int) {
		t.Helper()
		starting, _ = s.observe(t.Context(), workers, begun)
		if err := s.set(t.Context(), scale.Sizing{Workers: n}, workers, begun); err != nil {
			t.Fatal(err)
		}
		return starting
	}
	step(3)
	workers[0].State, workers[1].State = fleet.Draining, fleet.Warming
	workers = slices.Delete(workers, 2, 3)
	if n := step(3); n != 1 {
		t.Errorf("%d wake, want 1", n)
	}
	step(3)
	if all := []string{"wake a", "wake b", "wake c", "wake d", "wake e"}; !slices.Equal(said.said, all) {
		t.Errorf("the gateway was asked to %q, want %q", said.said, all)
	}
	s.woken = map[string]time.Time{} // as of another process
	said.said = nil
	step(1)
	if len(said.said) > 0 {
		t.Errorf("the gateway was asked to %q although a worker warms up", said.said)
	}
}

// TestCrewBesideADrainedWorker drains one of two workers as an operator does: another one is
// started in its place, and when it is resumed, one of the three leaves.
func TestCrewBesideADrainedWorker(t *testing.T) {
	c, said := newLocalWorkers(t)
	life := c.ctx
	step := func(first fleet.State) {
		t.Helper()
		var workers []fleet.Standing
		for _, h := range c.workers {
			workers = append(workers, fleet.Standing{Name: h.address, State: fleet.Up})
		}
		if len(workers) > 0 {
			workers[0].State = first
		}
		c.observe(life, workers, begun)
		if err := c.set(life, scale.Sizing{Workers: 2}, workers, begun); err != nil {
			t.Fatal(err)
		}
	}
	step(fleet.Up)
	step(fleet.Up)
	for range 3 {
		step(fleet.Draining)
	}
	if len(c.workers) != 3 || len(said.said) > 0 {
		t.Fatalf("%d workers, of which one is drained; the gateway was asked to %q", len(c.workers), said.said)
	}
	newest := c.workers[2].address
	step(fleet.Up)
	if all := []string{"drain " + newest}; !slices.Equal(said.said, all) {
		t.Errorf("the gateway was asked to %q, want %q", said.said, all)
	}
}

// TestOutside tells a command and a webhook the number when it changes, and again where that
// failed.
func TestOutside(t *testing.T) {
	file := filepath.Join(t.TempDir(), "told")
	t.Setenv("TOLD", file)
	o := &externalActuator{asked: -1, command: `echo "$PARLEY_WORKERS $PARLEY_REASON" >> "$TOLD"`}
	set := func(n int) error {
		return o.set(t.Context(), scale.Sizing{Workers: n, Why: "it is noon"}, nil, begun)
	}
	for _, n := range []int{1, 1, 3, 3} {
		if err := set(n); err != nil {
			t.Fatal(err)
		}
	}
	if told, err := os.ReadFile(file); err != nil || string(told) != "1 it is noon\n3 it is noon\n" {
		t.Errorf("the command was told %q, %v", told, err)
	}
	if starting, _ := o.observe(t.Context(), make([]fleet.Standing, 3), begun); starting != 3 {
		t.Errorf("%d start, want 3", starting)
	}
	o.command = "echo no capacity; exit 3"
	if err := set(4); err == nil || !strings.Contains(err.Error(), "no capacity") {
		t.Errorf("a command that failed gives %v", err)
	}
	var bodies []string
	answer := http.StatusServiceUnavailable
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		w.WriteHeader(answer)
	}))
	defer server.Close()
	o.webhook = server.URL
	if err := set(4); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a webhook that failed gives %v", err)
	}
	answer = http.StatusAccepted
	if err := errors.Join(set(4), set(4)); err != nil || len(bodies) != 2 ||
		bodies[1] != `{"workers":4,"why":"it is noon","expected_requests_per_second":0}` {
		t.Errorf("the webhook got %q, %v", bodies, err)
	}
}

// TestReports: changes are reported to the gateway at once, unchanged state at intervals.
func TestReports(t *testing.T) {
	var got []admin.ScaleReport
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var report admin.ScaleReport
		if err := json.NewDecoder(r.Body).Decode(&report); err != nil || r.URL.Path != "/fleet/scale" {
			t.Errorf("%s gets a report, %v", r.URL.Path, err)
		}
		got = append(got, report)
		io.WriteString(w, "{}")
	}))
	defer server.Close()
	c, err := remote.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	to := &gateways{client: c, each: map[string]*remote.Client{"": c}}
	r := &reporter{config: scale.Config{Min: 1, Max: 6, Price: 2}, target: "processes"}
	now := begun
	say := func(desired int, arrived uint64) {
		state := scale.State{Ready: 2, Starting: 1, Arrived: arrived}
		r.see(&state, now)
		r.report(t.Context(), to, &state, scale.Sizing{Workers: desired, Why: fmt.Sprint(arrived)}, time.Minute, "",
			nil, now)
		now = now.Add(2 * time.Second)
	}
	say(3, 0)
	say(3, 20) // nothing but the rate is another one
	say(4, 40)
	for arrived := uint64(60); now.Before(begun.Add(time.Hour)); arrived += 20 {
		say(4, arrived)
	}
	if len(got) < 3 || got[0].Desired != 3 || got[1].Desired != 4 || got[1].Why != "40" {
		t.Fatalf("it was told %+v", got[:min(3, len(got))])
	}
	if n := len(got); n < 300 || n > 400 {
		t.Errorf("%d reports in an hour, want one in 10 s", n)
	}
	if last := got[len(got)-1]; math.Abs(last.Rate-10) > 0.01 || last.HorizonSeconds != 60 || last.Price != 2 ||
		last.Max != 6 || last.Ready != 2 || last.Target != "processes" {
		t.Errorf("at the end it was told %+v", last)
	}
	c.Root = "http://127.0.0.1:1"
	before := r.sent
	say(5, 0)
	if r.sent != before {
		t.Error("what no gateway took is not told again")
	}
}

// A recordingActuator notes what is wanted, and of which workers.
type recordingActuator struct {
	want    scale.Sizing
	workers []fleet.Standing
}

func (*recordingActuator) observe(context.Context, []fleet.Standing, time.Time) (int, time.Duration) {
	return 0, 0
}

func (h *recordingActuator) set(_ context.Context, want scale.Sizing, workers []fleet.Standing, _ time.Time) error {
	h.want, h.workers = want, workers
	return nil
}

// TestRolesApart has requests that wait while the workers that decode have memory: more workers
// that compute prompts are wanted, and no others.
func TestRolesApart(t *testing.T) {
	var list []fleet.Standing
	for i := range 20 {
		role := parley.RolePrefill
		if i%2 > 0 {
			role = parley.RoleDecode
		}
		list = append(list, fleet.Standing{
			Name:           fmt.Sprint(role, "-", i),
			Role:           role,
			State:          fleet.Up,
			UsedTokens:     40,
			CapacityTokens: 100,
		})
	}
	server := gatewayWith(t, list, "parley_queue_waiting 90\nparley_queue_estimated_wait_seconds 20\n",
		func(*admin.ScaleReport) {})
	for role, least := range map[parley.WorkerRole]int{parley.RolePrefill: 11, parley.RoleDecode: 0} {
		a, recorded := scalerOf(t, server)
		a.role = role
		if _, err := a.step(t.Context(), begun); err != nil {
			t.Fatal(err)
		}
		others := slices.ContainsFunc(recorded.workers, func(w fleet.Standing) bool { return w.Role != role })
		want := recorded.want
		if len(recorded.workers) != 10 || others || want.Workers < least || least == 0 && want.Workers > 10 {
			t.Errorf("of %d workers for %s %d are wanted because %s", len(recorded.workers), role, want.Workers,
				want.Why)
		}
	}
}

// TestPoolsApart has requests that wait for one of two pools: more workers of it are wanted, and
// none of the other. Both scalers report to one gateway, which can tell them apart.
func TestPoolsApart(t *testing.T) {
	var list []fleet.Standing
	for i := range 20 {
		list = append(list, fleet.Standing{
			Name:           fmt.Sprint("w-", i),
			Pool:           []string{"free", "paid"}[i%2],
			State:          fleet.Up,
			UsedTokens:     40,
			CapacityTokens: 100,
		})
	}
	reported := map[string]int{}
	server := gatewayWith(t, list, `parley_queue_waiting{model="m",pool="paid",tier="pro"} 90
parley_queue_estimated_wait_seconds{model="m",pool="paid"} 20
parley_queue_waiting{model="m",pool="free",tier="free"} 0
`, func(r *admin.ScaleReport) { reported[r.Target] = r.Desired })
	for _, pool := range []string{"paid", "free"} {
		a, recorded := scalerOf(t, server)
		a.readings = readings{pool: pool}
		a.targets("sleepers")
		if _, err := a.step(t.Context(), begun); err != nil {
			t.Fatal(err)
		}
		others := slices.ContainsFunc(recorded.workers, func(w fleet.Standing) bool { return w.Pool != pool })
		if len(recorded.workers) != 10 || others || (recorded.want.Workers > 10) != (pool == "paid") {
			t.Errorf("of %d workers for %s %d are wanted because %s", len(recorded.workers), pool,
				recorded.want.Workers, recorded.want.Why)
		}
	}
	if len(reported) != 2 || reported["sleepers paid"] <= 10 || reported["sleepers free"] > 10 {
		t.Errorf("the gateway has the reports %v", reported)
	}
}

// gatewayWith serves the workers in list and metrics as a gateway does, and hands the reports of
// scalers to reported.
func gatewayWith(
	t *testing.T, list []fleet.Standing, metrics string, reported func(*admin.ScaleReport),
) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics", "/fleet/metrics":
			io.WriteString(w, metrics)
		case "/fleet/workers":
			json.NewEncoder(w).Encode(map[string]any{"data": list})
		default:
			var report admin.ScaleReport
			if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
				t.Errorf("%s %s: %v", r.Method, r.URL, err)
			}
			reported(&report)
			io.WriteString(w, "{}")
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// scalerOf returns an autoscaler of the gateway's workers, and what it does with them.
func scalerOf(t *testing.T, server *httptest.Server) (*autoscaler, *recordingActuator) {
	t.Helper()
	c, err := remote.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	scaler, err := scale.New(scale.Config{Min: 1, Max: 50})
	if err != nil {
		t.Fatal(err)
	}
	recorded := &recordingActuator{}
	return &autoscaler{gateways: &gateways{client: c}, scaler: scaler, actuator: recorded}, recorded
}
