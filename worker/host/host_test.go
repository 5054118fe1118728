package host

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"parley"
	"parley/internal/builtin"
	"parley/internal/testkit"
	"parley/model/weights"
	"parley/token"
)

func openBuiltin(t testing.TB, name string) *weights.Checkpoint {
	t.Helper()
	m, ok := builtin.Find(name)
	if !ok {
		t.Fatalf("no built-in model %s", name)
	}
	ck, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	return ck
}

// chatPrompt renders one user message.
func chatPrompt(t testing.TB, h *Host, text string) []parley.Token {
	t.Helper()
	rendered, err := h.Template.Render([]token.Message{{Role: "user", Content: text}},
		token.RenderOptions{AddGenerationPrompt: true})
	if err != nil {
		t.Fatal(err)
	}
	prompt, err := h.Tokenizer.EncodePrompt(rendered)
	if err != nil {
		t.Fatal(err)
	}
	return prompt
}

// answer returns the tokens of an answer.
func answer(t testing.TB, h *Host, r *parley.Request) (out []parley.Token) {
	t.Helper()
	for d, err := range h.Generate(t.Context(), r) {
		if err != nil {
			t.Error(err)
		}
		out = append(out, d.Tokens...)
	}
	return out
}

// ask answers one user message greedily.
func ask(t testing.TB, h *Host, text string) string {
	t.Helper()
	return h.Tokenizer.Decode(answer(t, h, &parley.Request{Prompt: chatPrompt(t, h, text), MaxTokens: 64}), true)
}

func TestBuiltinModelTalks(t *testing.T) {
	h := startHost(t, openBuiltin(t, "polly"), Config{Name: "polly"})
	for question, want := range map[string]string{
		"What is the capital of France?": "Paris",
		"What is 7 + 5?":                 "12",
		"Hello! Who are you?":            "Polly",
	} {
		if got := ask(t, h, question); !strings.Contains(got, want) {
			t.Errorf("%s %q does not mention %s", question, got, want)
		}
	}
}

// TestQuantizedPollyKeepsHerWords compares greedy answers of the built-in,
// quantized model with the golden ones of the original weights.
func TestQuantizedPollyKeepsHerWords(t *testing.T) {
	h := startHost(t, openBuiltin(t, "polly"), Config{Name: "polly"})
	same := 0
	prompts := testkit.ReadOutputs(t, testkit.Golden("polly", "golden.json")).Prompts
	for _, p := range prompts {
		var got []parley.Token
		for d, err := range h.Generate(t.Context(), &parley.Request{Prompt: p.IDs, MaxTokens: len(p.GreedyIDs)}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, d.Tokens...)
		}
		if slices.Equal(got, p.GreedyIDs) {
			same++
		}
	}
	if same < len(prompts)*2/3 {
		t.Errorf("%d of %d greedy answers are the original's", same, len(prompts))
	}
}

// TestEightStreamsAgreeWithEachAlone sends prompts one by one and then all at
// once, with sampling, and wants the same tokens.
func TestEightStreamsAgreeWithEachAlone(t *testing.T) {
	h := startHost(t, openBuiltin(t, "polly-mini"), Config{Name: "polly-mini"})
	prompts := testkit.ReadOutputs(t, testkit.Golden("polly", "golden.json")).Prompts[:8]
	answer := func(i int) (out []parley.Token) {
		r := &parley.Request{Prompt: prompts[i].IDs, MaxTokens: 60,
			Sampling: parley.Sampling{Temperature: 0.8, TopP: 0.95, Seed: uint64(i)}}
		for d, err := range h.Generate(t.Context(), r) {
			if err != nil {
				t.Error(err)
			}
			out = append(out, d.Tokens...)
		}
		return out
	}
	var alone, together [8][]parley.Token
	for i := range alone {
		alone[i] = answer(i)
	}
	var wg sync.WaitGroup
	for i := range together {
		wg.Go(func() { together[i] = answer(i) })
	}
	wg.Wait()
	for i := range alone {
		if !slices.Equal(alone[i], together[i]) || len(alone[i]) == 0 {
			t.Errorf("stream %d: alone %v, among others %v", i, alone[i], together[i])
		}
	}
}

