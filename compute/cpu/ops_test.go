package cpu

import (
	"fmt"
	"testing"

	"parley/compute"
	"parley/compute/computetest"
	"parley/model/weights"
)

// How far operations may be from the reference, as a share of the root mean
// square of its values. Where quantized weights meet activations that are rounded
// to eight bits, the worst of many values is off by a few times the typical 0.5%.
const (
	budgetExact     = 0
	budgetFloat     = 1e-5 // other order of additions
	budgetBrain     = 4e-5 // activations of 16 bits meet BF16
	budgetFast      = 0.02 // what meets is rounded to eight bits
	budgetQ8        = 0.06
	budgetNorm      = 2e-6
	budgetRope      = 2e-6
	budgetAttention = 3e-5
	budgetMLP       = 3e-5
	budgetMLPBrain  = 1e-4
	budgetMLPFast   = 0.04
	budgetMLPQ8     = 0.08
)

func linearBudget(t weights.DType) float64 {
	switch {
	case packings[t] != nil:
		return budgetQ8
	case t == weights.BF16:
		return budgetBrain
	}
	return budgetFloat
}

func TestLinear(t *testing.T) {
	shapes := []struct{ rows, cols, a, b int }{
		{1, 256, 64, 16}, {2, 512, 33, 7}, {5, 256, 100, 2}, {7, 2304, 40, 31}, {67, 256, 48, 65}, {97, 768, 70, 33},
	}
	for _, kind := range allTypes {
		for _, s := range shapes {
			t.Run(fmt.Sprintf("%s/%d_rows_%d_to_%d_and_%d", kind, s.rows, s.cols, s.a, s.b), func(t *testing.T) {
				scenarioLinear(kind, s.rows, s.cols, s.a, s.b).compare(t, linearBudget(kind))
			})
		}
	}
}

func TestLinearOddShapes(t *testing.T) {
	r := newRand(7)
	for range 24 {
		kind := []weights.DType{weights.F32, weights.F16, weights.BF16}[r.IntN(3)]
		scenarioLinear(kind, 1+r.IntN(67), 1+r.IntN(1000), 2+r.IntN(90), 1+r.IntN(40)).compare(t, linearBudget(kind))
		kind = []weights.DType{weights.Q8_0, weights.Q4_0}[r.IntN(2)]
		scenarioLinear(kind, 1+r.IntN(100), 32*(1+r.IntN(31)), 2+r.IntN(90), 1+r.IntN(40)).compare(t, budgetQ8)
		kind = []weights.DType{weights.Q4_K, weights.Q6_K}[r.IntN(2)]
		scenarioLinear(kind, 1+r.IntN(100), 256*(1+r.IntN(4)), 2+r.IntN(90), 1+r.IntN(40)).compare(t, budgetQ8)
	}
}

func TestLogits(t *testing.T) {
	for _, vocab := range []int{1024, 8191} {
		for _, kind := range []weights.DType{weights.Q8_0, weights.F16, weights.Q6_K} {
			scenario(computetest.Logits(kind, vocab)).compare(t, linearBudget(kind))
		}
	}
}

func TestEmbed(t *testing.T) {
	for _, kind := range allTypes {
		scenario(computetest.Embed(kind)).compare(t, budgetExact)
	}
}

func TestNormAndAdd(t *testing.T) {
	for _, cols := range []int{1, 15, 16, 100, 576, 1000, 2048} {
		for _, rows := range []int{1, 67} {
			scenario(computetest.Norm(rows, cols)).compare(t, budgetNorm)
			scenario(computetest.Add(rows, cols)).compare(t, budgetExact)
		}
	}
}

func TestGatedMLP(t *testing.T) {
	for _, act := range []compute.Activation{compute.SiLU, compute.GELUTanh} {
		scenarioMLP(weights.F32, weights.F32, weights.F32, act, 5, 100, 333, true).compare(t, budgetMLP)
		scenarioMLP(weights.F16, weights.BF16, weights.Q4_K, act, 17, 96, 512, false).compare(t, budgetMLPQ8)
		scenarioMLP(weights.Q8_0, weights.Q8_0, weights.Q8_0, act, 1, 576, 1536, false).compare(t, budgetMLPQ8)
		scenarioMLP(weights.Q8_0, weights.F16, weights.Q8_0, act, 40, 96, 352, true).compare(t, budgetMLPQ8)
	}
}

func TestMixture(t *testing.T) {
	for _, rows := range []int{1, 2, 33} {
		for _, norm := range []bool{false, true} {
			scenarioMixture(weights.F32, rows, 8, 2, norm).compare(t, budgetMLP)
			scenarioMixture(weights.Q8_0, rows, 16, 4, norm).compare(t, budgetMLPQ8)
			scenarioMixture(weights.F16, rows, 3, 5-2, norm).compare(t, budgetMLP)
			scenarioMixture(weights.BF16, 20*rows, 3, 2, norm).compare(t, budgetMLPBrain)
		}
	}
}
