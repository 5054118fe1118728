package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

func itoa(n int) string { return strconv.Itoa(n) }

// settled waits until every goroutine is idle and checks that nothing of the
// request is left.
func (s *server) settled(w *worker) {
	s.t.Helper()
	synctest.Wait()
	if n := w.active.Load(); n != 0 {
		s.t.Errorf("%d requests are still with the worker", n)
	}
	s.wantMetric("parley_requests_in_flight", "0")
}

func TestCancelMidStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "one two three four five six seven", time.Second)}
		s := start(t, w)
		ctx, cancel := context.WithCancel(t.Context())
		response := s.open(ctx, "POST", "/v1/chat/completions", chatBody(`,"stream":true`))
		line, err := bufio.NewReader(response.Body).ReadString('\n')
		if err != nil || !strings.Contains(line, "assistant") {
			t.Fatalf("%q, %v", line, err)
		}
		if w.active.Load() != 1 {
			t.Fatal("the request is not with the worker")
		}
		before := time.Now()
		cancel()
		s.settled(w)
		if waited := time.Since(before); waited != 0 {
			t.Errorf("the worker let go after %v", waited)
		}
		s.wantMetric(`parley_http_requests_total{code="499",route="/v1/chat/completions"}`, "1")
		s.wantMetric(`parley_finish_total{reason="cancelled"}`, "1")
		s.wantLog("status=499", "cancelled=true")
	})
}

func TestCancelWhileQueued(t *testing.T) {
	for _, extra := range []string{"", `,"stream":true`} {
		synctest.Test(t, func(t *testing.T) {
			w := &worker{script: speak(t, "late", time.Hour)}
			s := start(t, w)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			done := make(chan error)
			go func() {
				_, err := s.request(ctx, extra)
				done <- err
			}()
			if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			s.settled(w)
			s.wantMetric(`parley_http_requests_total{code="499",route="/v1/chat/completions"}`, "1")
		})
	}
}

func (s *server) request(ctx context.Context, extra string) (string, error) {
	r := mustRequest(s.t, ctx, chatBody(extra))
	response, err := s.client.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "A b", 40*time.Second)}
		s := start(t, w)
		_, body := s.chat(`,"stream":true`)
		var got []string
		for line := range strings.Lines(body) {
			switch {
			case line == ": ping\n":
				got = append(got, "ping")
			case strings.Contains(line, `"content":"A"`):
				got = append(got, "A")
			case strings.Contains(line, `"content":" b"`):
				got = append(got, "b")
			}
		}
		if want := "ping ping A ping ping b"; strings.Join(got, " ") != want {
			t.Errorf("got %v, want %s", got, want)
		}
	})
}

// TestErrorAfterPing shows the price of keep-alive: the status is out.
func TestErrorAfterPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: func(*parley.Request) []say {
			return []say{{after: 50 * time.Second, err: parley.Errorf(parley.Overloaded, "No room.")}}
		}}
		s := start(t, w)
		status, body := s.chat(`,"stream":true`)
		want := strings.Repeat(": ping\n\n",
			3) +
			`data: {"error":{"message":"No room.","type":"server_error","param":null,"code":"overloaded","retry_after_ms":1000}}`
		if status != 200 {
			t.Errorf("status %d", status)
		}
		wantBody(t, body, want)
	})
}

func TestErrorBeforeFirstToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: func(*parley.Request) []say {
			return []say{{after: time.Second, err: parley.Errorf(parley.Overloaded, "No room.")}}
		}}
		s := start(t, w)
		for _, extra := range []string{"", `,"stream":true`} {
			response, body := s.do("POST", "/v1/chat/completions", chatBody(extra))
			if response.StatusCode != 503 || response.Header.Get("Retry-After") != "1" ||
				response.Header.Get("Content-Type") != "application/json" {
				t.Errorf("status %d, header %v", response.StatusCode, response.Header)
			}
			wantBody(t, body, `{"error":{"message":"No room.","type":"server_error","param":null,"code":"overloaded"}}`)
		}
		s.wantMetric(`parley_finish_total{reason="error"}`, "2")
		s.settled(w)
	})
}

