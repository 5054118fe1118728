package computetest

import (
	"parley"
	"parley/compute"
	"parley/model/weights"
)

// Linear has two projections of the same input, one with a bias.
func Linear(kind weights.DType, rows, cols, outA, outB int) Scenario {
	return func(b Bench) []float32 {
		r := NewRand(uint64(rows*cols + outA))
		in := b.Buffer(rows, cols, Floats(r, rows*cols))
		ps := []compute.Projection{
			{Out: b.Buffer(rows, outA, nil), W: b.Weight(Tensor(r, kind, outA, cols))},
			{Out: b.Buffer(rows, outB, nil), W: b.Weight(Tensor(r, kind, outB, cols)), Bias: b.Weight(Vector(r, outB))},
		}
		b.Begin(PlainStep(rows), nil)
		b.Linear(in, ps)
		return b.Contents(rows, ps[0].Out, ps[1].Out)
	}
}

// Logits wants some of nine rows.
func Logits(kind weights.DType, vocab int) Scenario {
	return func(b Bench) []float32 {
		r := NewRand(uint64(vocab))
		in := b.Buffer(9, 256, Floats(r, 9*256))
		table := b.Weight(Tensor(r, kind, vocab, 256))
		step := PlainStep(9)
		step.Outputs = []int32{0, 3, 8}
		b.Begin(step, nil)
		out := make([]float32, 3*vocab)
		b.Logits(out, in, table)
		return out
	}
}

// Embed looks seventy tokens up, plainly and with a scale.
func Embed(kind weights.DType) Scenario {
	return func(b Bench) []float32 {
		r := NewRand(3)
		table := b.Weight(Tensor(r, kind, 100, 512))
		step := PlainStep(70)
		for i := range step.Tokens {
			step.Tokens[i] = parley.Token(r.IntN(100))
		}
		plain, scaled := b.Buffer(70, 512, nil), b.Buffer(70, 512, nil)
		b.Begin(step, nil)
		b.Embed(plain, table, 1)
		b.Embed(scaled, table, 22.6)
		return b.Contents(70, plain, scaled)
	}
}

// Norm norms from one buffer to another, and in place.
func Norm(rows, cols int) Scenario {
	return func(b Bench) []float32 {
		r := NewRand(uint64(cols))
		src, dst := b.Buffer(rows, cols, Floats(r, rows*cols)), b.Buffer(rows, cols, nil)
		v, w := b.Weight(Vector(r, cols)), b.Weight(Vector(r, cols))
		b.Begin(PlainStep(rows), nil)
		b.Norm(dst, src, v, 1e-5, 1)
		b.Norm(src, src, w, 1e-6, 0)
		return b.Contents(rows, dst, src)
	}
}

// Add adds one buffer to another.
func Add(rows, cols int) Scenario {
	return func(b Bench) []float32 {
		r := NewRand(uint64(cols))
		dst, src := b.Buffer(rows, cols, Floats(r, rows*cols)), b.Buffer(rows, cols, Floats(r, rows*cols))
		b.Begin(PlainStep(rows), nil)
		b.Add(dst, src)
		return b.Contents(rows, dst)
	}
}

// AddAndNorm is the end of a layer: what it adds, and the norm of the sum as the
// input of the next.
func AddAndNorm(kind weights.DType, rows, cols int) Scenario {
	return func(b Bench) []float32 {
		r := NewRand(uint64(cols))
		x, d := b.Buffer(rows, cols, Floats(r, rows*cols)), b.Buffer(rows, cols, Floats(r, rows*cols))
		h, out := b.Buffer(rows, cols, nil), b.Buffer(rows, 40, nil)
		norm, w := b.Weight(Vector(r, cols)), b.Weight(Tensor(r, kind, 40, cols))
		b.Begin(PlainStep(rows), nil)
		b.Add(x, d)
		b.Norm(h, x, norm, 1e-5, 0)
		b.Linear(h, []compute.Projection{{Out: out, W: w}})
		return b.Contents(rows, x, h, out)
	}
}

// GatedMLP is an MLP of the given types.
func GatedMLP(gate, up, down weights.DType, act compute.Activation, rows, hidden, inner int, biases bool) Scenario {
	return func(b Bench) []float32 {
		r := NewRand(uint64(rows + inner))
		m := compute.MLP{
			Gate: b.Weight(Tensor(r, gate, inner, hidden)),
			Up:   b.Weight(Tensor(r, up, inner, hidden)),
			Down: b.Weight(Tensor(r, down, hidden, inner)),
			Act:  act,
		}
		if biases {
			m.GateBias, m.UpBias, m.DownBias = b.Weight(Vector(r, inner)), b.Weight(Vector(r, inner)), b.Weight(
				Vector(r, hidden))
		}
		src, dst := b.Buffer(rows, hidden, Floats(r, rows*hidden)), b.Buffer(rows, hidden, nil)
		b.Begin(PlainStep(rows), nil)
		b.GatedMLP(dst, src, &m)
		return b.Contents(rows, dst)
	}
}

// Mixture has experts of 64 by 96, and a router whose choices are clear.
func Mixture(kind weights.DType, rows, experts, topK int, norm bool) Scenario {
	const hidden, inner = 64, 96
	return func(b Bench) []float32 {
		r := NewRand(uint64(rows + experts))
		e := compute.Experts{TopK: topK, NormTopK: norm}
		router := Tensor(r, weights.F32, experts, hidden)
		for i := range experts * hidden {
			PutFloat(router.Data, weights.F32, i, float32(r.NormFloat64()))
		}
		e.Router = b.Weight(router)
		for range experts {
			e.MLPs = append(e.MLPs, compute.MLP{
				Gate: b.Weight(Tensor(r, kind, inner, hidden)),
				Up:   b.Weight(Tensor(r, kind, inner, hidden)),
				Down: b.Weight(Tensor(r, kind, hidden, inner)),
			})
		}
		src, dst := b.Buffer(rows, hidden, Floats(r, rows*hidden)), b.Buffer(rows, hidden, nil)
		b.Begin(PlainStep(rows), nil)
		b.Mixture(dst, src, &e)
		return b.Contents(rows, dst)
	}
}
