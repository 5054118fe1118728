package cpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"parley"
	"parley/compute"
	"parley/compute/computetest"
	"parley/model/weights"
)

// forEachPath runs f on every path of this machine.
func forEachPath(t *testing.T, f func(t *testing.T, path string)) {
	for _, path := range supportedPaths() {
		t.Run(path, func(t *testing.T) { f(t, path) })
	}
}

// A rowwise model has operations on rows whose values depend on their number
// alone: it must give the same rows, however many there are.
type rowwise struct {
	gate, up, down, square, table, router weights.Tensor
	bias, norm                            weights.Tensor
}

const rowwiseVocab, rowwiseHidden = 77, 256

func newRowwise(kind weights.DType) *rowwise {
	const inner, experts = 352, 6
	r := newRand(11)
	return &rowwise{
		gate: randomTensor(r, kind, inner, rowwiseHidden), up: randomTensor(r, kind, inner, rowwiseHidden),
		down:   randomTensor(r, weights.F32, rowwiseHidden, inner),
		square: randomTensor(r, kind, rowwiseHidden, rowwiseHidden),
		table:  randomTensor(r, kind, rowwiseVocab, rowwiseHidden),
		router: randomTensor(r, weights.F32, experts, rowwiseHidden),
		bias:   vectorTensor(r, rowwiseHidden), norm: vectorTensor(r, rowwiseHidden),
	}
}

func (m *rowwise) scenario(rows int) scenario {
	return func(b bench) []float32 {
		gate, up, down := b.Weight(m.gate), b.Weight(m.up), b.Weight(m.down)
		table := b.Weight(m.table)
		e := compute.Experts{Router: b.Weight(m.router), TopK: 2}
		for range m.router.Rows() {
			e.MLPs = append(e.MLPs, compute.MLP{Gate: gate, Up: up, Down: down, Act: compute.GELUTanh})
			gate, up = up, gate
		}
		step := plainStep(rows)
		for i := range step.Tokens {
			step.Tokens[i] = parley.Token(i * 7 % rowwiseVocab)
		}
		b.Begin(step, nil)
		x, y := b.Buffer(rows, rowwiseHidden, nil), b.Buffer(rows, rowwiseHidden, nil)
		b.Embed(x, table, 3)
		b.Norm(y, x, b.Weight(m.norm), 1e-5, 0.5)
		b.Linear(y, []compute.Projection{{Out: x, W: b.Weight(m.square), Bias: b.Weight(m.bias)}})
		b.GatedMLP(y, x, &compute.MLP{Gate: gate, Up: up, Down: down})
		b.Add(x, y)
		b.Mixture(y, x, &e)
		b.Add(x, y)
		out := make([]float32, rows*rowwiseVocab)
		b.Logits(out, x, table)
		return out
	}
}

func TestRowsDoNotDependOnTheirNumber(t *testing.T) {
	const most = tiledFrom + 40
	forEachPath(t, func(t *testing.T, path string) {
		for _, kind := range []weights.DType{weights.Q8_0, weights.Q4_0, weights.Q4_K, weights.Q6_K, weights.F32,
			weights.F16, weights.BF16, weights.Q5_K} {
			m := newRowwise(kind)
			all := m.scenario(most).on(t, Options{Threads: 1, Path: path})
			rowCounts := []int{1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 23, 24, 25, 37, 48, tiledFrom - 1, tiledFrom,
				tiledFrom + 1, tiledFrom + 9, most - 1}
			if path == "plain" || kind == weights.Q5_K {
				rowCounts = []int{1, 7, tiledFrom} // these have one code for any number of rows, and are slow
			}
			for _, rows := range rowCounts {
				got := m.scenario(rows).on(t, Options{Threads: 1 + rows%3, Path: path})
				if err := sameBits(got, all[:rows*rowwiseVocab]); err != nil {
					t.Fatalf("%s, %d rows: %v", kind, rows, err)
				}
			}
		}
	})
}

func TestRowsDoNotDependOnThreads(t *testing.T) {
	forEachPath(t, func(t *testing.T, path string) {
		m := newRowwise(weights.Q8_0)
		for _, rows := range []int{33, tiledFrom + 7} {
			want := m.scenario(rows).on(t, Options{Threads: 1, Path: path})
			for _, threads := range []int{2, 3, 5} {
				got := m.scenario(rows).on(t, Options{Threads: threads, Path: path})
				if err := sameBits(got, want); err != nil {
					t.Errorf("%d rows, %d threads: %v", rows, threads, err)
				}
			}
		}
	})
}

