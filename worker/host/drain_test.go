package host

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley"
	"parley/worker"
)

// TestDrainingFinishesAllPrompts of a request that has begun: the second one, too,
// whose turn comes when nothing new is taken any more.
func TestDrainingFinishesAllPrompts(t *testing.T) {
	s, url := startWorker(t, ServerConfig{}, Config{KVTokens: 1024, ContextTokens: 512})
	resp, err := http.Post(url+"/v1/completions", "application/json",
		strings.NewReader(
			`{"prompt": [[5, 6, 7], [8, 9, 10]], "max_tokens": 100, "ignore_eos": true, "temperature": 0, "stream": true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	finished := 0
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		s.Drain()
		if strings.Contains(lines.Text(), `"error"`) {
			t.Errorf("%s", lines.Text())
		}
		finished += strings.Count(lines.Text(), `"finish_reason":"length"`)
	}
	if finished != 2 || lines.Err() != nil {
		t.Errorf("%d of 2 prompts were answered: %v", finished, lines.Err())
	}
	if status, _ := call(t, "POST", url+"/v1/completions", `{"prompt": [5]}`); status != http.StatusServiceUnavailable {
		t.Errorf("a new request gets %d", status)
	}
}

// TestSleepWaitsForNoReader puts a worker to sleep, and wakes it, while somebody has
// stopped to read the answer that it was giving.
func TestSleepWaitsForNoReader(t *testing.T) {
	s, url := startWorker(t, ServerConfig{}, Config{KVTokens: 1024, ContextTokens: 512})
	r := dialWorker(t, worker.Config{URL: url, Kind: worker.Parley, Window: 4})
	prompt := chatPrompt(t, s.awake.Host, longQuestion)
	for _, err := range r.Generate(t.Context(),
		&parley.Request{Prompt: prompt, MaxTokens: 300, Stop: parley.Stop{IgnoreEnd: true}}) {
		if err != nil {
			t.Fatal(err)
		}
		woken := make(chan struct{})
		go func() {
			defer close(woken)
			call(t, "POST", url+"/sleep?level=1", "")
			call(t, "POST", url+"/wake_up", "")
		}()
		select {
		case <-woken:
		case <-time.After(time.Minute):
			t.Error("it neither slept nor woke")
		}
		break
	}
	if code := codeOfAnswer(t, r, prompt); code != "" {
		t.Errorf("the worker that was woken answers with %q", code)
	}
}

// TestAWorkerStopsWithoutListeners makes sure that a worker that holds something stays while a gateway listens to its
// events, which may have others fetch from it, and no longer.
func TestAWorkerStopsWithoutListeners(t *testing.T) {
	for _, heard := range []bool{false, true} {
		t.Run(fmt.Sprint(heard), func(t *testing.T) {
			w := newRollingWorker(t, "w", Config{Name: "polly-mini", KVTokens: 4096, ContextTokens: 512}, "")
			w.start()
			r := dialWorker(t, worker.Config{URL: "http://" + w.addr, Kind: worker.Parley, Key: transferKey})
			if code := codeOfAnswer(t, r, make([]parley.Token, 100)); code != "" {
				t.Fatal(code)
			}
			leave := func() {}
			if heard {
				leave = listen(t, w)
			}
			w.stop()
			if heard {
				select {
				case err := <-w.ended:
					t.Fatalf("it has stopped: %v", err)
				case <-time.After(100 * time.Millisecond):
				}
				leave()
			}
			w.end()
		})
	}
}

// listen reads a worker's events until the function that it returns is called.
func listen(t *testing.T, w *rollingWorker) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	url := fmt.Sprintf("http://%s%s?from=1&instance=%s", w.addr, worker.EventsPath, w.server.instance)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+transferKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	return func() {
		cancel()
		resp.Body.Close()
	}
}
