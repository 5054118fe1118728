package gateway

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

// ask sends a chat and returns the answer without what differs by request.
func (s *server) ask(key, extra string, headers ...string) (header http.Header, body string) {
	response := s.open(s.t.Context(), "POST", "/v1/chat/completions", chatBody(extra), append(headers, "Authorization", "Bearer "+key)...)
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
			w := &worker{script: func(r *parley.Request) []say { return speech(t, r, time.Second, "one two three four", "five six") }}
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
		if a, b := plain(computed), plain(kept); a[:strings.Index(a, created)] != b[:strings.Index(b, created)] || a[strings.Index(a, `"choices"`):] != b[strings.Index(b, `"choices"`):] {
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
		"equal":               {first: [2]string{"a", `,"temperature":0`}, second: [2]string{"a", `,"temperature":0`}, shared: true},
		"another tenant":      {first: [2]string{"a", `,"temperature":0`}, second: [2]string{"b", `,"temperature":0`}},
		"another seed":        {first: [2]string{"a", `,"seed":1`}, second: [2]string{"a", `,"seed":2`}},
		"another length":      {first: [2]string{"a", `,"temperature":0,"max_tokens":5`}, second: [2]string{"a", `,"temperature":0,"max_tokens":6`}},
		"another stop":        {first: [2]string{"a", `,"temperature":0,"stop":"x"`}, second: [2]string{"a", `,"temperature":0,"stop":"y"`}},
		"no seed":             {first: [2]string{"a", ""}, second: [2]string{"a", ""}},
		"seed without choice": {first: [2]string{"a", `,"temperature":0,"seed":1`}, second: [2]string{"a", `,"temperature":0,"seed":2`}, shared: true},
		"no-store":            {first: [2]string{"a", `,"temperature":0`}, second: [2]string{"a", `,"temperature":0`}, header: "no-store"},
		"no-cache in flight":  {first: [2]string{"a", `,"temperature":0`}, second: [2]string{"a", `,"temperature":0`}, header: "no-cache", shared: true},
		"off":                 {first: [2]string{"a", `,"temperature":0`}, second: [2]string{"a", `,"temperature":0`}, change: func(c *Config) { c.Share.Off = true }},
		"any temperature":     {first: [2]string{"a", ""}, second: [2]string{"a", ""}, change: func(c *Config) { c.Share.AnyTemperature = true }, shared: true},
		"a public model":      {first: [2]string{"a", `,"temperature":0`}, second: [2]string{"b", `,"temperature":0`}, change: func(c *Config) { c.Share.PublicModels = []string{modelID} }, shared: true},
		"a public prompt":     {first: [2]string{"a", `,"temperature":0`}, second: [2]string{"b", `,"temperature":0`}, change: func(c *Config) { c.Share.PublicPrompts = []string{"Hi"} }, shared: true},
		"another prompt":      {first: [2]string{"a", `,"temperature":0`}, second: [2]string{"b", `,"temperature":0`}, change: func(c *Config) { c.Share.PublicPrompts = []string{"Ho"} }},
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

// TestSlowMember does not read; another one is not held up, and the worker runs
// no further ahead of the fastest than it would of one alone.
func TestSlowMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.TrimSpace(strings.Repeat("word ", 2000))
		w := &worker{script: func(r *parley.Request) []say { return speech(t, r, time.Millisecond, text) }}
		s := start(t, w)
		slow := s.open(t.Context(), "POST", "/v1/chat/completions", chatBody(`,"temperature":0,"stream":true`))
		defer slow.Body.Close()
		time.Sleep(time.Second) // it could have written a thousand
		synctest.Wait()
		s.gateway.shares.mu.Lock()
		for _, f := range s.gateway.shares.flights {
			if ahead := len(f.deltas) - f.reached; ahead > eventsPending+1 || len(f.deltas) > 3*eventsPending {
				t.Errorf("the flight is %d ahead, at %d", ahead, len(f.deltas))
			}
		}
		s.gateway.shares.mu.Unlock()
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
		for _, end := range []say{{after: time.Second, err: parley.Errorf(parley.Overloaded, "No room.")}, {after: time.Second, panic: "no"}} {
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

// TestPaidDoesNotWaitForFree: one of a higher class does not join a request that
// still waits for its turn.
func TestPaidDoesNotWaitForFree(t *testing.T) {
	f := &flight{class: parley.Free, members: 1}
	if f.enter(parley.Pro) {
		t.Error("pro joined a free request that waits")
	}
	if !f.enter(parley.Free) {
		t.Error("free did not join")
	}
	f.deltas = make([]parley.Delta, 1)
	if !f.enter(parley.Enterprise) {
		t.Error("enterprise did not join an answer that comes")
	}
}

// TestKeyHoldsAllThatDecides changes every field of a request and wants another
// key, or the same where the field decides nothing.
func TestKeyHoldsAllThatDecides(t *testing.T) {
	same := map[string]bool{"ID": true, "Turns": true, "Class": true, "Tenant": true, "Background": true, "Deadline": true, "Salt": true, "Public": true, "Retain": true, "Purpose": true, "Resume": true, "Session": true,
		"Objective.TTFT": true, "Objective.CachedTTFT": true, "Objective.TPOT": true}
	base := parley.Request{Model: "m", Prompt: []parley.Token{1, 2}, Sampling: parley.Sampling{Temperature: 1, Seed: 3}}
	key := func(r *parley.Request) shareKey { return keyOf(wish{scope: "a", repeatable: true}, r, nil) }
	var visit func(path string, v reflect.Value, r *parley.Request)
	visit = func(path string, v reflect.Value, r *parley.Request) {
		for i := range v.NumField() {
			field, name := v.Field(i), path+v.Type().Field(i).Name
			if field.Kind() == reflect.Struct && field.Type() != reflect.TypeFor[time.Time]() {
				if !same[name] {
					visit(name+".", field, r)
				}
				continue
			}
			old := reflect.ValueOf(field.Interface())
			field.Set(changed(t, field))
			if got := key(r) == key(&base); got != same[name] {
				t.Errorf("%s: the key stays is %v", name, got)
			}
			field.Set(old)
		}
	}
	r := base
	visit("", reflect.ValueOf(&r).Elem(), &r)
	if key(&base) == keyOf(wish{scope: "b", repeatable: true}, &base, nil) || key(&base) == keyOf(wish{scope: "a"}, &base, nil) || key(&base) == keyOf(wish{scope: "a", repeatable: true}, &base, &parley.Grammar{}) {
		t.Error("the scope, the seed or the loose grammar is not in the key")
	}
}

// changed returns another value for a field.
func changed(t *testing.T, v reflect.Value) reflect.Value {
	switch x := v.Interface().(type) {
	case string:
		return reflect.ValueOf(x + "x")
	case int:
		return reflect.ValueOf(x + 7)
	case bool:
		return reflect.ValueOf(!x)
	case float32:
		return reflect.ValueOf(x + 0.5)
	case uint64:
		return reflect.ValueOf(x + 1)
	case []parley.Token:
		return reflect.ValueOf(append([]parley.Token{9}, x...))
	case []parley.Turn: // the prompt says the same
		return reflect.ValueOf([]parley.Turn{{Role: "user", Text: "a"}})
	case []string:
		return reflect.ValueOf(append([]string{"z"}, x...))
	case map[parley.Token]float32:
		return reflect.ValueOf(map[parley.Token]float32{4: 2})
	case *parley.Grammar:
		return reflect.ValueOf(&parley.Grammar{Kind: parley.GrammarObject})
	case parley.Class:
		return reflect.ValueOf(x + 1)
	case parley.Purpose:
		return reflect.ValueOf(x + "x")
	case []parley.Written:
		return reflect.ValueOf([]parley.Written{{Done: true}})
	case parley.Salt:
		return reflect.ValueOf(parley.Salt{1})
	case time.Time:
		return reflect.ValueOf(x.Add(time.Hour))
	case time.Duration:
		return reflect.ValueOf(x + 1)
	}
	t.Fatalf("a field of type %v: does it decide an answer?", v.Type())
	return v
}

// TestCacheIsBounded fills the cache with answers of all sizes.
func TestCacheIsBounded(t *testing.T) {
	c := newAnswerCache(20000, time.Minute)
	now := time.Unix(1000, 0)
	for i := range 200 {
		deltas := []parley.Delta{{Tokens: make([]parley.Token, i*7%800)}}
		c.put(shareKey{byte(i)}, deltas, now)
		if c.bytes > c.bytesMax || len(c.entries) != c.recent.Len() {
			t.Fatalf("%d bytes in %d answers", c.bytes, len(c.entries))
		}
		if i%3 == 0 {
			c.get(shareKey{byte(i - 3)}, now)
		}
	}
	if len(c.entries) < 5 {
		t.Errorf("only %d answers are kept", len(c.entries))
	}
	if c.get(shareKey{199}, now.Add(time.Minute)) != nil {
		t.Error("an answer is there after its time")
	}
}
