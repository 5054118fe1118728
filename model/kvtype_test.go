package model

import (
	"slices"
	"testing"

	"parley"
	"parley/compute"
	"parley/internal/testkit"
)

// kvBudgets bound what rounding keys and values may cost, end to end: the mean
// divergence from the same network with float32 ones, in nats, over all
// positions of the golden prompts, and over those of one long text. They are
// about twice what is measured; Polly, the deeper
// network, amplifies a rounding more.
var kvBudgets = []struct {
	kind        compute.KVType
	tiny, polly float64
}{
	{compute.KVBF16, 1.5e-5, 4e-5},
	{compute.KVInt8, 1.2e-4, 4e-4},
	{compute.KVFP8, 2.5e-3, 8e-3},
}

// longTokens is the least length of the long text.
const longTokens = 1600

func TestKVTypesStayClose(t *testing.T) {
	for _, g := range goldens(t) {
		if !g.rounded {
			continue // random networks have no opinion to lose
		}
		t.Run(g.name, func(t *testing.T) { testKVTypes(t, g) })
	}
}

func TestKVTypesOfPollyStayClose(t *testing.T) {
	g := golden{name: "polly", dir: testkit.SharedModel(t, "polly"), outputs: testkit.Golden("polly", "golden.json")}
	testKVTypes(t, g)
}

func testKVTypes(t *testing.T, g golden) {
	outputs := testkit.ReadOutputs(t, g.outputs).Prompts
	var prompts [][]parley.Token
	for _, p := range outputs {
		prompts = append(prompts, p.IDs)
	}
	long := [][]parley.Token{longText(outputs)}
	g.kv = compute.KVF32
	exact := g.runner(t, newFast(t, 1, ""))
	ofPrompts, ofLong := logitsOf(exact, prompts), logitsOf(exact, long)
	for _, b := range kvBudgets {
		budget := b.tiny
		if g.name == "polly" {
			budget = b.polly
		}
		g.kv = b.kind
		t.Run(g.kv.String(), func(t *testing.T) {
			rounded := g.runner(t, newFast(t, 1, ""))
			checkDivergence(t, "prompts", ofPrompts, logitsOf(rounded, prompts), budget)
			checkDivergence(t, "long text", ofLong, logitsOf(rounded, long), budget)
		})
	}
}

// longText puts the golden prompts and their answers one after the other, each
// time around from another one on, until there are enough tokens.
func longText(outputs []testkit.PromptOutput) (text []parley.Token) {
	for i := 0; len(text) < longTokens; i++ {
		p := outputs[(i+i/len(outputs))%len(outputs)]
		text = append(append(text, p.IDs...), p.GreedyIDs...)
	}
	return text[:min(len(text), runnerBlocks*compute.BlockTokens)]
}

// logitsOf computes each text by itself, in chunks, and returns the logits after every token.
func logitsOf(r *runner, texts [][]parley.Token) (rows [][]float32) {
	const chunk = 512
	for _, text := range texts {
		r.past = 0
		for part := range slices.Chunk(text, chunk) {
			rows = append(rows, r.feed(part)...)
		}
	}
	return rows
}

func checkDivergence(t *testing.T, what string, want, got [][]float32, budget float64) {
	t.Helper()
	var sum, worst float64
	same := 0
	for i := range want {
		d := kl(want[i], got[i])
		sum, worst = sum+d, max(worst, d)
		if argmax(want[i]) == argmax(got[i]) {
			same++
		}
	}
	mean := sum / float64(len(want))
	t.Logf("%s, %d positions: KL %.2e nats, worst %.2e, %.4f agree", what, len(want), mean, worst,
		float64(same)/float64(len(want)))
	if !(mean <= budget) {
		t.Errorf("%s: KL %.2e nats, want at most %.1e", what, mean, budget)
	}
	if sum == 0 {
		t.Errorf("%s: nothing was rounded", what)
	}
}

// TestOneNumericClassForEveryKVType wants the same bits however a sequence is
// computed, whatever its keys and values are rounded to.
func TestOneNumericClassForEveryKVType(t *testing.T) {
	for _, g := range goldens(t) {
		for _, budget := range kvBudgets {
			g.kv = budget.kind
			t.Run(g.name+"/"+g.kv.String(), func(t *testing.T) { testOneNumericClass(t, g) })
		}
	}
}