// TestSecondTurnIsCached asks twice with a common beginning, and wants the
// same answer and most of the prompt from the cache.
func TestSecondTurnIsCached(t *testing.T) {
	h := startHost(t, openBuiltin(t, "polly-mini"), Config{Name: "polly-mini"})
	prompt, err := h.Tokenizer.Encode(strings.Repeat("Once upon a time there was a brave cat. ", 12), token.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var first []parley.Token
	for i := range 3 {
		var got []parley.Token
		var usage *parley.Usage
		for d, err := range h.Generate(t.Context(),
			&parley.Request{Prompt: prompt, MaxTokens: 20, Sampling: parley.Sampling{Temperature: 1, Seed: 3}}) {
			if err != nil {
				t.Fatal(err)
			}
			got, usage = append(got, d.Tokens...), d.Usage
		}
		if i == 0 {
			first = got
		} else if !slices.Equal(got, first) || usage.CachedTokens < len(prompt)-16 {
			t.Errorf("the cached answer is %v, the first was %v; usage %+v of %d", got, first, usage, len(prompt))
		}
	}
}

func TestPlanDividesMemory(t *testing.T) {
	both := []Candidate{{openBuiltin(t, "polly"), Config{Name: "a"}}, {openBuiltin(t, "polly-mini"), Config{Name: "b"}}}
	plans, err := PlanMemory(both, 8<<30)
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, p := range plans {
		sum += p.Bytes()
		if p.WeightBytes <= 0 || p.ActivationBytes <= 0 || p.KVTokens < p.ContextTokens || p.ContextTokens != 2048 {
			t.Errorf("plan %+v", p)
		}
	}
	if sum > 8<<30 {
		t.Errorf("the plans take %d bytes", sum)
	}
}

// TestContextBeyondTheModelIsSaid plans a context that the model does not have, and one that memory does not hold.
func TestContextBeyondTheModelIsSaid(t *testing.T) {
	polly := openBuiltin(t, "polly")
	for _, c := range []struct {
		cfg  Config
		says string
	}{
		{Config{Name: "polly"}, ""},
		{Config{Name: "polly", ContextTokens: 2048}, ""},
		{Config{Name: "polly", ContextTokens: 4096}, "--context 4096 is more than the 2048 tokens of model polly"},
		{Config{Name: "polly", ContextTokens: 2000, KVTokens: 512}, "model polly, which gets 512 tokens"},
	} {
		plans, err := PlanMemory([]Candidate{{polly, c.cfg}}, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if got := plans[0].ContextNotice(); !strings.Contains(got, c.says) || got != "" && c.says == "" {
			t.Errorf("%+v: %q, want %q", c.cfg, got, c.says)
		}
	}
}

func TestPlanRefusesWithTheNumberThatFits(t *testing.T) {
	polly := openBuiltin(t, "polly")
	plans, err := PlanMemory([]Candidate{{polly, Config{Name: "polly", KVTokens: 4096}}}, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	need := plans[0].Bytes()
	for name, f := range map[string]struct {
		tokens    int
		available int64
		says      string
	}{
		"pool":    {1 << 20, need, "--kv-tokens 4096 would fit"},
		"barely":  {4096 + 16, need, "--kv-tokens 4096 would fit"},
		"weights": {0, 16 << 20, "its weights need"},
	} {
		_, err := PlanMemory([]Candidate{{polly, Config{Name: "polly", KVTokens: f.tokens}}}, f.available)
		if err == nil || !strings.Contains(err.Error(), f.says) {
			t.Errorf("%s: %v, want it to say %q", name, err, f.says)
		}
	}
}

func TestSmallMemoryMeansSmallContext(t *testing.T) {
	plans, err := PlanMemory([]Candidate{{openBuiltin(t, "polly"), Config{Name: "polly"}}}, 80<<20)
	if err != nil {
		t.Fatal(err)
	}
	if p := plans[0]; p.Bytes() > 80<<20 || p.ContextTokens >= 2048 || p.ContextTokens != p.KVTokens {
		t.Errorf("plan %+v", p)
	}
}
