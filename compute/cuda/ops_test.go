package cuda

import (
	"fmt"
	"slices"
	"testing"

	"parley/compute"
	"parley/compute/computetest"
	"parley/model/weights"
)

// How far operations may be from the reference, as a share of the root mean square of its values.
// Activations meet BF16 weights with 8 bits of mantissa and F16 weights with 11; those that meet quantized
// weights are rounded to eight bits in groups, and those that meet FP8 weights to 3 bits of mantissa.
// Attention rounds queries, keys, weights and values to bfloat16: of a value of 4 that may be 2^-6, which is
// 0.037 of the root mean square.
const (
	budgetExact     = 0
	budgetFloat     = 1e-5
	budgetBrain     = 0.02
	budgetHalf      = 0.003
	budgetQ8        = 0.06
	budgetFP8       = 0.2
	budgetMLPFP8    = 0.35
	budgetFP8Sums   = 0.004 // the tensor cores add 32 columns with about 14 bits
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
	case weights.F8E4M3:
		return budgetFP8
	}
	return budgetQ8
}

func TestLinear(t *testing.T) {
	shapes := []struct{ rows, cols, a, b int }{
		{1, 256, 64, 16}, {2, 512, 33, 7}, {9, 256, 100, 2}, {30, 768, 40, 31}, {50, 256, 48, 65}, {137, 256, 70, 33},
	}
	for n, kind := range computetest.AllTypes {
		for i, s := range shapes {
			if left(n, i) {
				continue
			}
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

// TestFP8Products multiplies rows of numbers that E4M3 has, with a scale that is a power of two, so that
// nothing is rounded but sums: by every kernel, as one of two projections, in groups of columns that end early.
func TestFP8Products(t *testing.T) {
	for i, tile := range eightTiles {
		rows, cols, outputs := tile.rows+3-i%2*5, 456+128*i, 64*tile.groups+70
		t.Run(fmt.Sprintf("%d_rows_%d_groups", tile.rows, tile.groups), func(t *testing.T) {
			r, c := computetest.NewRand(3), newBackend(t)
			b := computetest.Bench{TB: t, Backend: c}
			x := make([]float32, rows*cols)
			for i := range x {
				x[i] = weights.FromE4M3(byte(r.IntN(0x7f)|r.IntN(2)<<7)) / 256
				if i%cols%128 == 0 {
					x[i] = 448. / 256
				}
			}
			w := computetest.Tensor(r, weights.F8E4M3, outputs, cols)
			in, out, other := b.Buffer(rows, cols, x), b.Buffer(rows, outputs, nil), b.Buffer(rows, 9, nil)
			b.Begin(computetest.PlainStep(rows), nil)
			b.Linear(in, []compute.Projection{{Out: other, W: b.Weight(computetest.Tensor(r, weights.F8E4M3, 9, cols))},
				{Out: out, W: b.Weight(w)}})
			c.matrices[weights.F8E4M3] = c.matrices[weights.F8E4M3][i : i+1]
			if err := computetest.Differ(b.Contents(rows, out), plainProduct(t, x, w), budgetFP8Sums); err != nil {
				t.Error(err)
			}
		})
	}
}

// plainProduct multiplies rows with a matrix.
func plainProduct(t *testing.T, x []float32, w weights.Tensor) []float32 {
	stored, err := w.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	var all []float32
	for row := range slices.Chunk(x, w.Cols()) {
		for column := range slices.Chunk(stored, w.Cols()) {
			var sum float64
			for k, v := range row {
				sum += float64(v) * float64(column[k])
			}
			all = append(all, float32(sum))
		}
	}
	return all
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
	for _, kind := range append(computetest.AllTypes, weights.F8E4M3) {
		t.Run(kind.String(), func(t *testing.T) { compare(t, computetest.Embed(kind), budgetExact) })
	}
}

func TestNormAndAdd(t *testing.T) {
	for _, cols := range []int{1, 15, 100, 576, 2048} {
		for _, rows := range []int{1, 11} {
			compare(t, computetest.Norm(rows, cols), budgetNorm)
			compare(t, computetest.Add(rows, cols), budgetExact)
			compare(t, computetest.AddAndNorm(weights.BF16, rows, cols), budgetBrain)
			compare(t, computetest.AddAndNorm(weights.F8E4M3, rows, cols), budgetFP8)
		}
	}
	const wide = 4200 // more columns than stay in registers
	compare(t, computetest.Norm(3, wide), budgetNorm)
	compare(t, computetest.AddAndNorm(weights.BF16, 3, wide), budgetBrain)
	compare(t, computetest.AddAndNorm(weights.F8E4M3, 3, wide), budgetFP8)
}

func TestGatedMLP(t *testing.T) {
	for _, act := range []compute.Activation{compute.SiLU, compute.GELUTanh} {
		compare(t, computetest.GatedMLP(weights.F32, weights.F32, weights.F32, act, 5, 100, 133, true), budgetMLP)
		compare(t, computetest.GatedMLP(weights.F16, weights.BF16, weights.Q4_K, act, 17, 96, 256, false), budgetMLPQ8)
		compare(t, computetest.GatedMLP(weights.Q8_0, weights.F16, weights.Q8_0, act, 40, 96, 160, true), budgetMLPQ8)
		compare(t, computetest.GatedMLP(weights.F8E4M3, weights.F8E4M3, weights.F8E4M3, act, 9, 192, 200, true),
			budgetMLPFP8)
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
			compare(t, computetest.Mixture(weights.F8E4M3, rows, 3, 2, norm), budgetMLPFP8)
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
		for _, dim := range []int{64, 40, 128} {
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
