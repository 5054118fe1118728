package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/cli/remote"
	"parley/internal/supervise"
)

// answerMost is how long a request to an idle pool may take on a busy machine. Answers
// of the flood take longer than any test, so a request that waits for one of them fails
// however fast or slow the machine is.
const answerMost = time.Minute

// An isolated is a gateway whose pools are in a file, with real workers.
type isolated struct {
	*crew
	data  string
	keys  map[string]string // by tenant
	flood context.CancelFunc
	wait  sync.WaitGroup
}

// startIsolated starts a worker process with two seats for each pool that says
// {worker}, and a gateway with the pools.
func startIsolated(t *testing.T, pools string, args ...string) *isolated {
	t.Helper()
	i := &isolated{crew: newCrew(t), data: t.TempDir(), keys: map[string]string{}}
	for strings.Contains(pools, "{worker}") {
		address, err := supervise.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		h := &hand{addr: address, data: t.TempDir()}
		if h.log, err = os.Create(h.data + "/log"); err != nil {
			t.Fatal(err)
		}
		i.workers = append(i.workers, h)
		i.start(h, "--seqs", "2")
		pools = strings.Replace(pools, "{worker}", `{url: "http://`+address+`"}`, 1)
	}
	for _, h := range i.workers {
		i.await(h)
	}
	path := filepath.Join(t.TempDir(), "parley.yaml")
	if err := os.WriteFile(path, []byte(pools), 0o600); err != nil {
		t.Fatal(err)
	}
	i.front = startServerIn(t, i.data, append([]string{
		"--config", path, "--model", "polly-mini", "--share", "off", "--titles", "off", "--log-level", "warn",
	}, args...)...)
	go func() {
		for range i.front.lines {
		}
	}()
	i.ready(len(i.workers))
	return i
}

// member makes a key of a tenant in a tier, and waits until it counts.
func (i *isolated) member(organization, tier string) {
	i.t.Helper()
	key, err := invoke(i.t, "keys", "create", organization, "--org", organization, "--tier", tier, "--data", i.data)
	if err != nil {
		i.t.Fatal(err)
	}
	i.keys[organization] = key
	i.answers(key, http.StatusOK)
}

// answers waits until the gateway answers a key with a status.
func (i *isolated) answers(key string, status int) {
	i.t.Helper()
	for until := time.Now().Add(time.Minute); statusWith(i.t, i.front.url,
		key) != status; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			i.t.Fatalf("the gateway does not answer %d within a minute", status)
		}
	}
}

// An asked is what became of a request.
type asked struct {
	status int
	body   string
	queued time.Duration // X-Queue-Wait
}

// ask sends a request; the flood's have no time limit of their own.
func (i *isolated) ask(ctx context.Context, organization, path, body string) (a asked, err error) {
	if !strings.Contains(body, "ignore_eos") {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, answerMost)
		defer cancel()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, i.front.url+path, strings.NewReader(body))
	if err != nil {
		return a, err
	}
	r.Header.Set("Content-Type", "application/json")
	if key := i.keys[organization]; key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	seconds, _ := strconv.ParseFloat(response.Header.Get("X-Queue-Wait"), 64)
	return asked{response.StatusCode, string(text), time.Duration(seconds * float64(time.Second))}, err
}

// floods keeps n clients asking for long answers until the test ends or calm is
// called, and returns when some of them wait.
func (i *isolated) floods(organization string, n int) {
	i.t.Helper()
	ctx, stop := context.WithCancel(i.t.Context())
	i.flood = stop
	for c := range n {
		i.wait.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				_, _ = i.ask(ctx, organization, "/v1/chat/completions", fmt.Sprintf(
					`{"ignore_eos":true,"max_tokens":1000000,"attention_sink_tokens":4,"messages":[{"role":"user","content":"Client %d, turn %d: a long story."}]}`, c, turn))
			}
		})
	}
	i.t.Cleanup(i.calm)
	for until := time.Now().Add(time.Minute); i.waiting() == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			i.t.Fatalf("of %d requests none waits", n)
		}
	}
}

func (i *isolated) calm() {
	i.flood()
	i.wait.Wait()
}

// metric sums the values of a metric over the lines that have a label, such as
// pool="paid"; an empty label sums all.
func (i *isolated) metric(name, label string) (sum float64) {
	i.t.Helper()
	r, err := http.NewRequestWithContext(i.t.Context(), http.MethodGet, i.front.url+"/metrics", nil)
	if err != nil {
		i.t.Fatal(err)
	}
	if key := i.keys["operator"]; key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		i.t.Fatal(err)
	}
	for line := range strings.Lines(string(bodyOf(i.t, response))) {
		if m, ok := remote.ParseMetric(strings.TrimSpace(line)); ok && m.Name == name && strings.Contains(line, label) {
			sum += m.Value
		}
	}
	return sum
}

// waiting counts the requests in the gateway's queues.
func (i *isolated) waiting() int { return int(i.metric("parley_queue_waiting", "")) }

// organizations makes keys: the operator's, one of a paid tier and a free one.
func (i *isolated) organizations() {
	i.t.Helper()
	key, err := invoke(i.t, "keys", "create", "operator", "--admin", "--data", i.data)
	if err != nil {
		i.t.Fatal(err)
	}
	i.keys["operator"] = key
	i.answers("", http.StatusUnauthorized) // before that everybody here is the operator
	i.member("paid", "pro")
	i.member("free", "free")
}

