package worker

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"parley"
	"parley/route/kvindex"
	"parley/worker/kvevents"
	"parley/worker/zmq"
)

// startSimulator starts llm-d-inference-sim, a foreign double of vLLM, which
// PARLEY_VLLM_SIM names, and returns how it is reached.
func startSimulator(t *testing.T, more ...string) Config {
	t.Helper()
	program := os.Getenv("PARLEY_VLLM_SIM")
	if program == "" {
		t.Skip(
			"NOT RUN: vLLM's events from a foreign program. Build llm-d-inference-sim (github.com/llm-d) and name " +
				"it in PARLEY_VLLM_SIM")
	}
	in, events := relay(t)
	ports := make([]string, 2)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, ports[i], _ = net.SplitHostPort(l.Addr().String())
		l.Close()
	}
	at := func(port string) string { return "tcp://127.0.0.1:" + port }
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{"--model", "m", "--port", ports[0], "--mode", "echo",
		"--force-dummy-tokenizer", "--enable-sleep-mode",
		"--enable-kvcache", "--kv-cache-size", "64", "--block-size", "16", "--zmq-endpoint", in,
		"--kv-events-replay-endpoint", at(ports[1])}, more...)...)
	cmd.Env = append(os.Environ(), "VLLM_SERVER_DEV_MODE=1", "POD_IP=127.0.0.1")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if text, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s", text)
		}
	})
	return Config{URL: "http://127.0.0.1:" + ports[0], Kind: VLLM, Model: "m", Events: events, Replay: at(ports[1])}
}

// relay listens for a publisher that connects, as the double's does where vLLM's
// listens, and publishes its messages as they are.
func relay(t *testing.T) (in, out string) {
	t.Helper()
	var listening [2]net.Listener
	for i := range listening {
		var err error
		if listening[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	to := zmq.NewPublisher(listening[1], kvevents.PendingMax)
	var passing sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	passing.Go(func() {
		for {
			raw, err := listening[0].Accept()
			if err != nil {
				return
			}
			passing.Go(func() { pass(ctx, t, raw, to) })
		}
	})
	t.Cleanup(func() { cancel(); listening[0].Close(); passing.Wait(); to.Close() })
	return "tcp://" + listening[0].Addr().String(), "tcp://" + listening[1].Addr().String()
}

// pass publishes what comes from one connection.
func pass(ctx context.Context, t *testing.T, raw net.Conn, to *zmq.Publisher) {
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	conn, err := zmq.Greet(raw, zmq.Sub)
	if err == nil {
		err = conn.Send([]byte{1})
	}
	for err == nil {
		var m [][]byte
		if m, err = conn.Receive(); err == nil {
			to.Publish(m...)
		}
	}
	if ctx.Err() == nil {
		t.Error(err)
	}
}

// awaitUp probes a worker until it answers.
func awaitUp(t *testing.T, r *Remote) Status {
	t.Helper()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		s, err := r.Probe(t.Context())
		if err == nil {
			return s
		}
		if time.Since(began) > time.Minute {
			t.Fatal(err)
		}
	}
}

// TestSimulatorsEvents follows the events of a foreign double of vLLM in both
// encodings: blocks that it caches are found under our names, those that it
// evicts are not, and one who comes late is told of all from the replay.
func TestSimulatorsEvents(t *testing.T) {
	for name, more := range map[string][]string{"arrays": nil, "maps": {"--use-vllm-map-event-format"}} {
		t.Run(name, func(t *testing.T) {
			r := dial(t, startSimulator(t, more...))
			if s := awaitUp(t, r); s.BlockTokens != 16 || s.CapacityBlocks != 64 || s.Sleeping || len(s.Models) != 1 {
				t.Fatalf("%+v", s)
			}
			early := newFollowed(t, r)
			early.await(t, "listening", func(s kvindex.Stats) bool {
				return s.State == kvindex.Exact || s.State == kvindex.Joining
			})
			prompts := askMany(t, r, 8)
			early.await(t, "exact", func(s kvindex.Stats) bool {
				return s.State == kvindex.Exact && s.Held == 64 && s.Removed > 0
			})
			early.compare(t, prompts)
			other := dial(t, r.cfg)
			awaitUp(t, other)
			late := newFollowed(t, other)
			late.await(t, "repeated", func(s kvindex.Stats) bool { return s.Held == 64 })
			late.compare(t, prompts)
		})
	}
}

// askMany has different prompts of ten blocks answered, more than 64 together.
func askMany(t *testing.T, r *Remote, n int) (prompts [][]parley.Token) {
	for i := range n {
		prompt := make([]parley.Token, 160)
		for j := range prompt {
			prompt[j] = parley.Token(1000*i + j + 1)
		}
		for _, err := range r.Generate(t.Context(), &parley.Request{Model: "m", Prompt: prompt, MaxTokens: 200}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		prompts = append(prompts, prompt)
	}
	return prompts
}

// A followed worker is one whose events an index hears.
type followed struct {
	mu    sync.Mutex
	index *kvindex.Index
	id    kvindex.Worker
}

func newFollowed(t *testing.T, r *Remote) *followed {
	t.Helper()
	f := &followed{}
	var err error
	if f.index, err = kvindex.New(kvindex.Config{}); err != nil {
		t.Fatal(err)
	}
	if f.id, err = f.index.Join(r.Source("")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { _ = r.Follow(ctx, f.listener()) })
	t.Cleanup(func() { cancel(); following.Wait() })
	return f
}

func (f *followed) listener() Listener {
	locked := func(do func() kvindex.Ask) kvindex.Ask {
		f.mu.Lock()
		defer f.mu.Unlock()
		return do()
	}
	return Listener{
		Connected: func() { locked(func() kvindex.Ask { f.index.Reconnected(f.id); return kvindex.Ask{} }) },
		Batch: func(b kvindex.Batch) kvindex.Ask {
			return locked(func() kvindex.Ask { return f.index.Apply(f.id, b) })
		},
		ReplayEnded: func() kvindex.Ask { return locked(func() kvindex.Ask { return f.index.ReplayEnded(f.id) }) },
		Wants:       func() kvindex.Ask { return locked(func() kvindex.Ask { return f.index.Wants(f.id) }) },
		Lost:        func(error) {},
	}
}

func (f *followed) await(t *testing.T, what string, ok func(kvindex.Stats) bool) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		f.mu.Lock()
		s := f.index.Stats(f.id)
		f.mu.Unlock()
		if ok(s) {
			t.Logf("%s: %+v", what, s)
			return
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("%s: %+v", what, s)
		}
	}
}

