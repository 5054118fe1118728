package host

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"parley"
	"parley/compute"
	"parley/fleet"
	"parley/worker/kvwire"
)

var otherProcess = flag.String("process", "",
	"be another process of a test: worker with its role, or gateway with the URLs of its workers, until the input ends")

// A talk is a conversation. No two have a salt in common.
type talk struct {
	name string
	salt parley.Salt
	said []parley.Token
	at   string // where its latest turn was answered
}

// ask adds a turn, and returns its request, its answer and how many of its tokens were found.
func (k *talk) ask(t *testing.T, f *fleet.Fleet, rng *rand.Rand, tokens int) (r *parley.Request, got []parley.Token,
	found int) {
	t.Helper()
	r = gapRequest(rng, tokens, 24)
	r.ID, r.Salt, r.Prompt = k.name, k.salt, slices.Concat(k.said, r.Prompt)
	got, u, _ := askTransfer(t, f, r)
	k.said, k.at = slices.Concat(r.Prompt, got), u.Routing.Worker
	return r, got, u.CachedTokens
}

// blocks returns how many full blocks are kept of a conversation: nothing is computed for its last token.
func (k *talk) blocks() int { return (len(k.said) - 1) / compute.BlockTokens }

// talks returns conversations whose first turn was answered, by the fleets in turn, and the number of the worker
// that has most of them, which all fleets know.
func talks(t *testing.T, rng *rand.Rand, n, tokens int, fleets ...*fleet.Fleet) (all []*talk, most string) {
	t.Helper()
	blocks, count := map[string]int{}, map[string]int{}
	for i := range n {
		k := &talk{name: fmt.Sprint("conversation ", i), salt: parley.Salt{byte(i + 1)}}
		k.ask(t, fleets[i%len(fleets)], rng, tokens)
		all = append(all, k)
		blocks[k.at] += k.blocks()
		if count[k.at]++; count[k.at] > count[most] || count[k.at] == count[most] && k.at < most {
			most = k.at
		}
	}
	for _, f := range fleets {
		awaitStanding(t, f, most, func(s *fleet.Standing) bool { return s.Blocks >= blocks[most] })
	}
	return all, most
}

// awaitBlocks waits until a fleet knows that the named workers hold that number of blocks in all.
func awaitBlocks(t *testing.T, f *fleet.Fleet, blocks int, names ...string) {
	t.Helper()
	awaitStanding(t, f, names[0], func(*fleet.Standing) bool {
		held := 0
		for _, s := range f.Standings() {
			if slices.Contains(names, s.Name) {
				held += s.Blocks
			}
		}
		return held >= blocks
	})
}

// checkTalks has all conversations continue, and wants the answers of one worker alone. Of those that were held by the
// worker that has stopped, all must be found.
func checkTalks(t *testing.T, rng *rand.Rand, f *fleet.Fleet, all []*talk, stopped string) {
	t.Helper()
	reference := startHost(t, openBuiltin(t, "polly-mini"), Config{Name: "polly-mini", ContextTokens: 1024})
	for _, k := range all {
		held, at := k.blocks()*compute.BlockTokens, k.at
		r, got, found := k.ask(t, f, rng, 40)
		if want := answer(t, reference, r); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", k.name, got, want)
		}
		if k.at == stopped || at == stopped && found < held {
			t.Errorf("%s was held by %s: %d of %d tokens are found on %s", k.name, at, found, held, k.at)
		}
	}
}

func handOverModel() Config {
	return Config{Name: "polly-mini", KVTokens: 1 << 15, ContextTokens: 1024}
}

// others returns the workers with other names.
func others(all []*rollingWorker, name string) (names []string) {
	for _, w := range all {
		if w.name != name {
			names = append(names, w.name)
		}
	}
	return names
}

func workerNamed(all []*rollingWorker, name string) *rollingWorker {
	return all[slices.IndexFunc(all, func(w *rollingWorker) bool { return w.name == name })]
}

// TestTwoGatewaysHandOver stops a worker of a fleet that has two gateways: what was asked through either is found
// through the other afterwards, by its own tenant alone.
func TestTwoGatewaysHandOver(t *testing.T) {
	f, all := startRolling(t, handOverModel(), 3)
	g := rollingFleet(t, all)
	rng := rand.New(rand.NewPCG(24, 9))
	said, stopped := talks(t, rng, 12, 150, f, g)
	blocks := 0
	for _, k := range said {
		blocks += k.blocks()
	}
	w := workerNamed(all, stopped)
	w.stop()
	w.end()
	for _, gateway := range []*fleet.Fleet{f, g} {
		awaitBlocks(t, gateway, blocks, others(all, stopped)...)
	}
	for i, k := range said {
		r := gapRequest(rng, 20, 1)
		r.Prompt, r.Salt = slices.Concat(k.said, r.Prompt), parley.Salt{byte(100 + i)}
		if _, u, _ := askTransfer(t, f, r); u.CachedTokens > 0 {
			t.Errorf("another tenant is told that %d tokens are cached", u.CachedTokens)
		}
	}
	checkTalks(t, rng, g, said[:6], stopped)
	checkTalks(t, rng, f, said[6:], stopped)
	for _, name := range others(all, stopped) {
		w := workerNamed(all, name)
		w.stop()
		w.end()
	}
}

