package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"parley/cli/remote"
	"parley/gateway/admin"
)

func busyPicture() *admin.Picture {
	return &admin.Picture{
		Verdict: admin.Diagnosis{Bottleneck: admin.ByKV,
			Sentence: "The key/value memory of polly is 97% in use, and 4 wait for memory.", Do: "Add a worker."},
		Running: 12, Waiting: map[string]int{"free": 3, "pro": 1}, WaitSeconds: 2.5,
		Rates: admin.Rates{Requests: 3.2, Decode: 480, Prefill: 120},
		TTFT:  admin.Spread{P50: 0.2, P95: 1.4, Count: 9}, Gap: admin.Spread{P50: 0.02, P95: 0.031}, Hits: 0.61,
		Promises: []admin.Promise{{Name: "ttft", Goal: 0.95, Limit: 1, Kept: 0.91, Count: 100, Burn5m: 1.8,
			Burn1h: 0.6}},
		Queues: []admin.QueuePicture{{Queue: admin.Queue{Model: "polly", ModelBreaker: "open",
			WorkerBreaker: "closed"}}},
		Workers: []admin.Worker{{Name: "polly", State: "up", KV: 0.97, Busy: 0.5, Running: 12},
			{Name: "gone", State: "down"}},
	}
}

func TestTopNamesTheBottleneck(t *testing.T) {
	for _, width := range []int{20, 80, 300} {
		got := drawTop("http://x", []*admin.Picture{{}, busyPicture()}, width, false)
		for _, want := range []string{"97% in use", "Add a worker.", "91.00%", "within 1.0 s", "pro 1 free 3", "1.4 s",
			"480/s", "hit rate 61%", "breaker of the model open", "down", "kv "} {
			if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
				t.Errorf("width %d: there is no %q in\n%s", width, want, got)
			}
		}
	}
}

func TestTopScreen(t *testing.T) {
	s := &topScreen{root: "http://x"}
	for range 2 * topPictures {
		s.add(busyPicture())
	}
	if n := len(s.recent); n != topPictures {
		t.Errorf("%d pictures are remembered", n)
	}
	s.lost(remote.ErrCut)
	if text := s.text(80); !strings.Contains(text, "Retrying") || !strings.Contains(text, "97%") {
		t.Errorf("the screen says\n%s", text)
	}
	if got, want := frame("a\nb\nc\n", 2), "\x1b[Ha\x1b[K\nb\x1b[J"; got != want {
		t.Errorf("the frame is %q, not %q", got, want)
	}
}

func TestTopOnce(t *testing.T) {
	s := startServer(t, "--model", "polly")
	out, err := exec.Command("parley", "top", "--once", "--json", "--url", s.url).Output()
	var p admin.Picture
	if err != nil || json.Unmarshal(out, &p) != nil || p.Verdict.Sentence == "" || len(p.Workers) != 1 {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := exec.Command("parley", "top", "--url", s.url).Output(); err != nil ||
		!strings.Contains(string(out), "polly") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := exec.Command("parley", "top", "--url", "http://127.0.0.1:1").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "parley serve") {
		t.Errorf("no server: %s", out)
	}
}
