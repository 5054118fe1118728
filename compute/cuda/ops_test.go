package cuda

import (
	"fmt"
	"testing"

	"parley/compute"
	"parley/compute/computetest"
	"parley/model/weights"
)

// How far operations may be from the reference, as a share of the root mean
// square of its values. Activations meet BF16 weights with 8 bits of mantissa
// and F16 weights with 11; those that meet quantized weights are rounded to
// eight bits in groups. Attention rounds queries, keys, weights and values to
// bfloat16: of a value of 4 that may be 2^-6, which is 0.037 of the root mean square.
const (
	budgetExact     = 0
	budgetFloat     = 1e-5
	budgetBrain     = 0.02
	budgetHalf      = 0.003
	budgetQ8        = 0.06
	budgetNorm      = 2e-6
	budgetRope      = 2e-6
	budgetAttention = 0.04
	budgetMLP       = 3e-5
	budgetMLPBrain  = 0.04
	budgetMLPQ8     = 0.08
)

func linearBudget(t weights.DType) float64 {
	switch t {
	case weights.F32:
		return budgetFloat
	case weights.F16:
		return budgetHalf
	case weights.BF16:
		return budgetBrain
	}
	return budgetQ8
}

func TestLinear(t *testing.T) {
	shapes := []struct{ rows, cols, a, b int }{
		{1, 256, 64, 16}, {2, 512, 33, 7}, {9, 256, 100, 2}, {30, 768, 40, 31}, {50, 256, 48, 65}, {137, 256, 70, 33},
	}
	for _, kind := range computetest.AllTypes {
		for i, s := range shapes {
			t.Run(fmt.Sprintf("%s/%d_rows_%d_to_%d_and_%d", kind, s.rows, s.cols, s.a, s.b), func(t *testing.T) {
				compareOn(t, hopper-i%2, computetest.Linear(kind, s.rows, s.cols, s.a, s.b), linearBudget(kind))
			})
		}
	}
}

// TestLinearTiles meets the kernels for few rows of every number of strips, with more
// columns than their rings hold, and rows that fill their tiles or do not.
func TestLinearTiles(t *testing.T) {
	check := func(kind weights.DType, rows, cols, outputs int) {
		t.Run(fmt.Sprintf("%s/%d_rows_%d_to_%d", kind, rows, cols, outputs), func(t *testing.T) {
			compare(t, computetest.Linear(kind, rows, cols, outputs, 9), linearBudget(kind))
		})
	}
	for _, outputs := range []int{30, 70, 250} {
		for _, kind := range []weights.DType{weights.BF16, weights.F16} {
			check(kind, 1, 1280, outputs)
			check(kind, 12, 256, outputs)
			check(kind, 25+2*outputs/100, 256, outputs)
		}
		check(weights.BF16, 60, 256, outputs)
	}
	for _, kind := range []weights.DType{weights.Q8_0, weights.Q4_K, weights.Q6_K} {
		check(kind, 2, 2304, 30)
		check(kind, 1, 512, 300)
		check(kind, 20, 512, 40)
		check(kind, 27, 256, 520)
		check(kind, 60, 512, 40)
	}
}

func TestLinearOddShapes(t *testing.T) {
	r := computetest.NewRand(7)
	for range 6 {
		kind := []weights.DType{weights.F32, weights.F16, weights.BF16}[r.IntN(3)]
		compare(t, computetest.Linear(kind, 1+r.IntN(67), 1+r.IntN(500), 2+r.IntN(90), 1+r.IntN(40)),
			linearBudget(kind))
		kind = []weights.DType{weights.Q8_0, weights.Q4_0, weights.Q5_1}[r.IntN(3)]
		compare(t, computetest.Linear(kind, 1+r.IntN(70), 32*(1+r.IntN(15)), 2+r.IntN(90), 1+r.IntN(40)), budgetQ8)
	}
}

func TestLogits(t *testing.T) {
	for _, kind := range []weights.DType{weights.Q8_0, weights.F16, weights.BF16, weights.F32} {
		compare(t, computetest.Logits(kind, 333), linearBudget(kind))
	}
}

func TestEmbed(t *testing.T) {
	for _, kind := range computetest.AllTypes {
		t.Run(kind.String(), func(t *testing.T) { compare(t, computetest.Embed(kind), budgetExact) })
	}
}

