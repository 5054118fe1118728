package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

func question(rest byte, text string, vector ...float32) *nearQuestion {
	v, _ := unit(vector)
	return &nearQuestion{rest: [32]byte{rest}, numbers: numbersIn(text), vector: v}
}

func TestNearQuestions(t *testing.T) {
	first := question(1, "How tall is K2, in 2024?", 1, 0.1)
	for name, c := range map[string]struct {
		q    *nearQuestion
		near bool
	}{
		"the same":              {question(1, "K2 2024", 1, 0.1), true},
		"longer":                {question(1, "K2 2024", 20, 2), true},
		"near":                  {question(1, "K2 2024", 1, 0.15), true},
		"not near enough":       {question(1, "K2 2024", 1, 0.5), false},
		"the opposite":          {question(1, "K2 2024", -1, -0.1), false},
		"another number":        {question(1, "K2 2025", 1, 0.1), false},
		"numbers in disorder":   {question(1, "2024 K2", 1, 0.1), false},
		"other circumstances":   {question(2, "K2 2024", 1, 0.1), false},
		"another vector's size": {question(1, "K2 2024", 1, 0.1, 0), false},
	} {
		s := nearSet{least: 0.98}
		e := s.lead(first)
		if found, similarity := s.find(c.q, time.Time{}); (found == e) != c.near || found != nil && similarity < 0.98 {
			t.Errorf("%s: found %v with %v", name, found, similarity)
		}
	}
}

func TestNearSetIsBounded(t *testing.T) {
	s, now := nearSet{least: 0.98}, time.Unix(1000, 0)
	long := s.lead(question(0, "", 1))
	if s.keep(long, nil, nearTokens/4+1, now) {
		t.Error("an answer without bounds is kept")
	}
	s.drop(long)
	for i := range 3 * nearKept {
		e := s.lead(question(byte(i%256), fmt.Sprint(i), 1))
		if e == nil {
			t.Fatalf("no room for question %d", i)
		}
		s.keep(e, make([]parley.Delta, 1), nearTokens/8, now)
		if len(s.entries) > nearKept || s.tokens > nearTokens {
			t.Fatalf("%d entries with %d tokens", len(s.entries), s.tokens)
		}
	}
	last := question(255, fmt.Sprint(3*nearKept-1), 1)
	if e, _ := s.find(last, now.Add(nearFor)); e == nil {
		t.Error("an answer is forgotten before its time")
	}
	if e, _ := s.find(last, now.Add(nearFor+1)); e != nil || len(s.entries) != 0 || s.tokens != 0 {
		t.Errorf("after their time %d entries with %d tokens are left", len(s.entries), s.tokens)
	}
	for i := range nearKept {
		s.lead(question(byte(i%256), fmt.Sprint(i), 1))
	}
	if s.lead(question(9, "one more", 1)) != nil {
		t.Error("questions without an answer make room for more")
	}
}

// meaning is a worker that says what the prompt's last word was, after a while,
// and embeds a text by whether it is about cats.
func meaning(t *testing.T) *worker {
	w := &worker{}
	w.script = func(r *parley.Request) []say {
		text := tinyTokenizer().Decode(r.Prompt, false)
		if r.Embed {
			v := []float32{0, 1}
			if strings.Contains(text, "cat") {
				v = []float32{1, float32(strings.Count(text, "!")) / 10}
			}
			return []say{{delta: parley.Delta{Embedding: v, Finish: parley.FinishStop, Usage: &parley.Usage{PromptTokens: len(r.Prompt)}}}}
		}
		return speech(t, r, time.Second, "about "+fmt.Sprint(len(r.Prompt)))
	}
	return w
}

