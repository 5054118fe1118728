package worker

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"parley"
)

// TestQuickCallIsWhatJSONWouldBe compares byte by byte, for requests with all
// combinations of members.
func TestQuickCallIsWhatJSONWouldBe(t *testing.T) {
	for kind, members := range map[reflect.Type]int{reflect.TypeFor[parley.Request](): 28,
		reflect.TypeFor[parley.SLO](): 3, reflect.TypeFor[parley.Sampling](): 9, reflect.TypeFor[parley.Stop](): 3,
		reflect.TypeFor[call](): 4} {
		if kind.NumField() != members {
			t.Errorf("%v has %d members, and appendCall knows %d: teach it the others", kind, kind.NumField(), members)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	some := func(n int) int { return random.IntN(2) * random.IntN(n) }
	quickly := 0
	for range 20_000 {
		q := &parley.Request{ID: "req_1", Model: []string{"", "polly", "a/b:1", "ü", "<x>", `"`}[some(6)],
			Prompt:  make([]parley.Token, some(5)),
			Choices: some(3), MaxTokens: some(100), Logprobs: some(2) == 1, TopLogprobs: some(5),
			PromptLogprobs: some(2) == 1, Progress: some(2) == 1, Embed: some(2) == 1,
			Class: parley.Class(some(3)), Tenant: []string{"", "org"}[some(2)],
			Purpose: []parley.Purpose{"", parley.ForChat}[some(2)], Background: some(2) == 1,
			PublicTokens: some(9), SinkTokens: some(9), Retain: time.Duration(some(9)), Waited: time.Duration(some(9))}
		q.Sampling = parley.Sampling{Temperature: float32(some(300)) / 100, TopK: some(5),
			TopP: float32(some(10)) / 10, MinP: float32(some(2)) * 1e-7, RepetitionPenalty: float32(some(3)),
			PresencePenalty: -float32(some(4)) / 3, FrequencyPenalty: float32(some(2)) * 1e20,
			Seed: uint64(some(2)) * random.Uint64()}
		q.Objective = parley.SLO{
			TTFT: time.Duration(some(9)), CachedTTFT: time.Duration(some(9)), TPOT: time.Duration(some(9)),
		}
		q.Session = []string{"", "conversation"}[some(2)]
		if some(2) == 1 {
			q.Salt[3] = byte(some(256))
		}
		if some(4) == 1 {
			q.Stop = parley.Stop{Strings: [][]string{nil, {"x"}}[some(2)],
				Tokens: [][]parley.Token{nil, {}, {1, 2}}[some(3)], IgnoreEnd: some(2) == 1}
		}
		if some(9) == 1 {
			q.Prompt, q.Sampling.LogitBias = nil, map[parley.Token]float32{}
		}
		c := newCall(q, 64, time.Now())
		c.Left, c.Trace = time.Duration(some(9)), []string{"", "00-1-2-03"}[some(2)]
		want, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := appendCall(nil, c)
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
