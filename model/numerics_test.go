package model

import (
	"strings"
	"testing"

	"parley"
	"parley/compute/cpu"
	"parley/internal/testkit"
	"parley/model/weights"
)

// fastBudgets bound what fast numerics may cost, end to end: the mean
// divergence from exact ones, in nats, over all positions of the golden prompts
// and of one long text. They are about twice what is measured, and far below
// what the quantization of the weights costs (see quantizedBudgets). Where weights
// are quantized, most of the difference is what exact numerics lose by taking
// activations as eight bits, too.
var fastBudgets = []struct {
	quant       weights.DType
	tiny, polly float64
}{
	{weights.BF16, 2e-5, 1e-4},
	{weights.F16, 2e-5, 1e-4},
	{weights.Q8_0, 3e-4, 1.5e-3},
	{weights.Q4_0, 3e-4, 1.5e-3},
}

func TestFastNumericsStayClose(t *testing.T) {
	var models []golden
	for _, g := range goldens(t) {
		if g.rounded {
			models = append(models, g)
		}
	}
	for _, budget := range fastBudgets {
		for _, g := range models {
			t.Run(g.name+"/"+budget.quant.String(), func(t *testing.T) {
				testFastNumerics(t, g, budget.quant, budget.tiny)
			})
		}
	}
}

func TestFastNumericsOfPollyStayClose(t *testing.T) {
	g := golden{name: "polly", dir: testkit.SharedModel(t, "polly"), outputs: testkit.Golden("polly", "golden.json")}
	for _, budget := range fastBudgets {
		t.Run(budget.quant.String(), func(t *testing.T) { testFastNumerics(t, g, budget.quant, budget.polly) })
	}
}

func testFastNumerics(t *testing.T, g golden, quant weights.DType, budget float64) {
	fast, err := cpu.New(cpu.Options{Threads: 1, Numerics: cpu.Fast})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(fast.Name(), "with fast numerics") {
		_ = fast.Close()
		t.Skip("this processor has no fast numerics")
	}
	if quant != weights.BF16 {
		g.dir = convert(t, g.dir, quant)
	}
	exactly, quickly := g.runner(t, newFast(t, 1, "")), g.runner(t, fast)
	outputs := testkit.ReadOutputs(t, g.outputs).Prompts
	var prompts [][]parley.Token
	for _, p := range outputs {
		prompts = append(prompts, p.IDs)
	}
	for what, texts := range map[string][][]parley.Token{"prompts": prompts, "long text": {longText(outputs)}} {
		checkDivergence(t, what, logitsOf(exactly, texts), logitsOf(quickly, texts), budget)
	}
}
