package cpu

import (
	"fmt"
	"testing"

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
}

type modelLayer struct {
	qkv, out []compute.Projection
	mlp      compute.MLP
}

// newRandomModel uploads a model. All layers are copies of one.
func newRandomModel(d bench, s modelShape, kind weights.DType, rows, tokens int) *randomModel {
	if err := d.Reserve(compute.Limits{Rows: rows, Outputs: rows, Width: s.inner}); err != nil {
		d.Fatal(err)
	}
	m := &randomModel{bench: d, modelShape: s, logits: make([]float32, rows*s.vocab)}
	r := newRand(1)
	q, kv := s.heads.Query*s.heads.Dim, s.heads.KV*s.heads.Dim
	m.newKV(compute.KVShape{Layers: s.layers, KVHeads: s.heads.KV, HeadDim: s.heads.Dim, Blocks: len(blockTable(tokens, 0))})
	m.x, m.y, m.att = d.buffer(rows, s.hidden, nil), d.buffer(rows, s.hidden, nil), d.buffer(rows, q, nil)
	m.qkv = compute.QKV{Q: d.buffer(rows, q, nil), K: d.buffer(rows, kv, nil), V: d.buffer(rows, kv, nil), Heads: s.heads}
	m.table, m.norm = d.upload(randomTensor(r, kind, s.vocab, s.hidden)), d.upload(vectorTensor(r, s.hidden))
	wq, wk, wo := randomTensor(r, kind, q, s.hidden), randomTensor(r, kind, kv, s.hidden), randomTensor(r, kind, s.hidden, q)
	gate, down := randomTensor(r, kind, s.inner, s.hidden), randomTensor(r, kind, s.hidden, s.inner)
	for range s.layers {
		m.blocks = append(m.blocks, modelLayer{
			qkv: []compute.Projection{{Out: m.qkv.Q, W: d.upload(wq)}, {Out: m.qkv.K, W: d.upload(wk)}, {Out: m.qkv.V, W: d.upload(wk)}},
			out: []compute.Projection{{Out: m.y, W: d.upload(wo)}},
			mlp: compute.MLP{Gate: d.upload(gate), Up: d.upload(gate), Down: d.upload(down)},
		})
	}
	return m
}

func (m *randomModel) pass(step *compute.Step, ropes []compute.Rope) {
	m.Begin(step, ropes)
	m.Embed(m.x, m.table, 1)
	for i := range m.blocks {
		l := &m.blocks[i]
		m.Norm(m.y, m.x, m.norm, 1e-5, 1)
		m.Linear(m.y, l.qkv)
		m.RopeStore(i, 0, &m.qkv)
		m.Attend(i, m.att, m.qkv.Q, &compute.Attention{Heads: m.heads, Scale: 0.125})
		m.Linear(m.att, l.out)
		m.Add(m.x, m.y)
		m.Norm(m.y, m.x, m.norm, 1e-5, 1)
		m.GatedMLP(m.y, m.y, &l.mlp)
		m.Add(m.x, m.y)
	}
	m.Norm(m.x, m.x, m.norm, 1e-5, 1)
	m.Logits(m.logits, m.x, m.table)
}

// BenchmarkModel measures whole steps: tokens per second of prompts and of decoding.
func BenchmarkModel(b *testing.B) {
	for _, shape := range modelShapes {
		for _, s := range []struct{ seqs, rows, past int }{{1, 1, 128}, {8, 1, 128}, {1, 512, 0}} {
			b.Run(fmt.Sprintf("%s/Q8_0/%d_of_%d_after_%d", shape.name, s.seqs, s.rows, s.past), func(b *testing.B) {
				perSeq := s.past + s.rows + compute.BlockTokens
				m := newRandomModel(newBench(b, ""), shape, weights.Q8_0, s.seqs*s.rows, perSeq*s.seqs)
				step := &compute.Step{Tokens: plainStep(s.seqs * s.rows).Tokens}
				for i := range s.seqs {
					first := i * (perSeq / compute.BlockTokens)
					step.Seqs = append(step.Seqs, compute.Seq{Row: i * s.rows, Rows: s.rows, Past: s.past, Blocks: blockTable(s.past+s.rows, first)})
					step.Outputs = append(step.Outputs, int32((i+1)*s.rows-1))
				}
				ropes := []compute.Rope{{InvFreq: invFreq(shape.heads.Dim), Scale: 1}}
				m.pass(step, ropes)
				b.ResetTimer()
				for range b.N {
					m.pass(step, ropes)
				}
				b.ReportMetric(float64(b.N*s.seqs*s.rows)/b.Elapsed().Seconds(), "tokens/s")
			})
		}
	}
}
