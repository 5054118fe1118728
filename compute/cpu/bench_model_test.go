package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"parley/compute"
	"parley/model/weights"
)

// A modelShape is the geometry of a whole model of random weights.
type modelShape struct {
	name                         string
	layers, hidden, inner, vocab int
	heads                        compute.Heads
}

var modelShapes = []modelShape{
	{"135M", 30, 576, 1536, 49152, compute.Heads{Query: 9, KV: 3, Dim: 64}},
	{"1B", 16, 2048, 8192, 128256, compute.Heads{Query: 32, KV: 8, Dim: 64}},
}

// A randomModel is what a model does with a backend, for measuring.
type randomModel struct {
	bench
	modelShape
	table, norm compute.Weight
	blocks      []modelLayer
	x, y, att   compute.Buffer
	qkv         compute.QKV
	logits      []float32
	spent       map[string]time.Duration // on each kind of operation
	since       time.Time
}

type modelLayer struct {
	qkv, out []compute.Projection
	mlp      compute.MLP
}

// newRandomModel uploads a model. All layers are copies of one.
func newRandomModel(d bench, s modelShape, kind weights.DType, pool compute.KVType, rows, tokens int) *randomModel {
	if err := d.Reserve(compute.Limits{Rows: rows, Outputs: rows, Width: s.inner}); err != nil {
		d.Fatal(err)
	}
	m := &randomModel{bench: d, modelShape: s, logits: make([]float32, rows*s.vocab), spent: map[string]time.Duration{}}
	r := newRand(1)
	q, kv := s.heads.Query*s.heads.Dim, s.heads.KV*s.heads.Dim
	m.Pool(compute.KVShape{Layers: s.layers, KVHeads: s.heads.KV, HeadDim: s.heads.Dim,
		Blocks: len(blockTable(tokens, 0)), Type: pool})
	m.fillKV(r, pool)
	m.x, m.y, m.att = d.Buffer(rows, s.hidden, nil), d.Buffer(rows, s.hidden, nil), d.Buffer(rows, q, nil)
	m.qkv = compute.QKV{Q: d.Buffer(rows, q, nil), K: d.Buffer(rows, kv, nil), V: d.Buffer(rows, kv, nil),
		Heads: s.heads}
	m.table, m.norm = d.Weight(randomTensor(r, kind, s.vocab, s.hidden)), d.Weight(vectorTensor(r, s.hidden))
	wq, wk, wo := randomTensor(r, kind, q, s.hidden), randomTensor(r, kind, kv, s.hidden), randomTensor(r, kind,
		s.hidden, q)
	gate, down := randomTensor(r, kind, s.inner, s.hidden), randomTensor(r, kind, s.hidden, s.inner)
	for range s.layers {
		m.blocks = append(m.blocks, modelLayer{
			qkv: []compute.Projection{{Out: m.qkv.Q, W: d.Weight(wq)}, {Out: m.qkv.K, W: d.Weight(wk)},
				{Out: m.qkv.V, W: d.Weight(wk)}},
			out: []compute.Projection{{Out: m.y, W: d.Weight(wo)}},
			mlp: compute.MLP{Gate: d.Weight(gate), Up: d.Weight(gate), Down: d.Weight(down)},
		})
	}
	return m
}

// fillKV fills the pool with numbers, which it would have in use.
func (m *randomModel) fillKV(r *rand.Rand, kind compute.KVType) {
	data := m.Backend.(*CPU).kv.data
	for n := copy(data, randomPart(r, kind, m.heads.Dim)); n < len(data); n *= 2 {
		copy(data[n:], data[:n])
	}
}

// done counts the time since the last operation as that of the named one.
func (m *randomModel) done(name string) {
	now := time.Now()
	m.spent[name] += now.Sub(m.since)
	m.since = now
}

