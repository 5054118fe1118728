// Package cpu computes on the processor.
//
// [Ref] is the plain definition of every operation: one thread, float32,
// weights dequantized once, loops in the order of the formula. It is what
// "correct" means. [CPU] is the fast path beside it, checked against Ref over
// random shapes.
package cpu

import (
	"fmt"
	"math"

	"parley/compute"
	"parley/model/weights"
)

// A Ref is the reference backend. It implements [compute.Backend].
type Ref struct {
	step  *compute.Step
	pos   []int // position of each row
	ropes []compute.Rope
	shape compute.KVShape
	kv    []byte // [block][layer][K, V][head][token][dim], and after each head's the scales of its tokens
}

var _ compute.Backend = (*Ref)(nil)

// refMatrix is a weight or a buffer: rows of float32.
type refMatrix struct {
	rows, cols int
	data       []float32
}

// Dims returns the number of rows and columns.
func (m *refMatrix) Dims() (rows, cols int) { return m.rows, m.cols }

func (m *refMatrix) row(i int) []float32 { return m.data[i*m.cols : (i+1)*m.cols] }

// NewRef returns a reference backend.
func NewRef() *Ref { return &Ref{} }

// Name says what the backend is.
func (r *Ref) Name() string { return "cpu reference" }

// Upload dequantizes the tensor.
func (r *Ref) Upload(t weights.Tensor) (compute.Weight, error) {
	data, err := t.Float32s()
	if err != nil {
		return nil, err
	}
	return &refMatrix{rows: t.Rows(), cols: t.Cols(), data: data}, nil
}

// UploadTable dequantizes the tensor.
func (r *Ref) UploadTable(t weights.Tensor) (compute.Weight, error) { return r.Upload(t) }

// NewBuffer takes memory for activations.
func (r *Ref) NewBuffer(rows, cols int) (compute.Buffer, error) {
	return &refMatrix{rows: rows, cols: cols, data: make([]float32, rows*cols)}, nil
}

// Reserve does nothing: the reference takes its scratch memory as it goes.
func (r *Ref) Reserve(compute.Limits) error { return nil }

// NewKV takes the memory of the pool.
func (r *Ref) NewKV(s compute.KVShape) error {
	if r.kv != nil {
		return fmt.Errorf("cpu: the backend has a pool already")
	}
	if !s.Type.Valid() {
		return fmt.Errorf("cpu: no key/value pool of type %v", s.Type)
	}
	r.shape = s
	r.kv = make([]byte, s.Bytes())
	return nil
}

// CopyBlocks copies whole blocks.
func (r *Ref) CopyBlocks(dst, src []int32) { copyBlocks(r.kv, r.shape, dst, src) }

// ReadBlock copies bytes of a block into dst.
func (r *Ref) ReadBlock(dst []byte, block int32, at int) {
	copy(dst, partOf(blockOf(r.kv, r.shape, block), at, len(dst)))
}

// WriteBlock copies bytes that were read into the pool.
func (r *Ref) WriteBlock(block int32, at int, src []byte) {
	copy(partOf(blockOf(r.kv, r.shape, block), at, len(src)), src)
}

// Close gives the pool back.
func (r *Ref) Close() error { r.kv = nil; return nil }

// Begin sets the step and finds the position of each row.
func (r *Ref) Begin(step *compute.Step, ropes []compute.Rope) {
	r.step, r.ropes, r.pos = step, ropes, r.pos[:0]
	for i := range step.Seqs {
		for j := range step.Seqs[i].Rows {
			r.pos = append(r.pos, step.Seqs[i].Past+j)
		}
	}
}

// Embed copies the tokens' rows of the table.
func (r *Ref) Embed(dst compute.Buffer, table compute.Weight, scale float32) {
	d, t := dst.(*refMatrix), table.(*refMatrix)
	for i, tok := range r.step.Tokens {
		for c, v := range t.row(int(tok)) {
			d.row(i)[c] = v * scale
		}
	}
}

// Norm computes x / sqrt(mean(x²) + eps) · (w + offset).
func (r *Ref) Norm(dst, src compute.Buffer, w compute.Weight, eps, offset float32) {
	d, s := dst.(*refMatrix), src.(*refMatrix)
	for i := range r.pos {
		refNorm(d.row(i), s.row(i), w.(*refMatrix).data, eps, offset)
	}
}

func refNorm(dst, src, w []float32, eps, offset float32) {
	var sum float64
	for _, v := range src {
		sum += float64(v) * float64(v)
	}
	inv := float32(1 / math.Sqrt(sum/float64(len(src))+float64(eps)))
	for c, v := range src {
		dst[c] = v * inv * (w[c] + offset)
	}
}