// TestConversationsAreHandedOverToTheirRole stops one of two workers that decode: what it holds goes to the other one,
// though the worker for prompts has computed it.
func TestConversationsAreHandedOverToTheirRole(t *testing.T) {
	f, all := startRolling(t, handOverModel(), 3, parley.RolePrefill, parley.RoleDecode, parley.RoleDecode)
	rng := rand.New(rand.NewPCG(24, 10))
	said, stopped := talks(t, rng, 6, 400, f)
	if stopped == "w0" {
		t.Fatal("the worker for prompts has answered")
	}
	other := others(all[1:], stopped)[0]
	blocks := 0
	for _, k := range said {
		blocks += k.blocks()
	}
	w := workerNamed(all, stopped)
	w.stop()
	w.end()
	awaitBlocks(t, f, blocks, other)
	checkTalks(t, rng, f, said, stopped)
	for _, k := range said {
		if k.at != other {
			t.Errorf("%s continues on %s, want %s", k.name, k.at, other)
		}
	}
	for _, name := range others(all, stopped) {
		w := workerNamed(all, name)
		w.stop()
		w.end()
	}
}

// TestAWorkerTakesWhatFits stops a worker while the only other one, whose memory is small, is idle, or gives answers
// all the time that need most of that memory: it gets what fits besides, no answer changes, and the worker stops.
func TestAWorkerTakesWhatFits(t *testing.T) {
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprint(busy), func(t *testing.T) { testTakesWhatFits(t, busy) })
	}
}

func testTakesWhatFits(t *testing.T, busy bool) {
	f, all := startRolling(t, handOverModel(), 1)
	rng := rand.New(rand.NewPCG(24, 11))
	small := handOverModel()
	small.KVTokens = 1024
	full := newRollingWorker(t, "w1", small, "")
	full.start()
	joinRolling(t, f, full.name, full.url())
	if err := f.Drain("w1", -1); err != nil { // so that all is asked of the other one
		t.Fatal(err)
	}
	said, _ := talks(t, rng, 8, 200, f)
	if err := f.Resume("w1"); err != nil {
		t.Fatal(err)
	}
	awaitStanding(t, f, "w1", func(s *fleet.Standing) bool { return s.State == fleet.Up })
	reference := startHost(t, openBuiltin(t, "polly-mini"), Config{Name: "polly-mini", ContextTokens: 1024})
	stopped, begun, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	long := gapRequest(rng, 700, 200)
	want := answer(t, reference, long)
	go func() {
		defer close(ended)
		for turn := 0; busy; turn++ {
			got, _, _ := askTransfer(t, full.server, long)
			if !slices.Equal(got, want) {
				t.Errorf("an answer of a worker that others hand over to has changed: %v, want %v", got, want)
			}
			if turn == 0 {
				close(begun)
			}
			select {
			case <-stopped:
				return
			default:
			}
		}
	}()
	select {
	case <-begun:
	case <-ended: // it failed, or there is none
	}
	all[0].stop()
	all[0].end()
	close(stopped)
	<-ended
	sound(t, full.server)
	slices.Reverse(said) // the latest ones come first
	for i, k := range said {
		held := k.blocks() * compute.BlockTokens
		r, got, found := k.ask(t, f, rng, 40)
		if want := answer(t, reference, r); !slices.Equal(got, want) || k.at != "w1" {
			t.Errorf("%s on %s: %v, want %v", k.name, k.at, got, want)
		}
		if fits := i < small.KVTokens/2/(held+compute.BlockTokens); !busy && fits && found < held {
			t.Errorf("%d of %d tokens of %s are found", found, held, k.name)
		}
	}
	full.stop()
	full.end()
}

// A gate lets requests and answers of a worker pass, but keeps blocks that others fetch until it is opened.
type gate struct {
	url   string
	asked chan struct{} // gets something for each fetch
	open  chan struct{} // closed when blocks may pass
}

