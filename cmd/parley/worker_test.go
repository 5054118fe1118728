package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley"
	"parley/cli"
	"parley/worker"
	"parley/worker/workertest"
)

// A workerProcess is `parley worker` as users start it.
type workerProcess struct {
	cmd *exec.Cmd
	url string
	*worker.Remote
	done chan error
}

var workerLine = regexp.MustCompile(`Parley worker for (\S+) on (http://\S+)`)

func startWorker(t *testing.T, args ...string) *workerProcess {
	t.Helper()
	exe, err := exec.LookPath("parley") // testscript.Main put this test binary there
	if err != nil {
		t.Fatal(err)
	}
	p := &workerProcess{done: make(chan error, 1)}
	p.cmd = exec.Command(exe, append([]string{"worker", "--addr", "127.0.0.1:0", "--data", t.TempDir(), "--model",
		"polly-mini", "--kv-tokens", "16384"}, args...)...)
	out, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if m := workerLine.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[2]
			}
		}
		close(found)
		p.done <- p.cmd.Wait()
	}()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	if p.url = <-found; p.url == "" {
		t.Fatal("the worker ended before it was ready")
	}
	if p.Remote, err = worker.Dial(worker.Config{URL: p.url, Kind: worker.Parley, Silence: time.Second}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func storyRequest(tokens int) *parley.Request {
	return &parley.Request{Prompt: []parley.Token{5, 6, 7, 8, 9, 10, 11, 12}, MaxTokens: tokens,
		Stop: parley.Stop{IgnoreEnd: true}}
}

func (p *workerProcess) status(t *testing.T) worker.Status {
	t.Helper()
	s, err := p.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// untilIdle waits until the worker computes nothing any more.
func (p *workerProcess) untilIdle(t *testing.T) {
	t.Helper()
	for began := time.Now(); p.status(t).Running > 0; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatalf("it still computes %d requests that nobody reads", p.status(t).Running)
		}
	}
}

// TestWorkerProcess asks two workers the same, leaves an answer, and ends one
// with a signal while it answers.
func TestWorkerProcess(t *testing.T) {
	one, two := startWorker(t, "--pool", "chat"), startWorker(t)
	if s := one.status(t); s.Pool != "chat" || s.Instance == two.status(t).Instance || s.CapacityBlocks != 1024 ||
		s.Version != cli.Version {
		t.Errorf("%+v", s)
	}
	q := storyRequest(40)
	q.Sampling = parley.Sampling{Temperature: 0.9, Seed: 3}
	a, _ := workertest.Ask(t, one, q)
	b, _ := workertest.Ask(t, two, q)
	if !slices.Equal(a[0].Tokens, b[0].Tokens) {
		t.Errorf("two workers answer\n%v and\n%v with the same seed", a[0].Tokens, b[0].Tokens)
	}
	for range one.Generate(t.Context(), storyRequest(0)) {
		break
	}
	one.untilIdle(t)
	n, told := 0, false
	for d, err := range one.Generate(t.Context(), storyRequest(100)) {
		if err != nil {
			t.Fatalf("draining cut an answer after %d tokens: %v", n, err)
		}
		if n += len(d.Tokens); n >= 5 && !told {
			told = true
			if err := one.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n != 100 {
		t.Errorf("%d of 100 tokens came", n)
	}
	if err := <-one.done; err != nil {
		t.Errorf("the worker ended with %v", err)
	}
}

// TestKilledWorker kills a worker in mid-answer, and stops another one.
func TestKilledWorker(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			p := startWorker(t)
			n, told, last := 0, false, error(nil)
			for d, err := range p.Generate(t.Context(), storyRequest(0)) {
				last = err
				if n += len(d.Tokens); n >= 5 && !told && err == nil {
					told = true
					if err := p.cmd.Process.Signal(signal); err != nil {
						t.Fatal(err)
					}
				}
			}
			if parley.CodeOf(last) != parley.Unavailable || n < 5 {
				t.Errorf("after %d tokens the answer of a %s worker ended with %v", n, name, last)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := p.Probe(ctx); parley.CodeOf(err) != parley.Unavailable {
				t.Errorf("a %s worker is said to be well: %v", name, err)
			}
			if signal == syscall.SIGSTOP { // it goes on, and has let go of what nobody reads
				if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				p.untilIdle(t)
			}
		})
	}
}

// TestSlowClientPausesTheEngine reads a little of a long answer and then waits:
// the engine in the other process must stop computing it, and go on when it is
// read again.
func TestSlowClientPausesTheEngine(t *testing.T) {
	p := startWorker(t, "--context", "2048")
	computed := func() (n float64) {
		resp, err := http.Get(p.url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		m := regexp.MustCompile(`parley_engine_inter_token_seconds_count\{[^}]*\} (\S+)`).FindSubmatch(text)
		if m == nil || json.Unmarshal(m[1], &n) != nil {
			t.Fatal("no count of tokens")
		}
		return n
	}
	const all = 1500
	read := 0
	for d, err := range p.Generate(t.Context(), storyRequest(all)) {
		if err != nil {
			t.Fatal(err)
		}
		if read += len(d.Tokens); read != 10 {
			continue
		}
		settled := -1.0
		for still := 0; still < 5; still++ { // until nothing moves any more, also on a busy machine
			if now := computed(); now != settled {
				settled, still = now, 0
			}
			time.Sleep(200 * time.Millisecond)
		}
		if settled > 10+64+256+64 || settled < 64 {
			t.Errorf("%v tokens were computed when 10 were read: want the window and a mailbox, some 330", settled)
		}
	}
	if read != all {
		t.Errorf("%d tokens were read in the end", read)
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestManyLeavers starts answers and leaves them at every step, many at once.
func TestManyLeavers(t *testing.T) {
	p := startWorker(t)
	var group sync.WaitGroup
	for i := range 32 {
		group.Go(func() {
			n := 0
			for _, err := range p.Generate(t.Context(), storyRequest(200)) {
				if err != nil {
					t.Error(err)
				}
				if n++; n == i {
					break
				}
			}
		})
	}
	group.Wait()
	p.untilIdle(t)
	if s := p.status(t); s.KVUse != 0 {
		t.Errorf("blocks are held by nobody: %+v", s)
	}
}

func TestWorkerSettings(t *testing.T) {
	for _, args := range [][]string{
		{"--model", "polly", "--model", "polly-mini"}, {"--events", "nowhere"}, {"--titles", "on"},
		{"--events", "127.0.0.1:99999"},
	} {
		cmd := newRoot()
		cmd.SetArgs(append([]string{"worker", "--addr", "127.0.0.1:0", "--data", t.TempDir()}, args...))
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(t.Context()); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
	var help strings.Builder
	cmd := newRoot()
	cmd.SetArgs([]string{"worker", "--help"})
	cmd.SetOut(&help)
	if err := cmd.ExecuteContext(t.Context()); err != nil ||
		!strings.Contains(help.String(), "  --events-replay ADDRESS") || strings.Contains(help.String(), "--titles") {
		t.Errorf("the help lists other settings than a worker's (%v):\n%s", err, help.String())
	}
}