// Linear computes src·Wᵀ + Bias for each projection.
func (r *Ref) Linear(src compute.Buffer, ps []compute.Projection) {
	for _, p := range ps {
		out, w := p.Out.(*refMatrix), p.W.(*refMatrix)
		for i := range r.pos {
			refMatVec(out.row(i), w, src.(*refMatrix).row(i))
			if p.Bias != nil {
				refAdd(out.row(i), p.Bias.(*refMatrix).data)
			}
		}
	}
}

// refMatVec takes four rows at once: one sum alone would wait for each addition.
func refMatVec(dst []float32, w *refMatrix, x []float32) {
	o := 0
	for ; o+4 <= len(dst); o += 4 {
		a, b, c, d := w.row(o)[:len(x)], w.row(o + 1)[:len(x)], w.row(o + 2)[:len(x)], w.row(o + 3)[:len(x)]
		var ofA, ofB, ofC, ofD float32
		for i, v := range x {
			ofA += a[i] * v
			ofB += b[i] * v
			ofC += c[i] * v
			ofD += d[i] * v
		}
		dst[o], dst[o+1], dst[o+2], dst[o+3] = ofA, ofB, ofC, ofD
	}
	for ; o < len(dst); o++ {
		dst[o] = refDot(w.row(o), x)
	}
}

func refDot(a, b []float32) float32 {
	var sum float32
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

func refAdd(dst, src []float32) {
	for i, v := range src {
		dst[i] += v
	}
}

// RopeStore normalises and rotates queries and keys, and stores keys and values.
func (r *Ref) RopeStore(layer, rope int, x *compute.QKV) {
	dim := x.Heads.Dim
	for s := range r.step.Seqs {
		seq := &r.step.Seqs[s]
		for i := seq.Row; i < seq.Row+seq.Rows; i++ {
			q, k, v := x.Q.(*refMatrix).row(i), x.K.(*refMatrix).row(i), x.V.(*refMatrix).row(i)
			for h := range x.Heads.Query {
				r.turn(q[h*dim:][:dim], r.pos[i], rope, x.QNorm, x)
			}
			for h := range x.Heads.KV {
				r.turn(k[h*dim:][:dim], r.pos[i], rope, x.KNorm, x)
				r.store(seq, layer, 0, h, r.pos[i], k[h*dim:][:dim])
				r.store(seq, layer, 1, h, r.pos[i], v[h*dim:][:dim])
			}
		}
	}
}

// turn normalises one head, if norm is not nil, and rotates it to position pos.
func (r *Ref) turn(head []float32, pos, rope int, norm compute.Weight, x *compute.QKV) {
	if norm != nil {
		refNorm(head, head, norm.(*refMatrix).data, x.NormEps, x.NormOffset)
	}
	t := &r.ropes[rope]
	for i, f := range t.InvFreq {
		sin, cos := math.Sincos(float64(float32(pos) * f))
		c, s := float32(cos)*t.Scale, float32(sin)*t.Scale
		a, b := i, i+len(t.InvFreq)
		if t.Interleaved {
			a, b = 2*i, 2*i+1
		}
		head[a], head[b] = head[a]*c-head[b]*s, head[b]*c+head[a]*s
	}
}

// store keeps the key (part 0) or value (part 1) of one position, rounded to the pool's type.
func (r *Ref) store(seq *compute.Seq, layer, part, head, pos int, x []float32) {
	token := pos % compute.BlockTokens
	narrow(r.shape.Type, r.part(seq, layer, part, head, pos), token, token*len(x), 1, x)
}

// fetch sets dst to what is kept of the key (part 0) or value (part 1) of one position.
func (r *Ref) fetch(dst []float32, seq *compute.Seq, layer, part, head, pos int) {
	readKV(r.shape.Type, dst, r.part(seq, layer, part, head, pos), pos%compute.BlockTokens)
}

// part returns the keys or values of the block and head in which a position is.
func (r *Ref) part(seq *compute.Seq, layer, part, head, pos int) []byte {
	s := &r.shape
	i := int(seq.Blocks[pos/compute.BlockTokens])
	i = i*s.Layers + layer
	i = i*2 + part
	i = i*s.KVHeads + head
	return r.kv[i*s.PartBytes():][:s.PartBytes()]
}

// Attend computes softmax(scale·q·Kᵀ)·V over each row's context.
func (r *Ref) Attend(layer int, dst, q compute.Buffer, a *compute.Attention) {
	dim, group := a.Heads.Dim, a.Heads.Query/a.Heads.KV
	for s := range r.step.Seqs {
		seq := &r.step.Seqs[s]
		for i := seq.Row; i < seq.Row+seq.Rows; i++ {
			first := 0
			if a.Window > 0 {
				first = max(0, r.pos[i]-a.Window+1)
			}
			for h := range a.Heads.Query {
				out := dst.(*refMatrix).row(i)[h*dim:][:dim]
				r.attendHead(out, q.(*refMatrix).row(i)[h*dim:][:dim], seq, layer, h/group, first, r.pos[i], a.Scale)
			}
		}
	}
}

func (r *Ref) attendHead(out, q []float32, seq *compute.Seq, layer, head, first, last int, scale float32) {
	scores, cell := make([]float32, last-first+1), make([]float32, len(q))
	for p := range scores {
		r.fetch(cell, seq, layer, 0, head, first+p)
		scores[p] = scale * refDot(q, cell)
	}
	refSoftmax(scores)
	clear(out)
	for p, w := range scores {
		r.fetch(cell, seq, layer, 1, head, first+p)
		for c, v := range cell {
			out[c] += w * v
		}
	}
}

func refSoftmax(x []float32) {
	top := float32(math.Inf(-1))
	for _, v := range x {
		top = max(top, v)
	}
	var sum float64
	for i, v := range x {
		x[i] = float32(math.Exp(float64(v - top)))
		sum += float64(x[i])
	}
	for i := range x {
		x[i] = float32(float64(x[i]) / sum)
	}
}

// GatedMLP computes down·(act(gate·x) ⊙ up·x).
func (r *Ref) GatedMLP(dst, src compute.Buffer, m *compute.MLP) {
	for i := range r.pos {
		refMLP(dst.(*refMatrix).row(i), src.(*refMatrix).row(i), m)
	}
}

func refMLP(dst, x []float32, m *compute.MLP) {
	width, _ := m.Gate.Dims()
	gate, up := make([]float32, width), make([]float32, width)
	refMatVec(gate, m.Gate.(*refMatrix), x)
	refMatVec(up, m.Up.(*refMatrix), x)
	if m.GateBias != nil {
		refAdd(gate, m.GateBias.(*refMatrix).data)
		refAdd(up, m.UpBias.(*refMatrix).data)
	}
	for i, g := range gate {
		gate[i] = refActivate(m.Act, g) * up[i]
	}
	refMatVec(dst, m.Down.(*refMatrix), gate)
	if m.DownBias != nil {
		refAdd(dst, m.DownBias.(*refMatrix).data)
	}
}

func refActivate(a compute.Activation, x float32) float32 {
	v := float64(x)
	if a == compute.GELUTanh {
		return float32(0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))))
	}
	return float32(v / (1 + math.Exp(-v)))
}

