package cpu

import (
	"fmt"
	"math"
	"testing"

	"parley"
	"parley/compute"
)

// invFreq returns the usual frequencies of a rotary encoding.
func invFreq(dim int) []float32 {
	f := make([]float32, dim/2)
	for i := range f {
		f[i] = float32(math.Pow(10000, -2*float64(i)/float64(dim)))
	}
	return f
}

// A conversation is one sequence that is computed in several steps.
type conversation struct {
	chunks []int   // new tokens in each step
	blocks []int32 // its block table
}

// A lookback is an attention test: sequences that run side by side.
type lookback struct {
	heads       compute.Heads
	kind        compute.KVType
	still       bool // keys are not turned, so that all backends round the same ones
	window      int
	interleaved bool
	norms       bool
	talks       []conversation
}

const lookbackLayers = 2

// scenario returns the rotated queries and attention outputs of each sequence's
// rows, sequence by sequence, so that chunking does not change the order.
func (l lookback) scenario() scenario {
	return func(b bench) []float32 {
		steps, blocks := l.extent()
		b.newKV(compute.KVShape{Layers: lookbackLayers, KVHeads: l.heads.KV, HeadDim: l.heads.Dim, Blocks: blocks, Type: l.kind})
		outs := make([][]float32, len(l.talks))
		past := make([]int, len(l.talks))
		for s := range steps {
			l.step(b, s, past, outs)
		}
		var all []float32
		for _, o := range outs {
			all = append(all, o...)
		}
		return all
	}
}

// extent returns the number of steps and of blocks.
func (l lookback) extent() (steps, blocks int) {
	for _, c := range l.talks {
		steps = max(steps, len(c.chunks))
		for _, b := range c.blocks {
			blocks = max(blocks, int(b)+1)
		}
	}
	return steps, blocks
}

// step computes step s of all sequences that have one. Row values depend on
// sequence and position only.
func (l lookback) step(b bench, s int, past []int, outs [][]float32) {
	b.Helper()
	var step compute.Step
	var owners []int
	width, kvWidth := l.heads.Query*l.heads.Dim, l.heads.KV*l.heads.Dim
	var q, k, v []float32
	for i, c := range l.talks {
		if s >= len(c.chunks) {
			continue
		}
		step.Seqs = append(step.Seqs, compute.Seq{Row: len(step.Tokens), Rows: c.chunks[s], Past: past[i], Blocks: c.blocks})
		owners = append(owners, i)
		for range c.chunks[s] {
			r := newRand(uint64(i*100000 + past[i]))
			q = append(q, randomFloats(r, width)...)
			k = append(k, randomFloats(r, kvWidth)...)
			v = append(v, randomFloats(r, kvWidth)...)
			step.Tokens = append(step.Tokens, parley.Token(0))
			past[i]++
		}
	}
	rows := len(step.Tokens)
	if err := step.Validate(1 << 20); err != nil {
		b.Fatal(err)
	}
	b.Begin(&step, []compute.Rope{l.rope()})
	for layer := range lookbackLayers {
		x := compute.QKV{Q: b.buffer(rows, width, q), K: b.buffer(rows, kvWidth, k), V: b.buffer(rows, kvWidth, v), Heads: l.heads}
		if l.norms {
			r := newRand(5)
			x.QNorm, x.KNorm, x.NormEps, x.NormOffset = b.upload(vectorTensor(r, l.heads.Dim)), b.upload(vectorTensor(r, l.heads.Dim)), 1e-6, 1
		}
		b.RopeStore(layer, 0, &x)
		out := b.buffer(rows, width, nil)
		b.Attend(layer, out, x.Q, &compute.Attention{Heads: l.heads, Scale: float32(1 / math.Sqrt(float64(l.heads.Dim))), Window: l.window})
		for j, seq := range step.Seqs {
			part := contents(out)[seq.Row*width:][:seq.Rows*width]
			outs[owners[j]] = append(outs[owners[j]], part...)
		}
	}
}

