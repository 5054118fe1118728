package gateway

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

// ask sends a chat and returns the answer without what differs by request.
func (s *server) ask(key, extra string, headers ...string) (header http.Header, body string) {
	response := s.open(s.t.Context(), "POST", "/v1/chat/completions", chatBody(extra),
		append(headers, "Authorization", "Bearer "+key)...)
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != 200 {
		s.t.Errorf("%d, %v: %s", response.StatusCode, err, all)
	}
	return response.Header, string(all)
}

func (w *worker) times() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.asked)
}

// TestOneGenerationForAll lets clients join at different times, streaming and
// not, in all the forms an answer can have; each gets all of it.
func TestOneGenerationForAll(t *testing.T) {
	for _, extra := range []string{`,"temperature":0`, `,"seed":5,"temperature":1`, `,"temperature":0,"n":3`,
		`,"temperature":0,"logprobs":true,"top_logprobs":1`, `,"temperature":0,"stop":"three"`} {
		synctest.Test(t, func(t *testing.T) {
			w := &worker{script: func(r *parley.Request) []say {
				return speech(t, r, time.Second, "one two three four", "five six")
			}}
			s := start(t, w)
			var group sync.WaitGroup
			texts := make([]string, 30)
			for i := range texts {
				group.Go(func() {
					header, body := s.ask("a", extra+`,"stream":true`)
					texts[i] = streamedText(body)
					if shared := header.Get("X-Answer-Shared") == "true"; shared != (i > 0) {
						t.Errorf("client %d: shared is %v", i, shared)
					}
				})
				if i%10 == 0 {
					time.Sleep(1500 * time.Millisecond)
				}
			}
			group.Wait()
			for i, text := range texts {
				if text != texts[0] || !strings.HasPrefix(text, "one two") {
					t.Errorf("client %d reads %q, the first %q", i, text, texts[0])
				}
			}
			before := time.Now()
			if _, body := s.ask("a", extra); !strings.Contains(body, `"cached_tokens":35`) {
				t.Errorf("a kept answer is %s", body)
			}
			if waited := time.Since(before); waited != 0 {
				t.Errorf("a kept answer takes %v", waited)
			}
			if n := w.times(); n != 1 {
				t.Errorf("%s: the worker was asked %d times", extra, n)
			}
			s.settled(w)
			s.wantMetric(`parley_share_requests_total{result="led"}`, "1")
			s.wantMetric("parley_share_flights", "0")
		})
	}
}

// TestKeptAnswerIsTheSame compares whole bodies: computed, joined and kept.
func TestKeptAnswerIsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: func(r *parley.Request) []say { return speech(t, r, time.Second, "one two", "three") }}
		s := start(t, w)
		plain := func(body string) string {
			body = anonymous(body)
			body, _, _ = strings.Cut(body, `"usage"`)
			return body
		}
		const extra = `,"temperature":0,"n":2,"logprobs":true,"top_logprobs":2`
		_, computed := s.ask("a", extra)
		_, kept := s.ask("a", extra)
		created := `"created":`
		if a, b := plain(computed), plain(kept); a[:strings.Index(a, created)] != b[:strings.Index(b, created)] ||
			a[strings.Index(a, `"choices"`):] != b[strings.Index(b, `"choices"`):] {
			t.Errorf("computed\n%s\nkept\n%s", a, b)
		}
	})
}

func TestWhatIsNotShared(t *testing.T) {
	for name, c := range map[string]struct {
		first, second [2]string // tenant and members
		header        string
		change        func(*Config)
		shared        bool
	}{
		"equal": {first: [2]string{"a", `,"temperature":0`}, second: [2]string{"a", `,"temperature":0`},
			shared: true},
		"another tenant": {first: [2]string{"a", `,"temperature":0`}, second: [2]string{"b", `,"temperature":0`}},
		"another seed":   {first: [2]string{"a", `,"seed":1`}, second: [2]string{"a", `,"seed":2`}},
		"another length": {first: [2]string{"a", `,"temperature":0,"max_tokens":5`},
			second: [2]string{"a", `,"temperature":0,"max_tokens":6`}},
		"another stop": {first: [2]string{"a", `,"temperature":0,"stop":"x"`},
			second: [2]string{"a", `,"temperature":0,"stop":"y"`}},
		"no seed": {first: [2]string{"a", ""}, second: [2]string{"a", ""}},
		"seed without choice": {first: [2]string{"a", `,"temperature":0,"seed":1`},
			second: [2]string{"a", `,"temperature":0,"seed":2`}, shared: true},
		"no-store": {first: [2]string{"a", `,"temperature":0`}, second: [2]string{"a", `,"temperature":0`},
			header: "no-store"},
		"no-cache in flight": {first: [2]string{"a", `,"temperature":0`}, second: [2]string{"a", `,"temperature":0`},
			header: "no-cache", shared: true},
		"off": {first: [2]string{"a", `,"temperature":0`}, second: [2]string{"a", `,"temperature":0`},
			change: func(c *Config) { c.Share.Off = true }},
		"any temperature": {first: [2]string{"a", ""}, second: [2]string{"a", ""}, change: func(c *Config) {
			c.Share.AnyTemperature = true
		}, shared: true},
		"a public model": {first: [2]string{"a", `,"temperature":0`}, second: [2]string{"b", `,"temperature":0`},
			change: func(c *Config) { c.Share.PublicModels = []string{modelID} }, shared: true},
		"a public model and a salt": {first: [2]string{"a", `,"temperature":0`},
			second: [2]string{"b", `,"temperature":0,"cache_salt":"own"`},
			change: func(c *Config) { c.Share.PublicModels = []string{modelID} }},
		"a public prompt": {first: [2]string{"a", `,"temperature":0`}, second: [2]string{"b", `,"temperature":0`},
			change: func(c *Config) { c.Share.PublicPrompts = []string{"Hi"} }, shared: true},
		"another prompt": {first: [2]string{"a", `,"temperature":0`}, second: [2]string{"b", `,"temperature":0`},
			change: func(c *Config) { c.Share.PublicPrompts = []string{"Ho"} }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &worker{script: speak(t, "one two", time.Second)}
				change := c.change
				if change == nil {
					change = func(*Config) {}
				}
				s := start(t, w, change)
				s.gateway.who = byKey
				var headers []string
				if c.header != "" {
					headers = []string{"Cache-Control", c.header}
				}
				var group sync.WaitGroup
				group.Go(func() { s.ask(c.first[0], c.first[1]) })
				time.Sleep(time.Second / 2)
				s.ask(c.second[0], c.second[1], headers...)
				group.Wait()
				if shared := w.times() == 1; shared != c.shared {
					t.Errorf("shared is %v", shared)
				}
				s.settled(w)
			})
		})
	}
}

func TestCacheForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "one", time.Second)}
		s := start(t, w, func(c *Config) { c.Share.TTL = time.Minute })
		ask := func(want int, headers ...string) {
			t.Helper()
			s.ask("a", `,"temperature":0`, headers...)
			if n := w.times(); n != want {
				t.Errorf("the worker was asked %d times, want %d", n, want)
			}
		}
		ask(1)
		time.Sleep(59 * time.Second)
		ask(1)
		ask(2, "Cache-Control", "no-cache")
		time.Sleep(time.Minute)
		ask(3)
		s.wantMetric("parley_share_kept_answers", "1")
	})
}

// TestLeavingAFlight: the first may go, and all but one of the others; the last
// one who leaves ends it.
func TestLeavingAFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "one two three four five six", time.Second)}
		s := start(t, w)
		join := func() (leave context.CancelFunc, rest func() string) {
			ctx, cancel := context.WithCancel(t.Context())
			response := s.open(ctx, "POST", "/v1/chat/completions", chatBody(`,"temperature":0,"stream":true`))
			reader := bufio.NewReader(response.Body)
			if _, err := reader.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			return cancel, func() string {
				defer response.Body.Close()
				all, _ := io.ReadAll(reader)
				return streamedText(string(all))
			}
		}
		first, _ := join()
		second, _ := join()
		third, rest := join()
		first()
		second()
		synctest.Wait()
		if n := w.active.Load(); n != 1 {
			t.Fatalf("%d generations go on", n)
		}
		if got := rest(); got != "one two three four five six" {
			t.Errorf("the one who stayed reads %q", got)
		}
		third()
		s.settled(w)

		w.script = speak(t, "seven eight nine", time.Hour/90)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		response := s.open(ctx, "POST", "/v1/chat/completions", chatBody(`,"seed":1,"stream":true`))
		_, _ = io.ReadAll(response.Body)
		response.Body.Close()
		s.settled(w)
		s.wantMetric("parley_share_kept_answers", "1") // of the first answer only
		s.wantMetric("parley_share_flights", "0")
	})
}

// TestSlowMember does not read; another one is not held up.
func TestSlowMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.TrimSpace(strings.Repeat("word ", 2000))
		w := &worker{script: func(r *parley.Request) []say { return speech(t, r, time.Millisecond, text) }}
		s := start(t, w)
		slow := s.open(t.Context(), "POST", "/v1/chat/completions", chatBody(`,"temperature":0,"stream":true`))
		defer slow.Body.Close()
		time.Sleep(time.Second) // it could have written a thousand
		synctest.Wait()
		before := time.Now()
		_, body := s.ask("a", `,"temperature":0,"stream":true`)
		if got := streamedText(body); got != text {
			t.Errorf("the other reads %d bytes of %d", len(got), len(text))
		}
		if waited := time.Since(before); waited > writeWaitDefault/3 {
			t.Errorf("the other waited for %v", waited)
		}
		if w.times() != 1 {
			t.Errorf("the worker was asked %d times", w.times())
		}
	})
}

// TestSharedFailure: all members hear of it, and nothing of it is kept.
func TestSharedFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, end := range []say{{after: time.Second, err: parley.Errorf(parley.Overloaded, "No room.")},
			{after: time.Second, panic: "no"}} {
			w := &worker{script: func(*parley.Request) []say { return []say{end} }}
			s := start(t, w)
			var group sync.WaitGroup
			for range 3 {
				group.Go(func() {
					response, _ := s.do("POST", "/v1/chat/completions", chatBody(`,"temperature":0`))
					if response.StatusCode < 500 {
						t.Errorf("status %d", response.StatusCode)
					}
				})
			}
			group.Wait()
			if w.times() != 1 {
				t.Errorf("the worker was asked %d times", w.times())
			}
			s.settled(w)
			s.wantMetric("parley_share_kept_answers", "0")
			s.wantMetric("parley_share_flights", "0")
		}
	})
}