// Mixture computes the weighted sum of each row's best experts.
func (r *Ref) Mixture(dst, src compute.Buffer, e *compute.Experts) {
	router := e.Router.(*refMatrix)
	scores, out := make([]float32, router.rows), make([]float32, dst.(*refMatrix).cols)
	for i := range r.pos {
		x, sum := src.(*refMatrix).row(i), dst.(*refMatrix).row(i)
		refMatVec(scores, router, x)
		refSoftmax(scores)
		refKeepTop(scores, e.TopK, e.NormTopK)
		clear(sum)
		for n, w := range scores {
			if w == 0 {
				continue
			}
			refMLP(out, x, &e.MLPs[n])
			for c, v := range out {
				sum[c] += w * v
			}
		}
	}
}

// refKeepTop zeroes all but the k greatest probabilities, of equals the first
// ones, and divides the rest by their sum if norm is set.
func refKeepTop(probs []float32, k int, norm bool) {
	keep := make([]float32, len(probs))
	var sum float32
	for range k {
		best := 0
		for i, p := range probs {
			if p > probs[best] {
				best = i
			}
		}
		keep[best], probs[best] = probs[best], -1
		sum += keep[best]
	}
	for i, p := range keep {
		if norm {
			p /= sum
		}
		probs[i] = p
	}
}

// Add adds src to dst.
func (r *Ref) Add(dst, src compute.Buffer) {
	for i := range r.pos {
		refAdd(dst.(*refMatrix).row(i), src.(*refMatrix).row(i))
	}
}

// ReadRows copies the step's rows.
func (r *Ref) ReadRows(dst []float32, src compute.Buffer) {
	for i := range r.pos {
		m := src.(*refMatrix)
		copy(dst[i*m.cols:], m.row(i))
	}
}

// Logits computes table·x for each output row.
func (r *Ref) Logits(dst []float32, src compute.Buffer, table compute.Weight) {
	w := table.(*refMatrix)
	for i, row := range r.step.Outputs {
		refMatVec(dst[i*w.rows:][:w.rows], w, src.(*refMatrix).row(int(row)))
	}
}
