package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/gateway/openai"
	"parley/gateway/tenant"
	"parley/limit"
)

// TestAnswersReserveWhatTheyGrowTo gives a key a limit of output tokens. Two chats at once that name no length have
// room in it, and one that grows beyond the limit ends exactly there.
func TestAnswersReserveWhatTheyGrowTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.Repeat(" a", 40)
		tokens := len(tokensOf(t, text))
		s, rig := startKeyed(t, &worker{script: speak(t, text, time.Millisecond)})
		key := func(outputs int64) []string {
			secret, _ := rig.key(tenant.NewKey{Organization: fmt.Sprint("org", outputs),
				Limits: limit.Limits{OutputTokensPerMinute: outputs}})
			return []string{"Authorization", "Bearer " + secret}
		}
		for range 3 { // the model's answers are known to be short
			s.gateway.models.All()[0].Answers.Learn(1)
		}
		roomy := key(600)
		var wait sync.WaitGroup
		for range 2 {
			wait.Go(func() {
				if r, body := s.do("POST", "/v1/chat/completions", chatBody(""),
					roomy...); r.StatusCode != http.StatusOK {
					t.Errorf("%d: %s", r.StatusCode, body)
				}
			})
		}
		wait.Wait()
		// What was reserved and not used is there again.
		r, _ := s.do("POST", "/v1/chat/completions", chatBody(`,"max_tokens":1`), roomy...)
		if left := r.Header.Get("X-Ratelimit-Remaining-Tokens"); left != fmt.Sprint(600-2*tokens-1) {
			t.Errorf("%s tokens are left of 600 after two answers of %d", left, tokens)
		}
		// A limit that an answer grows beyond ends it.
		narrow := key(int64(tokens - 10))
		_, body := s.do("POST", "/v1/chat/completions", chatBody(""), narrow...)
		got := decode[openai.ChatResponse](t, body)
		if got.Usage.CompletionTokens != tokens-10 || got.Choices[0].FinishReason != "length" {
			t.Errorf("an answer of %d tokens within a limit of %d: %s", tokens, tokens-10, body)
		}
	})
}

// TestAnswersEndWhereTheirLimitDoes has two answers grow in a limit that has room for one and a half.
func TestAnswersEndWhereTheirLimitDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.Repeat(" a", 300)
		tokens := len(tokensOf(t, text))
		s, rig := startKeyed(t, &worker{script: speak(t, text, time.Millisecond)})
		s.gateway.models.All()[0].ContextTokens = 4000
		secret, _ := rig.key(tenant.NewKey{Organization: "acme",
			Limits: limit.Limits{OutputTokensPerMinute: int64(tokens * 3 / 2)}})
		s.gateway.models.All()[0].Answers.Learn(1) // so that 256 are reserved at first
		var wait sync.WaitGroup
		var mu sync.Mutex
		used, cut := 0, 0
		for range 2 {
			wait.Go(func() {
				_, body := s.do("POST", "/v1/chat/completions", chatBody(""), "Authorization", "Bearer "+secret)
				got := decode[openai.ChatResponse](t, body)
				mu.Lock()
				defer mu.Unlock()
				if len(got.Choices) == 0 {
					cut++ // there was no room to begin
					return
				}
				used += got.Usage.CompletionTokens
				if got.Choices[0].FinishReason == "length" {
					cut++
				}
			})
		}
		wait.Wait()
		// Answers of one millisecond a token take a second: the limit fills by a hundredth meanwhile.
		if most := tokens*3/2 + tokens/10; used > most || cut == 0 {
			t.Errorf("%d tokens of at most %d, %d answers were cut", used, most, cut)
		}
	})
}

// TestFreeKeysHoldACodingAgent has a key without a tier and without limits of its own run a coding agent: a prompt of
// its own of 28,000 tokens, 32,000 tokens asked for at each turn, a title beside the first, and a tool loop of fifteen
// turns in half a minute, each of which adds to the conversation.
func TestFreeKeysHoldACodingAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := strings.Repeat(" a", 20)
		s, rig := startKeyed(t, &worker{script: speak(t, answer, 2*time.Second/20)})
		s.gateway.models.All()[0].ContextTokens = 1 << 17
		secret, _ := rig.key(tenant.NewKey{Organization: "devs"})
		turn := func(tokens int, more string) (status int, body string) {
			text := strings.Repeat(" a", tokens)
			r, body := s.do("POST", "/v1/messages", `{"model":"`+modelID+`",`+more+
				`"messages":[{"role":"user","content":"`+text+`"}]}`, "Authorization", "Bearer "+secret)
			return r.StatusCode, body
		}
		var wait sync.WaitGroup
		wait.Go(func() {
			if status, body := turn(300, `"max_tokens":512,`); status != http.StatusOK {
				t.Errorf("a title: %d %s", status, body)
			}
		})
		began := time.Now()
		for n := range 15 {
			status, body := turn(28_000+800*n, `"max_tokens":32000,`)
			if status != http.StatusOK {
				t.Fatalf("turn %d, %v after the first: %d %s", n, time.Since(began), status, body)
			}
			used := decode[openai.ReplyMessage](t, body).Usage
			if read := used.InputTokens + used.CacheCreationInputTokens + used.CacheReadInputTokens; read < 28_000 {
				t.Fatalf("turn %d has %d tokens", n, read)
			}
		}
		wait.Wait()
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the turns took %v: a limit of a minute was not tried", took)
		}
	})
}

// TestMessagesSpeakOfTheContextAsAnthropicDoes has the two sentences that programs read numbers from, and cuts
// what can be cut.
func TestMessagesSpeakOfTheContextAsAnthropicDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "Hello", 0)})
		ask := func(path, limits, text string) (int, string) {
			r, body := s.do("POST", path,
				`{"model":"`+modelID+`",`+limits+`"messages":[{"role":"user","content":"`+text+`"}]}`)
			return r.StatusCode, body
		}
		long := strings.Repeat("word ", 120)
		if _, body := ask("/v1/messages", `"max_tokens":9,`, long); !strings.Contains(body,
			`"message":"prompt is too long: `) ||
			!strings.Contains(body, ` tokens > 100 maximum"`) {
			t.Error(body)
		}
		_, body := ask("/v1/messages", `"max_tokens":200,`, "Hi")
		if !strings.Contains(body, "input length and `max_tokens` exceed context limit: ") ||
			!strings.Contains(body, " + 200 > 100") {
			t.Error(body)
		}
		s.gateway.models.All()[0].ContextTokens = 4000
		for path, limits := range map[string]string{"/v1/messages": `"max_tokens":32000,`,
			"/v1/chat/completions": `"max_completion_tokens":32000,`} {
			if status, body := ask(path, limits, "Hi"); status != http.StatusOK {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
		if status, body := ask("/v1/chat/completions", `"max_tokens":32000,`, "Hi"); status != http.StatusBadRequest {
			t.Errorf("%d %s", status, body)
		}
	})
}
