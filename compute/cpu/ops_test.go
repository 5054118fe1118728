package cpu

import (
	"fmt"
	"testing"

	"parley"
	"parley/compute"
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

// linear is a scenario with two projections of the same input, one with a bias.
func linear(kind weights.DType, rows, cols, outA, outB int) scenario {
	return func(b bench) []float32 {
		r := newRand(uint64(rows*cols + outA))
		in := b.buffer(rows, cols, randomFloats(r, rows*cols))
		ps := []compute.Projection{
			{Out: b.buffer(rows, outA, nil), W: b.upload(randomTensor(r, kind, outA, cols))},
			{Out: b.buffer(rows, outB, nil), W: b.upload(randomTensor(r, kind, outB, cols)), Bias: b.upload(vectorTensor(r, outB))},
		}
		b.Begin(plainStep(rows), nil)
		b.Linear(in, ps)
		return append(contents(ps[0].Out), contents(ps[1].Out)...)
	}
}

func TestLinear(t *testing.T) {
	shapes := []struct{ rows, cols, a, b int }{
		{1, 256, 64, 16}, {2, 512, 33, 7}, {5, 256, 100, 2}, {7, 2304, 40, 31}, {67, 256, 48, 65}, {97, 768, 70, 33},
	}
	for _, kind := range allTypes {
		for _, s := range shapes {
			t.Run(fmt.Sprintf("%s/%d_rows_%d_to_%d_and_%d", kind, s.rows, s.cols, s.a, s.b), func(t *testing.T) {
				linear(kind, s.rows, s.cols, s.a, s.b).compare(t, linearBudget(kind))
			})
		}
	}
}

func TestLinearOddShapes(t *testing.T) {
	r := newRand(7)
	for range 24 {
		kind := []weights.DType{weights.F32, weights.F16, weights.BF16}[r.IntN(3)]
		linear(kind, 1+r.IntN(67), 1+r.IntN(1000), 2+r.IntN(90), 1+r.IntN(40)).compare(t, linearBudget(kind))
		kind = []weights.DType{weights.Q8_0, weights.Q4_0}[r.IntN(2)]
		linear(kind, 1+r.IntN(100), 32*(1+r.IntN(31)), 2+r.IntN(90), 1+r.IntN(40)).compare(t, budgetQ8)
		kind = []weights.DType{weights.Q4_K, weights.Q6_K}[r.IntN(2)]
		linear(kind, 1+r.IntN(100), 256*(1+r.IntN(4)), 2+r.IntN(90), 1+r.IntN(40)).compare(t, budgetQ8)
	}
}

func TestLogits(t *testing.T) {
	for _, vocab := range []int{1024, 8191} {
		for _, kind := range []weights.DType{weights.Q8_0, weights.F16, weights.Q6_K} {
			scenario(func(b bench) []float32 {
				r := newRand(uint64(vocab))
				in := b.buffer(9, 256, randomFloats(r, 9*256))
				table := b.upload(randomTensor(r, kind, vocab, 256))
				step := plainStep(9)
				step.Outputs = []int32{0, 3, 8}
				b.Begin(step, nil)
				out := make([]float32, 3*vocab)
				b.Logits(out, in, table)
				return out
			}).compare(t, linearBudget(kind))
		}
	}
}

func TestEmbed(t *testing.T) {
	for _, kind := range allTypes {
		scenario(func(b bench) []float32 {
			r := newRand(3)
			table := b.upload(randomTensor(r, kind, 100, 512))
			step := plainStep(70)
			for i := range step.Tokens {
				step.Tokens[i] = parley.Token(r.IntN(100))
			}
			b.Begin(step, nil)
			plain, scaled := b.buffer(70, 512, nil), b.buffer(70, 512, nil)
			b.Embed(plain, table, 1)
			b.Embed(scaled, table, 22.6)
			return append(contents(plain), contents(scaled)...)
		}).compare(t, budgetExact)
	}
}

func TestNormAndAdd(t *testing.T) {
	for _, cols := range []int{1, 15, 16, 100, 576, 1000, 2048} {
		for _, rows := range []int{1, 67} {
			norm := func(b bench) []float32 {
				r := newRand(uint64(cols))
				src, dst := b.buffer(rows, cols, randomFloats(r, rows*cols)), b.buffer(rows, cols, nil)
				b.Begin(plainStep(rows), nil)
				b.Norm(dst, src, b.upload(vectorTensor(r, cols)), 1e-5, 1)
				b.Norm(src, src, b.upload(vectorTensor(r, cols)), 1e-6, 0)
				return append(contents(dst), contents(src)...)
			}
			scenario(norm).compare(t, budgetNorm)
			add := func(b bench) []float32 {
				r := newRand(uint64(cols))
				dst, src := b.buffer(rows, cols, randomFloats(r, rows*cols)), b.buffer(rows, cols, randomFloats(r, rows*cols))
				b.Begin(plainStep(rows), nil)
				b.Add(dst, src)
				return contents(dst)
			}
			scenario(add).compare(t, budgetExact)
		}
	}
}

// gatedMLP is a scenario with an MLP of the given types.
func gatedMLP(gate, up, down weights.DType, act compute.Activation, rows, hidden, inner int, biases bool) scenario {
	return func(b bench) []float32 {
		r := newRand(uint64(rows + inner))
		m := compute.MLP{
			Gate: b.upload(randomTensor(r, gate, inner, hidden)),
			Up:   b.upload(randomTensor(r, up, inner, hidden)),
			Down: b.upload(randomTensor(r, down, hidden, inner)),
			Act:  act,
		}
		if biases {
			m.GateBias, m.UpBias, m.DownBias = b.upload(vectorTensor(r, inner)), b.upload(vectorTensor(r, inner)), b.upload(vectorTensor(r, hidden))
		}
		src, dst := b.buffer(rows, hidden, randomFloats(r, rows*hidden)), b.buffer(rows, hidden, nil)
		b.Begin(plainStep(rows), nil)
		b.GatedMLP(dst, src, &m)
		return contents(dst)
	}
}

func TestGatedMLP(t *testing.T) {
	for _, act := range []compute.Activation{compute.SiLU, compute.GELUTanh} {
		gatedMLP(weights.F32, weights.F32, weights.F32, act, 5, 100, 333, true).compare(t, budgetMLP)
		gatedMLP(weights.F16, weights.BF16, weights.Q4_K, act, 17, 96, 512, false).compare(t, budgetMLPQ8)
		gatedMLP(weights.Q8_0, weights.Q8_0, weights.Q8_0, act, 1, 576, 1536, false).compare(t, budgetMLPQ8)
		gatedMLP(weights.Q8_0, weights.F16, weights.Q8_0, act, 40, 96, 352, true).compare(t, budgetMLPQ8)
	}
}

// mixture is a scenario with experts.
func mixture(kind weights.DType, rows, experts, topK int, norm bool) scenario {
	const hidden, inner = 64, 96
	return func(b bench) []float32 {
		r := newRand(uint64(rows + experts))
		e := compute.Experts{TopK: topK, NormTopK: norm}
		router := randomTensor(r, weights.F32, experts, hidden)
		for i := range experts * hidden {
			putFloat(router.Data, weights.F32, i, float32(r.NormFloat64()))
		}
		e.Router = b.upload(router)
		for range experts {
			e.MLPs = append(e.MLPs, compute.MLP{
				Gate: b.upload(randomTensor(r, kind, inner, hidden)),
				Up:   b.upload(randomTensor(r, kind, inner, hidden)),
				Down: b.upload(randomTensor(r, kind, hidden, inner)),
			})
		}
		src, dst := b.buffer(rows, hidden, randomFloats(r, rows*hidden)), b.buffer(rows, hidden, nil)
		b.Begin(plainStep(rows), nil)
		b.Mixture(dst, src, &e)
		return contents(dst)
	}
}

func TestMixture(t *testing.T) {
	for _, rows := range []int{1, 2, 33} {
		for _, norm := range []bool{false, true} {
			mixture(weights.F32, rows, 8, 2, norm).compare(t, budgetMLP)
			mixture(weights.Q8_0, rows, 16, 4, norm).compare(t, budgetMLPQ8)
			mixture(weights.F16, rows, 3, 5-2, norm).compare(t, budgetMLP)
			mixture(weights.BF16, 20*rows, 3, 2, norm).compare(t, budgetMLPBrain)
		}
	}
}