func newGate(t *testing.T, target string) *gate {
	t.Helper()
	g := &gate{asked: make(chan struct{}, 64), open: make(chan struct{})}
	g.url = tamperWith(t, target, func(resp *http.Response) error {
		if resp.Request.URL.Path == kvwire.Path {
			resp.Body = closeReader{io.MultiReader(&gateReader{g, resp.Request.Context()}, resp.Body), resp.Body}
			g.asked <- struct{}{}
		}
		return nil
	})
	return g
}

// A gateReader is empty, which it says when the gate is open or its reader has left.
type gateReader struct {
	gate *gate
	left context.Context
}

func (r *gateReader) Read([]byte) (int, error) {
	select {
	case <-r.gate.open:
	case <-r.left.Done():
	}
	return 0, io.EOF
}

// TestAGatewayIsKilledWhileAWorkerHandsOver kills the process of the only gateway while blocks are on their way: the
// worker that was about to stop stops, and nothing is left on either side.
func TestAGatewayIsKilledWhileAWorkerHandsOver(t *testing.T) {
	var all []*rollingWorker
	for i := range 2 {
		w := newRollingWorker(t, fmt.Sprint("w", i), handOverModel(), "")
		w.start()
		w.gate = newGate(t, "http://"+w.addr)
		all = append(all, w)
	}
	gateway, line := startProcess(t, "gateway "+all[0].gate.url+" "+all[1].gate.url)
	w := workerNamed(all, line)
	w.stop()
	<-w.gate.asked
	select {
	case err := <-w.ended:
		t.Fatalf("it has stopped before others had what it held: %v", err)
	default:
	}
	if err := gateway.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	w.end()
	other := workerNamed(all, others(all, line)[0])
	sound(t, other.server)
	other.stop()
	other.end()
}

// TestAReceiverIsKilledWhileAWorkerHandsOver kills the process of one of two workers that fetch from a third which is
// about to stop: the other one gets all.
func TestAReceiverIsKilledWhileAWorkerHandsOver(t *testing.T) {
	w := newRollingWorker(t, "w0", handOverModel(), "")
	w.start()
	w.gate = newGate(t, "http://"+w.addr)
	first, firstURL := startProcess(t, "worker")
	_, secondURL := startProcess(t, "worker")
	f := rollingFleet(t, []*rollingWorker{w})
	for i, url := range []string{firstURL, secondURL} {
		joinRolling(t, f, fmt.Sprint("w", i+1), url)
	}
	for _, name := range []string{"w1", "w2"} {
		if err := f.Drain(name, -1); err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(24, 12))
	said, _ := talks(t, rng, 6, 150, f)
	blocks := 0
	for _, k := range said {
		blocks += k.blocks()
	}
	for _, name := range []string{"w1", "w2"} {
		if err := f.Resume(name); err != nil {
			t.Fatal(err)
		}
		awaitStanding(t, f, name, func(s *fleet.Standing) bool { return s.State == fleet.Up })
	}
	w.stop()
	<-w.gate.asked
	<-w.gate.asked
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	close(w.gate.open)
	w.end()
	awaitBlocks(t, f, blocks, "w2")
	awaitStanding(t, f, "w1", func(s *fleet.Standing) bool { return s.State != fleet.Up })
	checkTalks(t, rng, f, said, "w0")
}

// startProcess runs another process of a test, and returns the first line that it writes.
func startProcess(t *testing.T, what string) (*exec.Cmd, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run", "^TestIsAnotherProcess$", "-test.timeout", "1h", "-process", what)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), processSays) {
	}
	said, ok := strings.CutPrefix(lines.Text(), processSays)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, out)
	}()
	t.Cleanup(func() {
		in.Close()
		<-drained
		_ = cmd.Wait() // one that was killed fails
	})
	if !ok {
		t.Fatalf("%s did not start", what)
	}
	return cmd, said
}

// processSays is the prefix of the lines that a worker process prints for the test.
const processSays = "process: "

// TestIsAnotherProcess is a worker, or a gateway that has conversations and names the worker that has most of them.
func TestIsAnotherProcess(t *testing.T) {
	what := strings.Fields(*otherProcess)
	switch {
	case len(what) == 0:
		t.Skip("NOT RUN: part of other tests")
	case what[0] == "worker":
		role := parley.WorkerRole(strings.Join(what[1:], ""))
		_, url := startWorker(t, ServerConfig{Key: transferKey, Role: role}, handOverModel())
		fmt.Println(processSays + url)
	default:
		f := rollingFleet(t, nil)
		for i, url := range what[1:] {
			joinRolling(t, f, fmt.Sprint("w", i), url)
		}
		_, most := talks(t, rand.New(rand.NewPCG(24, 13)), 6, 150, f)
		fmt.Println(processSays + most)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}