const tierPools = `
pools:
  - {name: paid, tiers: [pro, enterprise], workers: [{worker}]}
  - {name: free, tiers: [free], workers: [{worker}]}
`

// freely lifts what a free tenant may ask for: the flood is to reach the queue.
var freely = []string{
	"--tiers", "free.requests-per-second=none", "--tiers", "free.requests-per-minute=none",
	"--tiers", "free.input-tokens-per-minute=none", "--tiers", "free.output-tokens-per-minute=none",
	"--tiers", "free.concurrent-requests=none",
}

// TestAFloodOfAnotherPoolHoldsUpNobody floods one pool and asks the other, which
// is idle: by tier, and by purpose.
func TestAFloodOfAnotherPoolHoldsUpNobody(t *testing.T) {
	short := `{"max_tokens":4,"messages":[{"role":"user","content":"%d"}]}`
	t.Run("tiers", func(t *testing.T) {
		i := startIsolated(t, tierPools, freely...)
		i.organizations()
		i.floods("free", 48)
		i.starts("paid", "/v1/chat/completions", short)
	})
	t.Run("purposes", func(t *testing.T) {
		i := startIsolated(t, `
pools:
  - {name: typing, purpose: complete, workers: [{worker}]}
  - {name: talk, purpose: chat, workers: [{worker}]}
`)
		i.floods("", 48)
		i.starts("", "/v1/completions", `{"max_tokens":4,"prompt":"%d"}`)
	})
}

// starts asks ten times, one after the other, and wants each request to be answered
// while the flood continues.
func (i *isolated) starts(organization, path, body string) {
	i.t.Helper()
	var longest time.Duration
	for n := range 10 {
		a, err := i.ask(i.t.Context(), organization, path, fmt.Sprintf(body, n))
		if err != nil || a.status != 200 {
			i.t.Errorf("request %d: %d after %v in the queue: %v %s", n, a.status, a.queued, err, a.body)
		}
		longest = max(longest, a.queued)
	}
	i.t.Logf("ten requests to the idle pool waited for %v at most", longest)
	if i.waiting() == 0 {
		i.t.Error("nothing waits: the flood was over before the others were served")
	}
}

// TestAFailingPoolOpensNoOtherBreaker lets the worker of one pool answer with 500:
// the other pool keeps answering, and the failing one is named.
func TestAFailingPoolOpensNoOtherBreaker(t *testing.T) {
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			fmt.Fprint(w, `{"object":"list","data":[{"id":"polly-mini","object":"model"}]}`)
			return
		}
		http.Error(w, `{"error":{"message":"CUDA out of memory","type":"server_error"}}`,
			http.StatusInternalServerError)
	}))
	defer broken.Close()
	i := startIsolated(t, strings.Replace(tierPools, "tiers: [free], workers: [{worker}]",
		`tiers: [free], workers: [{kind: openai-chat, url: "`+broken.URL+`"}]`, 1), freely...)
	i.organizations()
	ctx, stop := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	defer flood.Wait()
	defer stop()
	for range 8 {
		flood.Go(func() {
			for ctx.Err() == nil {
				_, _ = i.ask(ctx, "free", "/v1/chat/completions",
					`{"max_tokens":4,"messages":[{"role":"user","content":"x"}]}`)
			}
		})
	}
	for until := time.Now().Add(time.Minute); !i.breakerOpen(`free`); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the failing pool's breaker does not open")
		}
	}
	for n := range 20 {
		a, err := i.ask(t.Context(), "paid", "/v1/chat/completions",
			fmt.Sprintf(`{"max_tokens":4,"messages":[{"role":"user","content":"%d"}]}`, n))
		if err != nil || a.status != 200 {
			t.Errorf("request %d: %d after %v: %v %s", n, a.status, a.queued, err, a.body)
		}
	}
	if i.breakerOpen("paid") {
		t.Error("the healthy pool's breaker is open")
	}
}

// breakerOpen reports whether a breaker keeps requests from a pool: the gateway's,
// or that of its worker.
func (i *isolated) breakerOpen(pool string) bool {
	i.t.Helper()
	label := `pool="` + pool + `"`
	return i.metric("parley_breaker_state", label) > 0 || i.metric("parley_fleet_worker_up", label) == 0
}

// TestAPoolWithoutWorkersSaysSo asks for a pool whose only worker is away: the
// answer comes and says why, and the other pool is not concerned.
func TestAPoolWithoutWorkersSaysSo(t *testing.T) {
	i := startIsolated(t, tierPools)
	i.organizations()
	_ = i.workers[0].cmd.Process.Kill()
	_ = i.workers[0].cmd.Wait()
	began := time.Now()
	a, err := i.ask(t.Context(), "paid", "/v1/chat/completions",
		`{"max_tokens":4,"messages":[{"role":"user","content":"x"}]}`)
	took := time.Since(began)
	var problem struct{ Error struct{ Message string } }
	_ = json.Unmarshal([]byte(a.body), &problem)
	if err != nil || a.status != 503 || took > answerMost || !strings.Contains(problem.Error.Message, "'paid'") {
		t.Errorf("%d after %v: %v %s", a.status, took, err, a.body)
	}
	a, err = i.ask(t.Context(), "free", "/v1/chat/completions",
		`{"max_tokens":4,"messages":[{"role":"user","content":"x"}]}`)
	if err != nil || a.status != 200 {
		t.Errorf("the other pool: %d after %v: %v %s", a.status, a.queued, err, a.body)
	}
}