func (m *randomModel) pass(step *compute.Step, ropes []compute.Rope) {
	m.since = time.Now()
	m.Begin(step, ropes)
	m.Embed(m.x, m.table, 1)
	m.done("embed")
	for i := range m.blocks {
		l := &m.blocks[i]
		m.Norm(m.y, m.x, m.norm, 1e-5, 1)
		m.done("norm")
		m.Linear(m.y, l.qkv)
		m.done("qkv")
		m.RopeStore(i, 0, &m.qkv)
		m.done("rope")
		m.Attend(i, m.att, m.qkv.Q, &compute.Attention{Heads: m.heads, Scale: 0.125})
		m.done("attend")
		m.Linear(m.att, l.out)
		m.done("out")
		m.Add(m.x, m.y)
		m.done("add")
		m.Norm(m.y, m.x, m.norm, 1e-5, 1)
		m.done("norm")
		m.GatedMLP(m.y, m.y, &l.mlp)
		m.done("mlp")
		m.Add(m.x, m.y)
		m.done("add")
	}
	m.Norm(m.x, m.x, m.norm, 1e-5, 1)
	m.done("norm")
	m.Logits(m.logits, m.x, m.table)
	m.done("logits")
}

// A modelLoad is how many sequences have how many new rows after how many tokens.
type modelLoad struct{ seqs, rows, past int }

// benchPass measures whole steps: tokens per second, and the microseconds that
// each kind of operation takes in a step.
func benchPass(b *testing.B, shape modelShape, kind weights.DType, pool compute.KVType, l modelLoad) {
	perSeq := (l.past + l.rows + compute.BlockTokens - 1) / compute.BlockTokens
	m := newRandomModel(newBench(b, ""), shape, kind, pool, l.seqs*l.rows, perSeq*l.seqs*compute.BlockTokens)
	step := &compute.Step{Tokens: plainStep(l.seqs * l.rows).Tokens}
	for i := range l.seqs {
		step.Seqs = append(step.Seqs,
			compute.Seq{Row: i * l.rows, Rows: l.rows, Past: l.past, Blocks: blockTable(l.past+l.rows, i*perSeq)})
		step.Outputs = append(step.Outputs, int32((i+1)*l.rows-1))
	}
	ropes := []compute.Rope{{InvFreq: invFreq(shape.heads.Dim), Scale: 1}}
	m.pass(step, ropes)
	clear(m.spent)
	b.ResetTimer()
	for range b.N {
		m.pass(step, ropes)
	}
	for name, t := range m.spent {
		b.ReportMetric(float64(t.Nanoseconds())/1e3/float64(b.N), name+"-µs")
	}
	b.ReportMetric(float64(b.N*l.seqs*l.rows)/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkModel measures prompts and decoding.
func BenchmarkModel(b *testing.B) {
	for _, shape := range modelShapes {
		for _, kind := range []weights.DType{weights.Q8_0, weights.Q4_0, weights.Q4_K, weights.Q6_K, weights.F16,
			weights.BF16} {
			if shape.hidden%kind.BlockLen() != 0 {
				continue
			}
			for _, l := range []modelLoad{{1, 1, 128}, {8, 1, 128}, {1, 64, 0}, {1, 512, 0}} {
				b.Run(fmt.Sprintf("%s/%s/%d_of_%d_after_%d", shape.name, kind, l.seqs, l.rows, l.past),
					func(b *testing.B) {
						benchPass(b, shape, kind, compute.KVF32, l)
					})
			}
		}
	}
}

// BenchmarkContext measures what the type of the pool and the length of the
// context cost in a small model, where attention weighs most.
func BenchmarkContext(b *testing.B) {
	for kind := range compute.KVType(compute.KVTypes) {
		for _, l := range []modelLoad{{1, 1, 512}, {8, 1, 512}, {16, 1, 512}, {16, 1, 1880}, {64, 1, 512},
			{1, 1, 4000}, {8, 1, 4000}, {16, 1, 4000}, {1, 512, 0}, {1, 512, 3500}} {
			b.Run(fmt.Sprintf("%v/%d_of_%d_after_%d", kind, l.seqs, l.rows, l.past), func(b *testing.B) {
				benchPass(b, modelShapes[0], weights.Q8_0, kind, l)
			})
		}
	}
}
