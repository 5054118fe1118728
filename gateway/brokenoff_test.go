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
	"parley/limit"
	"parley/token/gauge"
)

// TestLeavingTheQueueCostsNothing has clients hang up before their turn has come: a stream and a whole
// answer.
func TestLeavingTheQueueCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := slots(t, 1, "one two three four five", 2*time.Second)
		s := start(t, w, metered(t), narrow)
		closing(t, s)
		s.gateway.who = byKey
		var group sync.WaitGroup
		s.occupy(&group, "pro-busy", 1, 2*time.Second)
		for _, extra := range []string{"", `,"stream":true`} {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			if _, _, err := s.send(ctx, "free-anna", extra); err == nil {
				t.Error("it should have been cut off")
			}
			cancel()
			synctest.Wait()
		}
		if before := s.used(); before.Requests != 2 || before.Input != 0 || before.Cost != 0 {
			t.Errorf("the ledger has %+v", before)
		}
		group.Wait()
		s.settled(&w.worker)
		if after := s.used(); int(after.Input) != len(w.asked)*len(w.asked[0].Prompt) {
			t.Errorf("%d requests reached the worker, and the ledger has %+v", len(w.asked), after)
		}
	})
}

// longCompaction is the body of a compaction of what takes several contexts.
func longCompaction() string {
	turn := `{"role":"user","content":"` + strings.Repeat("long ", 8) + `"},{"role":"assistant","content":"ok"},`
	return fmt.Sprintf(`{"model":%q,"input":[%s{"role":"user","content":"last"}]}`, modelID, strings.Repeat(turn, 40))
}

// TestCompactionsAreOneRequest has what is summed up in pieces charged once and hold one place, also
// if the client hangs up in its midst.
func TestCompactionsAreOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "They spoke.<|im_end|>", time.Second)}
		s := start(t, w, metered(t), func(c *Config) { c.Models[0].ContextTokens = 1000 })
		closing(t, s)
		s.limited(limit.Limits{ConcurrentRequests: 1})
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			r := mustRequest(t, ctx, longCompaction())
			r.URL.Path = "/v1/responses/compact"
			if response, err := s.client.Do(r); err == nil {
				response.Body.Close()
				t.Errorf("it should have been cut off: %d", response.StatusCode)
			}
		})
		asked := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.asked)
		}
		for asked() < 2 {
			time.Sleep(100 * time.Millisecond)
		}
		if status, body := s.chat(""); status != 429 {
			t.Errorf("a second request is let in beside a compaction: %d %s", status, body)
		}
		cancel()
		group.Wait()
		s.settled(w)
		prompts, input := int64(0), s.used().Input
		for _, r := range w.asked {
			prompts += int64(len(r.Prompt))
		}
		if len(w.asked) != 2 || input != prompts {
			t.Errorf("%d prompts of %d tokens are charged as %d", len(w.asked), prompts, input)
		}
	})
}

// TestSpentBudgetsReplay has a response that was made with a key come back although the budget is spent.
func TestSpentBudgetsReplay(t *testing.T) {
	for _, extra := range []string{"", `,"stream":true`, `,"background":true`} {
		synctest.Test(t, func(t *testing.T) {
			w := &worker{script: speak(t, "Yes<|im_end|>", 0)}
			s := start(t, w, metered(t))
			closing(t, s)
			budget := func(m limit.Micros) { s.limited(limit.Limits{MonthlyBudget: m}) }
			budget(1_000_000)
			say := func(input, key string) (int, string) {
				r, body := s.do("POST", "/v1/responses", responseBody(input, extra), "Idempotency-Key", key)
				s.gateway.runs.Wait()
				return r.StatusCode, body
			}
			if status, body := say(`"Hi"`, "k"); status != 200 {
				t.Fatalf("%d %s", status, body)
			}
			budget(1)
			if status, body := say(`"Ho"`, "other"); status != 429 {
				t.Errorf("a new response: %d %s", status, body)
			}
			if status, body := say(`"Hi"`, "k"); status != 200 || !strings.Contains(body, "Yes") {
				t.Errorf("the response again: %d %s", status, body)
			}
			if len(w.asked) != 1 {
				t.Errorf("the worker was asked %d times", len(w.asked))
			}
		})
	}
}

// TestCountsAreThoseOfTheBill counts the tokens of a prompt for a model whose tokenizer is not known, by
// all routes that do.
func TestCountsAreThoseOfTheBill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gauge.New()
		for range 20 {
			g.LearnPrompt(100, 300)
		}
		s := start(t, &worker{script: speak(t, "Hello", 0)}, roomy, func(c *Config) { c.Models[0].Gauge = g })
		body := func(extra string) string {
			return `{"model":"` + modelID + `","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]` + extra + `}`
		}
		_, counted := s.do("POST", "/v1/messages/count_tokens", body(""))
		n := parseObject(t, counted)["input_tokens"].(float64)
		if _, got := s.do("POST", "/v1/responses/input_tokens", responseBody(`"Hi"`, "")); n < 20 ||
			parseObject(t, got)["input_tokens"].(float64) != n {
			t.Errorf("a conversation has %v tokens, and as a response %s", n, got)
		}
		_, streamed := s.do("POST", "/v1/messages", body(`,"stream":true`))
		if want := fmt.Sprintf(`"usage":{"input_tokens":%v,`, n); !strings.Contains(streamed, want) {
			t.Errorf("no %s in %s", want, streamed)
		}
	})
}

// TestBrokenOffAnswersPayForWhatWasCached has answers end before their usage comes: a client hangs up,
// also one that reads what is computed for another, and a policy halts. The metrics count the same prompts.
func TestBrokenOffAnswersPayForWhatWasCached(t *testing.T) {
	const cached = 3
	for name, c := range map[string]struct {
		say, extra string
		within     time.Duration
		shared     bool
	}{
		"hang-up": {say: "one two three four", extra: `,"stream":true`, within: 2500 * time.Millisecond},
		"joined": {say: "one two three four", extra: `,"stream":true,"temperature":0`,
			within: 1200 * time.Millisecond, shared: true},
		"halted": {say: insult, within: time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &worker{script: func(r *parley.Request) []say {
				said := speech(t, r, time.Second, c.say)
				said[0].delta.CachedTokens = cached
				return said
			}}
			s := start(t, w, metered(t), withPolicy(t, strictPolicy), roomy)
			closing(t, s)
			var group sync.WaitGroup
			if c.shared {
				group.Go(func() { s.chat(c.extra) })
				time.Sleep(1500 * time.Millisecond)
			}
			ctx, cancel := context.WithTimeout(t.Context(), c.within)
			defer cancel()
			_, err := s.request(ctx, c.extra)
			if (err == nil) != (name == "halted") {
				t.Errorf("%s: %v", name, err)
			}
			if !c.shared {
				s.settled(w)
			}
			synctest.Wait()
			want := int64(cached)
			if c.shared {
				want = int64(len(w.asked[0].Prompt))
			}
			if got := s.used(); got.Requests != 1 || got.Output == 0 || got.Cached != want {
				t.Errorf("%s: the ledger has %+v, want %d cached tokens", name, got, want)
			}
			group.Wait()
			s.settled(w)
			synctest.Wait()
			all := s.used()
			s.wantMetric("parley_prompt_tokens_total", itoa(int(all.Input)))
			s.wantMetric("parley_cached_tokens_total", itoa(int(all.Cached)))
		})
	}
}
