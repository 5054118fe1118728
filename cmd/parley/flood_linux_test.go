package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// peakRSS returns the most memory that a process has had at any time, in bytes.
func peakRSS(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("the system does not say how much memory a process had")
	return 0
}

// resetPeak lets the peak begin anew.
func resetPeak(t *testing.T, pid int) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		t.Skipf("the peak of memory cannot be measured here: %v", err)
	}
}

// floodMemoryMax is what a flood of one key may add to the server's memory.
const floodMemoryMax = 200 << 20

// TestFloodOfLargeRequests sends six requests of 14 MB at once with a key of the free
// tier, each of them text that is expensive to tokenize, by every way that takes
// text: all are refused, and the server's memory hardly grows.
func TestFloodOfLargeRequests(t *testing.T) {
	data := t.TempDir()
	secret := makeKey(t, "flood", "--data", data, "--tier", "free")
	s := startServerIn(t, data, "--model", "polly-mini", "--tiers", "free.requests-per-minute=none", "--tiers",
		"free.requests-per-second=none", "--tiers", "free.concurrent-requests=none")
	smile := strings.Repeat("😀", 3_500_000)
	bodies := map[string]string{
		"/v1/chat/completions":      `{"messages":[{"role":"user","content":"` + smile + `"}]}`,
		"/v1/messages/count_tokens": `{"messages":[{"role":"assistant","content":"` + smile + `"}]}`,
		"/v1/completions":           `{"prompt":"` + smile + `"}`,
		"/v1/moderations":           `{"input":"` + smile + `"}`,
		"/v1/conversations":         `{"items":[{"role":"user","content":"` + smile + `"}]}`,
		"/v1/responses":             `{"input":"` + smile + `","store":false}`,
		"/v1/embeddings":            `{"input":"` + smile + `"}`,
	}
	if status, answer := s.post(t, secret, "/v1/chat/completions",
		`{"messages":[{"role":"user","content":"Hi"}],"max_tokens":4}`); status != http.StatusOK {
		t.Fatalf("before the flood: %d: %s", status, answer)
	}
	resetPeak(t, s.cmd.Process.Pid)
	before := peakRSS(t, s.cmd.Process.Pid)
	for path, body := range bodies {
		t.Run(strings.ReplaceAll(path[4:], "/", " "), func(t *testing.T) {
			var clients sync.WaitGroup
			for range 6 {
				clients.Go(func() {
					if status, answer := s.post(t, secret, path, body); status < 400 || status >= 500 {
						t.Errorf("%d: %.200s", status, answer)
					}
				})
			}
			clients.Wait()
			grown := peakRSS(t, s.cmd.Process.Pid) - before
			t.Logf("%s: %d MiB more", path, grown>>20)
			if grown > floodMemoryMax {
				t.Errorf("the flood took %d MiB, and may take %d", grown>>20, floodMemoryMax>>20)
			}
		})
	}
}

// post sends a body with a key, and returns the status and the answer.
func (s *server) post(t *testing.T, secret, path, body string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+secret)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err) // it is not only the test's own goroutine that asks
		return 0, ""
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}
