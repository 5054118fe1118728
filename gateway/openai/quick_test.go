package openai

import (
	"math/rand/v2"
	"testing"

	"parley"
)

// TestPlainAnswersAreWhatJSONWouldBe compares byte by byte, for answers with all
// combinations of members.
func TestPlainAnswersAreWhatJSONWouldBe(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	some := func(n int) int { return random.IntN(2) * random.IntN(n) }
	texts := []string{"", "Hello there", "a<b & c>d", "ü", `"`, "\n"}
	quickly := 0
	for range 20_000 {
		r := &ChatResponse{ID: "chatcmpl-1", Object: "chat.completion", Created: random.Int64N(1 << 40), Model: "m",
			ServiceTier: texts[some(3)],
			Usage: UsageOf(parley.Usage{PromptTokens: some(100), OutputTokens: some(9), CachedTokens: some(9),
				DroppedTokens: some(9)})}
		for i := range 1 + some(3) {
			c := ChatChoice{Index: i, Message: ChatMessage{Role: "assistant", Content: &texts[some(6)]},
				FinishReason: "stop"}
			if some(20) == 1 {
				c.Message.ReasoningContent, c.Logprobs = texts[some(3)], &ChatLogprobs{}
			}
			r.Choices = append(r.Choices, c)
		}
		if some(2) == 1 {
			r.Timings = &Timings{QueuedMs: random.Float64() * float64(some(1000)), PrefillMs: random.Float64() * 1e-6,
				DecodeMs: float64(some(9)) * 1e21, PromptPerSecond: random.Float64() * 1e5, Cached: some(9),
				CacheMiss: texts[some(2)],
				Route: Route{Worker: texts[some(3)], Reason: texts[some(2)], TTFTMs: float64(some(3)) / 7,
					Pool: texts[some(2)], Moves: some(3), CostMicros: int64(some(99))}}
		}
		want, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := r.appendPlain(nil)
		if ok && string(got) != string(want) {
			t.Fatalf("%s\nwant %s", got, want)
		}
		if ok {
			quickly++
		}
	}
	if quickly < 5000 {
		t.Errorf("only %d were written quickly", quickly)
	}
}