// compare wants the latest prompts to be held as a whole, and the first not at
// all.
func (f *followed) compare(t *testing.T, prompts [][]parley.Token) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	held := func(prompt []parley.Token) int32 {
		var m kvindex.Matches
		f.index.Lookup(parley.AppendBlockKeys(nil, 0, parley.Salt{}, prompt, 16), &m)
		return m.Of(f.id).Blocks
	}
	if n := held(prompts[len(prompts)-1]); n != 10 {
		t.Errorf("of the latest prompt %d blocks are found, want 10", n)
	}
	if n := held(prompts[0]); n != 0 {
		t.Errorf("of a prompt that was evicted %d blocks are found", n)
	}
}

// TestSimulatorSleeps puts the double to sleep as vLLM is, and wakes it.
func TestSimulatorSleeps(t *testing.T) {
	r := dial(t, startSimulator(t))
	awaitUp(t, r)
	for _, step := range []struct {
		do     func(context.Context) error
		sleeps bool
	}{{r.Sleep, true}, {r.Sleep, true}, {r.Wake, false}} {
		if err := step.do(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := awaitUp(t, r); s.Sleeping != step.sleeps {
			t.Errorf("it sleeps: %v, want %v", s.Sleeping, step.sleeps)
		}
	}
	askMany(t, r, 1)
	other := dial(t, Config{URL: r.cfg.URL, Kind: SGLang})
	if err := other.Sleep(t.Context()); parley.CodeOf(err) != parley.Conflict ||
		!strings.Contains(err.Error(), "does not support sleep") {
		t.Errorf("of a kind that promises no sleep: %v", err)
	}
}

// TestSimulatorsShareARequest has one double compute the prompt and another one write the answer,
// as vLLM's do with a connector for keys and values.
func TestSimulatorsShareARequest(t *testing.T) {
	prefill, decode := dial(t, startSimulator(t)), dial(t, startSimulator(t))
	awaitUp(t, prefill)
	awaitUp(t, decode)
	prompt := make([]parley.Token, 320)
	for i := range prompt {
		prompt[i] = parley.Token(i + 1)
	}
	first := &parley.Request{ID: "shared", Model: "m", Prompt: prompt, MaxTokens: 1,
		Handoff: &parley.Handoff{Prefill: true}}
	var usage *parley.Usage
	for d, err := range prefill.Generate(t.Context(), first) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Count() > 0 {
			t.Errorf("the worker for prompts says %v", d.Tokens)
		}
		usage = d.Usage
	}
	if usage == nil || usage.PromptTokens != 320 {
		t.Fatalf("usage %+v", usage)
	}
	if !strings.Contains(string(first.Handoff.Fields), `"do_remote_prefill":true`) {
		t.Fatalf("the other engine is told %s", first.Handoff.Fields)
	}
	second := &parley.Request{ID: "shared", Model: "m", Prompt: prompt, MaxTokens: 400,
		Handoff: &parley.Handoff{Fields: first.Handoff.Fields}}
	tokens := 0
	for d, err := range decode.Generate(t.Context(), second) {
		if err != nil {
			t.Fatal(err)
		}
		tokens += d.Count()
	}
	if tokens == 0 {
		t.Error("the other engine says nothing")
	}
}