func TestNormAndAdd(t *testing.T) {
	for _, cols := range []int{1, 15, 100, 576, 2048} {
		for _, rows := range []int{1, 11} {
			compare(t, computetest.Norm(rows, cols), budgetNorm)
			compare(t, computetest.Add(rows, cols), budgetExact)
			compare(t, computetest.AddAndNorm(weights.BF16, rows, cols), budgetBrain)
		}
	}
}

func TestGatedMLP(t *testing.T) {
	for _, act := range []compute.Activation{compute.SiLU, compute.GELUTanh} {
		compare(t, computetest.GatedMLP(weights.F32, weights.F32, weights.F32, act, 5, 100, 133, true), budgetMLP)
		compare(t, computetest.GatedMLP(weights.F16, weights.BF16, weights.Q4_K, act, 17, 96, 256, false), budgetMLPQ8)
		compare(t, computetest.GatedMLP(weights.Q8_0, weights.F16, weights.Q8_0, act, 40, 96, 160, true), budgetMLPQ8)
		for _, s := range [][2]int{{1, 40}, {9, 200}, {1, 130}, {30, 72}} { // rows, and columns inside
			compare(t, computetest.GatedMLP(weights.BF16, weights.BF16, weights.BF16, act, s[0], 96, s[1], true),
				budgetMLPBrain)
		}
	}
}

func TestMixture(t *testing.T) {
	for _, rows := range []int{1, 2, 33} {
		for _, norm := range []bool{false, true} {
			compare(t, computetest.Mixture(weights.F32, rows, 8, 2, norm), budgetMLP)
			compareOn(t, portable, computetest.Mixture(weights.Q8_0, rows, 16, 4, norm), budgetMLPQ8)
			compare(t, computetest.Mixture(weights.BF16, rows, 3, 2, norm), budgetMLPBrain)
		}
	}
}

func TestRotation(t *testing.T) {
	for _, interleaved := range []bool{false, true} {
		for _, dim := range []int{2, 30, 64, 96, 256} {
			compare(t, computetest.Rotation(dim, interleaved), budgetRope)
		}
	}
}

func TestAttention(t *testing.T) {
	talks := []computetest.Conversation{
		{Chunks: []int{37, 1, 1, 30}, Blocks: []int32{7, 3, 9, 11, 2}},
		{Chunks: []int{1, 16, 1}, Blocks: []int32{0, 12}},
	}
	for i, dim := range []int{64, 24, 2, 80, 128, 256} {
		heads := []compute.Heads{{Query: 4, KV: 4, Dim: dim}, {Query: 9, KV: 3, Dim: dim},
			{Query: 8, KV: 1, Dim: dim}}[i%3]
		for _, window := range []int{0, 20} {
			t.Run(fmt.Sprintf("dim_%d_heads_%d_of_%d_window_%d", dim, heads.Query, heads.KV, window),
				func(t *testing.T) {
					l := computetest.Lookback{Heads: heads, Window: window, Talks: talks, Interleaved: heads.KV == 3,
						Norms: heads.KV == 1}
					compareOn(t, hopper-i%2, l.Scenario(), budgetAttention)
				})
		}
	}
}

func TestAttentionOverRoundedContext(t *testing.T) {
	talks := []computetest.Conversation{
		{Chunks: []int{37, 1}, Blocks: []int32{7, 3, 9, 11, 2}},
		{Chunks: []int{1, 16}, Blocks: []int32{0, 12}},
	}
	for kind := range compute.KVType(compute.KVTypes) {
		for _, dim := range []int{64, 40} {
			heads := compute.Heads{Query: 4, KV: 2, Dim: dim}
			t.Run(fmt.Sprintf("%v_%d", kind, dim), func(t *testing.T) {
				l := computetest.Lookback{Heads: heads, Kind: kind, Still: true, Talks: talks}
				compare(t, l.Scenario(), budgetAttention)
			})
		}
	}
}

func TestAttentionOverPartitions(t *testing.T) {
	const tokens = 2*partition + 45
	for _, window := range []int{0, 300} {
		l := computetest.Lookback{Heads: compute.Heads{Query: 2, KV: 1, Dim: 16}, Kind: compute.KVBF16, Window: window}
		l.Talks = []computetest.Conversation{
			{Chunks: []int{tokens - 14, 1, 12, 1}, Blocks: computetest.BlockTable(tokens, 0)},
			{Chunks: []int{20, 1, 1}, Blocks: computetest.BlockTable(22, tokens)},
		}
		compare(t, l.Scenario(), budgetAttention)
	}
}