func (l lookback) rope() compute.Rope {
	if l.still {
		return compute.Rope{InvFreq: make([]float32, l.heads.Dim/2), Scale: 1}
	}
	return compute.Rope{InvFreq: invFreq(l.heads.Dim), Scale: 1.1, Interleaved: l.interleaved}
}

func TestAttention(t *testing.T) {
	talks := []conversation{
		{chunks: []int{37, 1, 1, 30}, blocks: []int32{7, 3, 9, 11, 2}},
		{chunks: []int{1, 16, 1}, blocks: []int32{0, 12}},
		{chunks: []int{2, 64, 1}, blocks: blockTable(67, 20)},
	}
	for i, dim := range []int{64, 24, 2, 40, 80, 96, 128, 256} {
		for k, heads := range []compute.Heads{{Query: 4, KV: 4, Dim: dim}, {Query: 9, KV: 3, Dim: dim}, {Query: 8, KV: 1, Dim: dim}} {
			for _, window := range []int{0, 1, 20} {
				if i > 1 && (window > 0 || k != i%3) {
					continue
				}
				t.Run(fmt.Sprintf("dim_%d_heads_%d_of_%d_window_%d", dim, heads.Query, heads.KV, window), func(t *testing.T) {
					l := lookback{heads: heads, window: window, talks: talks, interleaved: heads.KV == 3, norms: heads.KV == 1}
					l.scenario().compare(t, budgetAttention)
				})
			}
		}
	}
}

func TestAttentionOverSegments(t *testing.T) {
	const tokens = 2*segmentBlocks*compute.BlockTokens + 100
	for _, window := range []int{0, 530} {
		l := lookback{heads: compute.Heads{Query: 2, KV: 1, Dim: 16}, window: window}
		l.talks = []conversation{
			{chunks: []int{tokens - 35, 1, 33, 1}, blocks: blockTable(tokens, 0)},
			{chunks: []int{20, 1, 1}, blocks: blockTable(22, tokens)},
		}
		l.scenario().compare(t, budgetAttention)
	}
}

// TestAttentionWithManyThreads lets one long context stand among short ones,
// and has more threads than there is work for.
func TestAttentionWithManyThreads(t *testing.T) {
	const tokens = 3*segmentBlocks*compute.BlockTokens + 7
	for kind := range compute.KVType(compute.KVTypes) {
		l := lookback{heads: compute.Heads{Query: 6, KV: 3, Dim: 16}, kind: kind}
		l.talks = []conversation{{chunks: []int{tokens, 1, 3}, blocks: blockTable(tokens+4, 0)}}
		for i := range 20 {
			l.talks = append(l.talks, conversation{chunks: []int{1 + i, 1, 1}, blocks: blockTable(i+3, 1000+2*i)})
		}
		want := l.scenario().on(t, Options{Threads: 1})
		for _, threads := range []int{2, 64} {
			if err := sameBits(l.scenario().on(t, Options{Threads: threads}), want); err != nil {
				t.Errorf("%v, %d threads: %v", kind, threads, err)
			}
		}
	}
}

func TestRotation(t *testing.T) {
	for _, interleaved := range []bool{false, true} {
		for _, dim := range []int{2, 30, 64, 96} {
			scenario(func(b bench) []float32 {
				const rows = 19
				r := newRand(1)
				x := compute.QKV{
					Q: b.buffer(rows, 3*dim, randomFloats(r, rows*3*dim)), K: b.buffer(rows, dim, randomFloats(r, rows*dim)),
					V: b.buffer(rows, dim, nil), Heads: compute.Heads{Query: 3, KV: 1, Dim: dim},
				}
				b.newKV(compute.KVShape{Layers: 1, KVHeads: 1, HeadDim: dim, Blocks: 100})
				step := plainStep(rows)
				step.Seqs[0].Past = 1500
				step.Seqs[0].Blocks = blockTable(1500+rows, 2)
				b.Begin(step, []compute.Rope{{}, {InvFreq: invFreq(dim), Scale: 1, Interleaved: interleaved}})
				b.RopeStore(0, 1, &x)
				return append(contents(x.Q), contents(x.K)...)
			}).compare(t, budgetRope)
		}
	}
}
