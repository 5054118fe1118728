package host

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley"
	"parley/compute"
	"parley/route"
	"parley/worker/kvwire"
)

var killAfter = flag.Int("kill-after", -1,
	"fetch what the input says, and be killed after `N` bytes of frames: of TestAReceiverIsKilledAtEveryStep")

// TestAReceiverIsKilledAtEveryStep kills a process that fetches through shared memory after every frame, in the middle
// of each and before the first: the source lets go of all, its memory among it, and answers the next one.
func TestAReceiverIsKilledAtEveryStep(t *testing.T) {
	model := Config{KVTokens: 8192, ContextTokens: 2048}
	from, fromURL := startWorker(t, ServerConfig{Key: transferKey}, model)
	const blocks = 6
	r := transferPrompt(t, from)
	r.Prompt = r.Prompt[:blocks*compute.BlockTokens+3]
	want, _, _ := askTransfer(t, from, r)
	source := sourceOf(from, fromURL)
	input, err := json.Marshal(killedFetch{
		URL:    source.URL,
		Ticket: source.Ticket,
		Format: from.awake.format,
		Names:  parley.AppendBlockHashes(nil, parley.BlockHash{}, r.Salt, r.Prompt, compute.BlockTokens),
	})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const frame = 5
	for cut := range 2*blocks + 1 {
		cmd := exec.CommandContext(t.Context(), self, "-test.run", "^TestIsKilledWhileFetching$", "-kill-after",
			strconv.Itoa(cut*frame/2))
		cmd.Stdin = bytes.NewReader(input)
		out, err := cmd.CombinedOutput()
		if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
			t.Fatalf("cut %d: %v, %s", cut, err, out)
		}
	}
	deadline := time.Now().Add(time.Minute)
	for held := true; held; time.Sleep(time.Millisecond) {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		held = from.peer.Held() > 0 || strings.Contains(string(maps), "memfd:parley-blocks")
		if held && time.Now().After(deadline) {
			t.Fatalf("%d bytes are still held:\n%s", from.peer.Held(), maps)
		}
	}
	to, _ := startWorker(t, ServerConfig{Key: transferKey, Fetch: kvwire.Config{ShareFrom: 1}}, model)
	fetching := *r
	fetching.Fetch = source
	if got, _, moved := askTransfer(t, to, &fetching); !slices.Equal(got, want) || moved.Miss != "" || !moved.Shared {
		t.Errorf("%v, want %v; %+v", got, want, moved)
	}
	sound(t, from, to)
}

// A killedFetch is what the other process is to fetch.
type killedFetch struct {
	URL, Ticket string
	Format      kvwire.Format
	Names       []parley.BlockHash
}

// TestIsKilledWhileFetching is the other process of TestAReceiverIsKilledAtEveryStep.
func TestIsKilledWhileFetching(t *testing.T) {
	if *killAfter < 0 {
		t.Skip("NOT RUN: part of TestAReceiverIsKilledAtEveryStep")
	}
	var in killedFetch
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		t.Fatal(err)
	}
	f := kvwire.Fetch{
		URL:    in.URL,
		Ticket: in.Ticket,
		Format: in.Format,
		Names:  in.Names,
		Put:    func(context.Context, ...[]byte) error { return nil },
	}
	c := kvwire.Client{HTTP: &http.Client{Transport: killedTransport{kvwire.NewTransport(nil)}},
		Config: kvwire.Config{ShareFrom: 1}}
	n, err := c.Run(t.Context(), &f)
	t.Errorf("%d blocks came: %v", n, err)
}

// A killedTransport kills this process after killAfter bytes of a response have been read.
type killedTransport struct{ http.RoundTripper }

func (k killedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := k.RoundTripper.RoundTrip(r)
	if err == nil {
		some := io.LimitReader(resp.Body, int64(*killAfter))
		resp.Body = closeReader{io.MultiReader(some, &onRead{kill, resp.Body}), resp.Body}
	}
	return resp, err
}

func kill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// TestAHungWorkerForPrompts stops the process of the only worker for prompts, without a word, before a fleet has sent
// it the first one: when its time is up the worker that decodes computes the prompt itself, with the same tokens.
func TestAHungWorkerForPrompts(t *testing.T) {
	prompts, promptsURL := startProcess(t, "worker prefill")
	decode, decodeURL := startWorker(t, ServerConfig{Key: transferKey, Role: parley.RoleDecode}, handOverModel())
	f := startFleetWith(t, route.Config{FirstPrompt: time.Millisecond, FetchGain: 1e6}, promptsURL, decodeURL)
	reference := startHost(t, openBuiltin(t, "polly-mini"), Config{Name: "polly-mini", ContextTokens: 1024})
	if err := prompts.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = prompts.Process.Signal(syscall.SIGCONT) }()
	r := gapRequest(rand.New(rand.NewPCG(24, 14)), 600, 24)
	want := answer(t, reference, r)
	got, u, all := askFleet(t, f, r)
	last := &all[len(all)-1]
	if !slices.Equal(got, want) || u.Routing.Worker != "w1" || last.Worker != "w1" {
		t.Errorf("%v, want %v; %+v", got, want, all)
	}
	if last.Transfer == nil || last.Transfer.Miss != "too slow" || last.Transfer.CameTokens != 0 {
		t.Errorf("%+v", last.Transfer)
	}
	sound(t, decode)
}