// partition divides a number into random parts.
func partition(r *rand.Rand, n int) []int {
	var parts []int
	for n > 0 {
		part := 1 + r.IntN(min(n, 40))
		parts = append(parts, part)
		n -= part
	}
	return parts
}

// byLayer sorts the results of a sequence by layer, so that their order does
// not depend on the chunks.
func byLayer(values []float32, chunks []int, width int) []float32 {
	var layers [computetest.LookbackLayers][]float32
	for _, rows := range chunks {
		for l := range layers {
			layers[l] = append(layers[l], values[:rows*width]...)
			values = values[rows*width:]
		}
	}
	var all []float32
	for _, l := range layers {
		all = append(all, l...)
	}
	return all
}

func TestAttentionDoesNotDependOnChunksBlocksOrThreads(t *testing.T) {
	cases := []struct {
		heads          compute.Heads
		tokens, window int
	}{
		{compute.Heads{Query: 9, KV: 3, Dim: 64}, 150, 0},
		{compute.Heads{Query: 2, KV: 2, Dim: 24}, 150, 33},
		{compute.Heads{Query: 8, KV: 2, Dim: 80}, 150, 0},
		{compute.Heads{Query: 2, KV: 1, Dim: 16}, 1100, 0},
		{compute.Heads{Query: 1, KV: 1, Dim: 16}, 1300, 600},
	}
	forEachKVType(t, func(t *testing.T, path string, kind compute.KVType) {
		for i, c := range cases {
			heads, tokens := c.heads, c.tokens
			if tokens > 1000 && path == "plain" && kind != compute.KVF32 {
				continue // slow, and segments are the same for all types
			}
			l := computetest.Lookback{Heads: heads, Kind: kind, Window: c.window, Norms: i == 2, Interleaved: i == 1}
			l.Talks = []computetest.Conversation{{Chunks: []int{tokens}, Blocks: blockTable(tokens, 0)}}
			width := heads.Query * heads.Dim
			want := byLayer(scenario(l.Scenario()).on(t, Options{Threads: 1, Path: path}), []int{tokens}, width)
			r := newRand(uint64(i))
			for _, threads := range []int{1, 2, 3, 5} {
				if tokens > 1000 && threads%2 == 1 {
					continue // long contexts have segments; short ones try the numbers of threads
				}
				chunks, blocks := partition(r, tokens), blockTable(tokens, 3)
				r.Shuffle(len(blocks), func(a, b int) { blocks[a], blocks[b] = blocks[b], blocks[a] })
				l.Talks = []computetest.Conversation{{Chunks: chunks, Blocks: blocks},
					{Chunks: []int{1, 17, 5}, Blocks: []int32{1, 0}}}
				got := scenario(l.Scenario()).on(t, Options{Threads: threads, Path: path})[:len(want)]
				if err := sameBits(byLayer(got, chunks, width), want); err != nil {
					t.Errorf("%+v, %d threads, chunks %v: %v", heads, threads, chunks, err)
				}
			}
		}
	})
}

func TestVectorPathsAgreeExactly(t *testing.T) {
	names := supportedPaths()
	if len(names) < 3 {
		t.Skipf("this machine has only the paths %v", names)
	}
	l := computetest.Lookback{Heads: compute.Heads{Query: 9, KV: 3, Dim: 96}, Norms: true,
		Talks: []computetest.Conversation{{Chunks: []int{50, 1}, Blocks: blockTable(51, 0)}}}
	scenarios := map[string]scenario{}
	for l.Kind = range compute.KVType(compute.KVTypes) {
		scenarios[fmt.Sprintf("attention over %v", l.Kind)] = scenario(l.Scenario())
	}
	for _, kind := range allTypes {
		if kind == weights.BF16 && slices.ContainsFunc(paths(), func(p path) bool {
			return p.supported && p.kernels.brain != nil
		}) {
			continue // a matrix unit for bfloat16 adds in another order
		}
		scenarios[fmt.Sprintf("rows of %s", kind)] = newRowwise(kind).scenario(13)
		scenarios[fmt.Sprintf("linear of %s", kind)] = scenarioLinear(kind, 7, 768, 100, 31)
		scenarios[fmt.Sprintf("many rows of %s", kind)] = scenarioLinear(kind, tiledFrom+5, 768, 100, 31)
	}
	for name, s := range scenarios {
		want := s.on(t, Options{Threads: 2, Path: "avx512"})
		for _, path := range names {
			if path == "avx512" || path == "plain" {
				continue
			}
			if err := sameBits(s.on(t, Options{Threads: 2, Path: path}), want); err != nil {
				t.Errorf("%s on %s: %v", name, path, err)
			}
		}
	}
}

