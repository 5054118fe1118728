package host

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
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
	to, _ := startWorker(t, ServerConfig{Key: transferKey, ShareFrom: 1}, model)
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
	c := kvwire.Client{HTTP: &http.Client{Transport: killedTransport{kvwire.NewTransport(nil)}}, ShareFrom: 1}
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