func TestErrorMidStream(t *testing.T) {
	spoken := func(d parley.Delta) []say { return []say{{after: time.Second, delta: d}} }
	for name, rest := range map[string][]say{
		"error":        {{after: time.Second, err: errors.New("secret: block 7 is gone")}},
		"panic":        {{after: time.Second, panic: "secret"}},
		"no usage":     spoken(parley.Delta{Finish: parley.FinishStop}),
		"no finish":    spoken(parley.Delta{Usage: &parley.Usage{}}),
		"wrong choice": spoken(parley.Delta{Choice: 3}),
		"more after the end": append(spoken(parley.Delta{Finish: parley.FinishStop}),
			spoken(parley.Delta{Tokens: []parley.Token{9}})...),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &worker{script: func(r *parley.Request) []say {
					return append([]say{{delta: parley.Delta{Tokens: tokensOf(t, "A")}}}, rest...)
				}}
				s := start(t, w)
				status, body := s.chat(`,"stream":true`)
				if status != 200 || !strings.Contains(body, `"content":"A"`) {
					t.Errorf("status %d: %s", status, body)
				}
				events := strings.Split(strings.TrimSpace(body), "\n\n")
				want := `data: {"error":{"message":"The server had an error while processing your request. You can retry it, or report it with the request ID req_ID.","type":"server_error","param":null,"code":null}}`
				wantBody(t, events[len(events)-1], want)
				if strings.Contains(body, "secret") || strings.Contains(body, "[DONE]") {
					t.Errorf("got %s", body)
				}
				if status, body := s.chat(""); status != 500 || strings.Contains(body, "secret") {
					t.Errorf("whole: status %d: %s", status, body)
				}
				s.settled(w)
				s.wantLog("level=ERROR", "code=internal")
			})
		})
	}
}

// TestSlowClient reads nothing: the write deadline frees the worker.
func TestSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: func(r *parley.Request) []say {
			return speech(t, r, time.Millisecond, strings.Repeat("word ", 3000))
		}}
		s := start(t, w)
		response := s.open(t.Context(), "POST", "/v1/chat/completions", chatBody(`,"stream":true`))
		before := time.Now()
		time.Sleep(writeWaitDefault + 10*time.Second)
		synctest.Wait()
		if n := w.active.Load(); n != 0 {
			t.Errorf("the worker still has %d requests after %v", n, time.Since(before))
		}
		response.Body.Close()
		s.settled(w)
		s.wantMetric(`parley_http_requests_total{code="499",route="/v1/chat/completions"}`, "1")
	})
}

// TestSlowWriter sends half a body and stops.
func TestSlowWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{})
		reader, writer := io.Pipe()
		go writer.Write([]byte(`{"model":`))
		r := mustRequest(t, t.Context(), "")
		r.Body, r.ContentLength = reader, 500
		response, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		writer.Close()
		if response.StatusCode != 400 || !strings.Contains(string(body), "did not arrive within 1m0s") {
			t.Errorf("status %d: %s", response.StatusCode, body)
		}
	})
}

func TestConcurrentStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: func(r *parley.Request) []say {
			return speech(t, r, time.Second, "seed "+itoa(int(r.Sampling.Seed)))
		}}
		s := start(t, w)
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				body, err := s.request(t.Context(), `,"stream":true,"seed":`+itoa(100+i))
				if err != nil {
					t.Error(err)
				}
				if got := streamedText(body); got != "seed "+itoa(100+i) {
					t.Errorf("stream %d says %q", i, got)
				}
			})
		}
		time.Sleep(time.Second / 2)
		synctest.Wait()
		if n := w.active.Load(); n != 8 {
			t.Errorf("%d requests run at once", n)
		}
		s.wantMetric("parley_requests_in_flight", "8")
		group.Wait()
		s.settled(w)
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "one two", 10*time.Second)}
		s := start(t, w)
		if response, body := s.do("GET", "/readyz", ""); response.StatusCode != 200 ||
			body != "{\"status\":\"ready\"}\n" {
			t.Errorf("ready: %d %s", response.StatusCode, body)
		}
		done := make(chan string)
		go func() {
			body, err := s.request(t.Context(), `,"stream":true`)
			if err != nil {
				t.Error(err)
			}
			done <- body
		}()
		synctest.Wait()
		s.gateway.Drain()
		for _, path := range []string{"/v1/chat/completions", "/readyz"} {
			method, body := "POST", chatBody("")
			if path == "/readyz" {
				method, body = "GET", ""
			}
			if response, _ := s.do(method, path, body); response.StatusCode != 503 ||
				response.Header.Get("Retry-After") == "" {
				t.Errorf("%s gives %d while draining", path, response.StatusCode)
			}
		}
		if response, _ := s.do("GET", "/healthz", ""); response.StatusCode != 200 {
			t.Errorf("healthz gives %d while draining", response.StatusCode)
		}
		if got := streamedText(<-done); got != "one two" {
			t.Errorf("the running stream says %q", got)
		}
	})
}
