package computetest

import (
	"math"

	"parley"
	"parley/compute"
)

// InvFreq returns the usual frequencies of a rotary encoding.
func InvFreq(dim int) []float32 {
	f := make([]float32, dim/2)
	for i := range f {
		f[i] = float32(math.Pow(10000, -2*float64(i)/float64(dim)))
	}
	return f
}

// Rotation turns queries and keys at positions from 1500 on.
func Rotation(dim int, interleaved bool) Scenario {
	return func(b Bench) []float32 {
		const rows = 19
		r := NewRand(1)
		x := compute.QKV{
			Q:     b.Buffer(rows, 3*dim, Floats(r, rows*3*dim)),
			K:     b.Buffer(rows, dim, Floats(r, rows*dim)),
			V:     b.Buffer(rows, dim, make([]float32, rows*dim)),
			Heads: compute.Heads{Query: 3, KV: 1, Dim: dim},
		}
		b.Pool(compute.KVShape{Layers: 1, KVHeads: 1, HeadDim: dim, Blocks: 100})
		step := PlainStep(rows)
		step.Seqs[0].Past = 1500
		step.Seqs[0].Blocks = BlockTable(1500+rows, 2)
		b.Begin(step, []compute.Rope{{}, {InvFreq: InvFreq(dim), Scale: 1, Interleaved: interleaved}})
		b.RopeStore(0, 1, &x)
		return b.Contents(rows, x.Q, x.K)
	}
}

// A Conversation is one sequence that is computed in several steps.
type Conversation struct {
	Past   int     // tokens that others of the same blocks have computed before its first
	Chunks []int   // new tokens in each step; without any, the step leaves it out
	Blocks []int32 // its block table
}

// A Lookback is an attention test: sequences that run side by side.
type Lookback struct {
	Heads       compute.Heads
	Kind        compute.KVType
	Still       bool // keys are not turned, so that all backends round the same ones
	Window      int
	Interleaved bool
	Norms       bool
	Talks       []Conversation
}

// LookbackLayers is how many layers the pool of a lookback needs.
const LookbackLayers = 2

// Scenario returns the attention outputs of each sequence's rows, sequence by
// sequence, so that chunking does not change the order.
func (l Lookback) Scenario() Scenario {
	return func(b Bench) []float32 {
		steps, blocks := l.extent()
		b.Pool(compute.KVShape{
			Layers:  LookbackLayers,
			KVHeads: l.Heads.KV,
			HeadDim: l.Heads.Dim,
			Blocks:  blocks,
			Type:    l.Kind,
		})
		outs := make([][]float32, len(l.Talks))
		past := make([]int, len(l.Talks))
		for i := range l.Talks {
			past[i] = l.Talks[i].Past
		}
		for s := range steps {
			l.Step(b, s, past, outs)
		}
		var all []float32
		for _, o := range outs {
			all = append(all, o...)
		}
		return all
	}
}

// extent returns the number of steps and of blocks.
func (l Lookback) extent() (steps, blocks int) {
	for _, c := range l.Talks {
		steps = max(steps, len(c.Chunks))
		for _, b := range c.Blocks {
			blocks = max(blocks, int(b)+1)
		}
	}
	return steps, blocks
}

// assemble makes step s of all sequences that have one, and the values of its
// rows, which depend on sequence and position only.
func (l Lookback) assemble(s int, past []int) (step compute.Step, owners []int, q, k, v []float32) {
	width, kvWidth := l.Heads.Query*l.Heads.Dim, l.Heads.KV*l.Heads.Dim
	for i, c := range l.Talks {
		if s >= len(c.Chunks) || c.Chunks[s] == 0 {
			continue
		}
		step.Seqs = append(step.Seqs,
			compute.Seq{Row: len(step.Tokens), Rows: c.Chunks[s], Past: past[i], Blocks: c.Blocks})
		owners = append(owners, i)
		for range c.Chunks[s] {
			r := NewRand(uint64(i*100000 + past[i]))
			q = append(q, Floats(r, width)...)
			k = append(k, Floats(r, kvWidth)...)
			v = append(v, Floats(r, kvWidth)...)
			step.Tokens = append(step.Tokens, parley.Token(0))
			past[i]++
		}
	}
	return step, owners, q, k, v
}

// Step computes step s of all sequences that have one.
func (l Lookback) Step(b Bench, s int, past []int, outs [][]float32) {
	b.Helper()
	step, owners, q, k, v := l.assemble(s, past)
	width, kvWidth, rows := l.Heads.Query*l.Heads.Dim, l.Heads.KV*l.Heads.Dim, len(step.Tokens)
	if err := step.Validate(1 << 20); err != nil {
		b.Fatal(err)
	}
	var xs [LookbackLayers]compute.QKV
	var out [LookbackLayers]compute.Buffer
	for i := range xs {
		xs[i] = compute.QKV{
			Q:     b.Buffer(rows, width, q),
			K:     b.Buffer(rows, kvWidth, k),
			V:     b.Buffer(rows, kvWidth, v),
			Heads: l.Heads,
		}
		if l.Norms {
			r := NewRand(5)
			xs[i].QNorm, xs[i].KNorm = b.Weight(Vector(r, l.Heads.Dim)), b.Weight(Vector(r, l.Heads.Dim))
			xs[i].NormEps, xs[i].NormOffset = 1e-6, 1
		}
		out[i] = b.Buffer(rows, width, nil)
	}
	b.Begin(&step, []compute.Rope{l.rope()})
	for layer := range LookbackLayers {
		b.RopeStore(layer, 0, &xs[layer])
		look := compute.Attention{Heads: l.Heads, Scale: float32(1 / math.Sqrt(float64(l.Heads.Dim))), Window: l.Window}
		b.Attend(layer, out[layer], xs[layer].Q, &look)
		values := b.Contents(rows, out[layer])
		for j, seq := range step.Seqs {
			outs[owners[j]] = append(outs[owners[j]], values[seq.Row*width:][:seq.Rows*width]...)
		}
	}
}

func (l Lookback) rope() compute.Rope {
	if l.Still {
		return compute.Rope{InvFreq: make([]float32, l.Heads.Dim/2), Scale: 1}
	}
	return compute.Rope{InvFreq: InvFreq(l.Heads.Dim), Scale: 1.1, Interleaved: l.Interleaved}
}