func ask(text, extra string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]%s}`, modelID, text, extra)
}

// answers counts the requests for an answer, not for an embedding.
func (w *worker) answers() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.asked {
		if !r.Embed {
			n++
		}
	}
	return n
}

func nearDuplicates(c *Config) { c.NearDuplicates = 0.98 }

func TestNearDuplicatesTakeOneAnswer(t *testing.T) {
	for _, extra := range []string{"", `,"stream":true,"stream_options":{"include_usage":true}`} {
		synctest.Test(t, func(t *testing.T) {
			w := meaning(t)
			s := start(t, w, nearDuplicates)
			var group sync.WaitGroup
			bodies, headers := make([]string, 5), make([]string, 5)
			for i := range bodies {
				group.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					response, body := s.do("POST", "/v1/chat/completions", ask("a cat"+strings.Repeat("!", i%2), extra))
					bodies[i], headers[i] = body, response.Header.Get(nearHeader)
				})
			}
			group.Wait()
			if n := w.answers(); n != 1 {
				t.Errorf("%d answers were computed", n)
			}
			for i, body := range bodies {
				if !strings.Contains(body, `"finish_reason":"stop"`) || strings.Contains(body, `"near_duplicate":`) != (i > 0) || (headers[i] != "") != (i > 0) {
					t.Errorf("%d: header %q: %s", i, headers[i], body)
				}
			}
			if headers[1] != "0.9950" {
				t.Errorf("the similarity is %q", headers[1])
			}
			if response, _ := s.do("POST", "/v1/chat/completions", ask("a cat", "")); extra == "" && response.Header.Get(nearHeader) != "1.0000" {
				t.Errorf("an answer of before is not taken: %v", response.Header)
			}
			time.Sleep(nearFor + time.Second)
			if response, _ := s.do("POST", "/v1/chat/completions", ask("a cat", extra)); response.Header.Get(nearHeader) != "" {
				t.Error("an old answer is taken")
			}
			s.settled(w)
			s.wantLog("near_duplicate=0.995")
		})
	}
}

func TestNearDuplicatesKeepApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := meaning(t)
		s := start(t, w, nearDuplicates)
		for i, body := range []string{
			ask("a cat", ""), ask("a dog", ""), ask("a cat 7", ""), ask("a cat", `,"temperature":0.5`), ask("a cat", `,"max_tokens":3`), ask("a cat", `,"seed":4`),
			ask("a cat", `,"stop":"x"`), ask("a cat", `,"n":2`), ask("a cat", `,"logprobs":true`), ask("a cat", `,"response_format":{"type":"json_object"}`),
			`{"model":"` + modelID + `","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"a cat"}]}`,
		} {
			if response, _ := s.do("POST", "/v1/chat/completions", body); response.Header.Get(nearHeader) != "" || w.answers() != i+1 {
				t.Errorf("%s takes the answer to another question", body)
			}
		}
		off := start(t, w)
		before := len(w.asked)
		off.do("POST", "/v1/chat/completions", ask("a cat", ""))
		off.do("POST", "/v1/chat/completions", ask("a cat", ""))
		if len(w.asked) != before+2 {
			t.Errorf("a server that compares nothing asked %d times", len(w.asked)-before)
		}
	})
}

// TestNearLeaderLeaves shows that those who wait are answered, whatever becomes
// of the one they wait for.
func TestNearLeaderLeaves(t *testing.T) {
	for _, how := range []string{"cancel", "error", "panic"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := meaning(t)
				answer, broken := w.script, false
				w.script = func(r *parley.Request) []say {
					said := answer(r)
					if !r.Embed && !broken {
						broken = true
						said[1].err, said[1].panic = map[string]error{"error": fmt.Errorf("secret")}[how], map[string]string{"panic": "secret"}[how]
					}
					return said
				}
				s := start(t, w, nearDuplicates)
				var group sync.WaitGroup
				ctx, cancel := context.WithCancel(t.Context())
				group.Go(func() {
					r := mustRequest(t, ctx, ask("a cat", ""))
					if response, err := s.client.Do(r); err == nil {
						response.Body.Close()
					}
				})
				for i := range 3 {
					group.Go(func() {
						time.Sleep(time.Duration(i+1) * time.Millisecond)
						if response, body := s.do("POST", "/v1/chat/completions", ask("a cat!", "")); response.StatusCode != 200 || !strings.Contains(body, "about") {
							t.Errorf("%d: %s", response.StatusCode, body)
						}
					})
				}
				time.Sleep(time.Second / 2)
				if how == "cancel" {
					cancel()
				}
				group.Wait()
				cancel()
				if n := w.answers(); n != 2 {
					t.Errorf("%d answers were computed, not one more", n)
				}
				s.settled(w)
			})
		})
	}
}

// TestNearFollowerLeaves shows that one who does not wait any more lets go at
// once and harms nobody.
func TestNearFollowerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := meaning(t)
		s := start(t, w, nearDuplicates)
		var group sync.WaitGroup
		group.Go(func() {
			if response, body := s.do("POST", "/v1/chat/completions", ask("a cat", "")); response.StatusCode != 200 {
				t.Error(body)
			}
		})
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := s.client.Do(mustRequest(t, ctx, ask("a cat!", ""))); err == nil {
			t.Error("the follower was answered")
		}
		group.Wait()
		s.settled(w)
	})
}

// TestNearWithoutEmbedding shows that a worker that does not embed answers all
// the same.
func TestNearWithoutEmbedding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := meaning(t)
		answer := w.script
		w.script = func(r *parley.Request) []say {
			if r.Embed {
				return []say{{err: parley.Errorf(parley.Overloaded, "No room.")}}
			}
			return answer(r)
		}
		s := start(t, w, nearDuplicates)
		for range 2 {
			if response, body := s.do("POST", "/v1/chat/completions", ask("a cat", "")); response.StatusCode != 200 || response.Header.Get(nearHeader) != "" {
				t.Error(body)
			}
		}
	})
}