// TestStepsDoNotAllocate computes steps of so many rows after a long context: few
// are done beside one another, many in tiles, and one row's attention in segments.
func TestStepsDoNotAllocate(t *testing.T) {
	forEachPath(t, func(t *testing.T, path string) {
		rowCounts := []int{1, redoRows, 20, 2*tileRows + 1, tiledFrom + 1}
		if path == "plain" {
			rowCounts = []int{1, 5} // one code for any number of rows, and slow
		}
		for _, rows := range rowCounts {
			c, err := New(Options{Threads: 2, Path: path})
			if err != nil {
				t.Fatal(err)
			}
			if n := testing.AllocsPerRun(10, wholeStep(bench{TB: t, Backend: c}, rows)); n != 0 {
				t.Errorf("a step of %d rows allocates %v times", rows, n)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// wholeStep returns a function that computes a step with every operation.
func wholeStep(b bench, rows int) func() {
	const hidden, inner, vocab, past = 256, 512, 100, 3 * segmentBlocks * compute.BlockTokens
	r := newRand(1)
	heads := compute.Heads{Query: 4, KV: 2, Dim: 64}
	b.Pool(compute.KVShape{Layers: 1, KVHeads: 2, HeadDim: 64, Blocks: len(blockTable(past+rows, 0))})
	if err := b.Reserve(compute.Limits{Rows: rows, Outputs: rows, Width: inner, Experts: 2}); err != nil {
		b.Fatal(err)
	}
	table, norm := b.Weight(randomTensor(r, weights.Q8_0, vocab, hidden)), b.Weight(vectorTensor(r, hidden))
	m := compute.MLP{
		Gate: b.Weight(randomTensor(r, weights.Q8_0, inner, hidden)),
		Up:   b.Weight(randomTensor(r, weights.F16, inner, hidden)),
		Down: b.Weight(randomTensor(r, weights.Q4_K, hidden, inner)),
	}
	e := compute.Experts{Router: b.Weight(randomTensor(r, weights.F32, 3, hidden)), MLPs: []compute.MLP{m, m, m},
		TopK: 2}
	x, y := b.Buffer(rows, hidden, nil), b.Buffer(rows, hidden, nil)
	qkv := compute.QKV{Q: b.Buffer(rows, 256, nil), K: b.Buffer(rows, 128, nil), V: b.Buffer(rows, 128, nil),
		Heads: heads}
	ps := []compute.Projection{
		{Out: qkv.Q, W: b.Weight(randomTensor(r, weights.Q6_K, 256, hidden))},
		{Out: qkv.K, W: b.Weight(randomTensor(r, weights.Q5_0, 128, hidden))},
		{Out: qkv.V, W: b.Weight(randomTensor(r, weights.BF16, 128, hidden))},
	}
	step, ropes, logits := plainStep(rows), []compute.Rope{{InvFreq: invFreq(64), Scale: 1}}, make([]float32,
		rows*vocab)
	step.Seqs[0].Past, step.Seqs[0].Blocks = past, blockTable(past+rows, 0)
	a := compute.Attention{Heads: heads, Scale: 0.125}
	return func() {
		b.Begin(step, ropes)
		b.Embed(x, table, 1)
		b.Norm(y, x, norm, 1e-5, 0)
		b.Linear(y, ps)
		b.RopeStore(0, 0, &qkv)
		b.Attend(0, y, qkv.Q, &a)
		b.Add(x, y)
		b.GatedMLP(y, x, &m)
		b.Mixture(y, x, &e)
		b.Logits(logits, x, table)
	}
}
