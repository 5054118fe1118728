// Package computetest holds what every backend must compute, as scenarios that
// run on any [compute.Backend] and are compared with the reference of
// compute/cpu: random tensors of all types, ragged steps, and budgets of error
// are the caller's to choose.
package computetest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"parley"
	"parley/compute"
	"parley/model/weights"
)

// AllTypes are the types of weights that a backend takes.
var AllTypes = []weights.DType{
	weights.F32, weights.F16, weights.BF16, weights.Q8_0, weights.Q4_0, weights.Q4_1,
	weights.Q5_0, weights.Q5_1, weights.Q4_K, weights.Q5_K, weights.Q6_K,
}

// NewRand returns a generator with a seed.
func NewRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// Floats returns numbers of a normal distribution.
func Floats(r *rand.Rand, n int) []float32 {
	f := make([]float32, n)
	for i := range f {
		f[i] = float32(r.NormFloat64())
	}
	return f
}

// Tensor returns a tensor whose elements are of the order of 1/sqrt(cols).
func Tensor(r *rand.Rand, t weights.DType, rows, cols int) weights.Tensor {
	if t == weights.F8E4M3 {
		rounded, err := Tensor(r, weights.F32, rows, cols).ToF8()
		if err != nil {
			panic(err)
		}
		return rounded
	}
	data := make([]byte, rows*t.RowBytes(cols))
	scale := 1 / math.Sqrt(float64(cols))
	if t.BlockLen() == 1 {
		for i := range rows * cols {
			PutFloat(data, t, i, float32(r.NormFloat64()*scale))
		}
	} else {
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		for at := 0; at < len(data); at += t.BlockBytes() {
			for _, f := range scaleFields[t] {
				v := float32(f.size * scale * (0.5 + r.Float64()))
				binary.LittleEndian.PutUint16(data[at+f.offset:], weights.ToF16(v))
			}
		}
	}
	return weights.Tensor{Name: fmt.Sprintf("random %s", t), Type: t, Shape: []int{rows, cols}, Data: data}
}

// PutFloat writes element i of data of a type that has no blocks.
func PutFloat(data []byte, t weights.DType, i int, v float32) {
	switch t {
	case weights.F32:
		binary.LittleEndian.PutUint32(data[i*4:], math.Float32bits(v))
	case weights.F16:
		binary.LittleEndian.PutUint16(data[i*2:], weights.ToF16(v))
	case weights.BF16:
		binary.LittleEndian.PutUint16(data[i*2:], weights.ToBF16(v))
	}
}

// A scaleField is a half-precision number in a block, and its usual size.
type scaleField struct {
	offset int
	size   float64
}

var scaleFields = map[weights.DType][]scaleField{
	weights.Q8_0: {{0, 1. / 64}},
	weights.Q4_0: {{0, 1. / 4}},
	weights.Q4_1: {{0, 1. / 4}, {2, -2}},
	weights.Q5_0: {{0, 1. / 8}},
	weights.Q5_1: {{0, 1. / 8}, {2, -2}},
	weights.Q4_K: {{0, 1. / 128}, {2, 1. / 16}},
	weights.Q5_K: {{0, 1. / 256}, {2, 1. / 16}},
	weights.Q6_K: {{208, 1. / 1024}},
}

// Vector returns a float32 vector.
func Vector(r *rand.Rand, n int) weights.Tensor {
	t := Tensor(r, weights.F32, 1, n)
	t.Shape = []int{n}
	return t
}

// A Bench builds and fills what a scenario needs on one backend.
type Bench struct {
	testing.TB
	compute.Backend
}

// Weight uploads a tensor.
func (b Bench) Weight(t weights.Tensor) compute.Weight {
	b.Helper()
	w, err := b.Upload(t)
	if err != nil {
		b.Fatal(err)
	}
	return w
}

// Buffer makes a buffer. Values that are not nil are written to it by a step of
// their own, so no other may have been begun.
func (b Bench) Buffer(rows, cols int, values []float32) compute.Buffer {
	b.Helper()
	buf, err := b.NewBuffer(rows, cols)
	if err != nil {
		b.Fatal(err)
	}
	if values == nil {
		return buf
	}
	table := weights.Tensor{Name: "values", Type: weights.F32, Shape: []int{rows, cols},
		Data: make([]byte, 4*rows*cols)}
	for i, v := range values {
		PutFloat(table.Data, weights.F32, i, v)
	}
	step := PlainStep(rows)
	for i := range rows {
		step.Tokens[i] = parley.Token(i)
	}
	b.Begin(step, nil)
	b.Embed(buf, b.Weight(table), 1)
	return buf
}

// Pool makes the key/value pool.
func (b Bench) Pool(s compute.KVShape) {
	b.Helper()
	if err := b.NewKV(s); err != nil {
		b.Fatal(err)
	}
}

// Contents returns the step's rows of buffers, one buffer after the other.
func (b Bench) Contents(rows int, buffers ...compute.Buffer) (all []float32) {
	for _, buf := range buffers {
		_, cols := buf.Dims()
		part := make([]float32, rows*cols)
		b.ReadRows(part, buf)
		all = append(all, part...)
	}
	return all
}

// A Scenario computes something on a backend. It does the same each time it is called.
type Scenario func(b Bench) []float32

// Differ reports the worst difference of got to want above the budget, which is
// a share of the root mean square of want.
func Differ(got, want []float32, budget float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d values, wanted %d", len(got), len(want))
	}
	var squares float64
	for _, v := range want {
		squares += float64(v) * float64(v)
	}
	rms := math.Sqrt(squares / float64(len(want)))
	worst, at := -1.0, 0
	for i := range want {
		d := math.Abs(float64(got[i]) - float64(want[i]))
		if math.IsNaN(d) {
			return fmt.Errorf("value %d is %v, wanted %v", i, got[i], want[i])
		}
		if d > worst {
			worst, at = d, i
		}
	}
	if worst > budget*rms {
		return fmt.Errorf("value %d is %v, wanted %v: off by %.3g of the root mean square %.3g, allowed %.3g",
			at, got[at], want[at], worst/rms, rms, budget)
	}
	return nil
}

// SameBits reports the first place where two results differ in any bit.
func SameBits(got, want []float32) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d values, wanted %d", len(got), len(want))
	}
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			return fmt.Errorf("value %d is %v, wanted exactly %v", i, got[i], want[i])
		}
	}
	return nil
}

// PlainStep is a step of one sequence of new tokens without context, with the
// logits of every row.
func PlainStep(rows int) *compute.Step {
	s := &compute.Step{Tokens: make([]parley.Token, rows)}
	s.Seqs = []compute.Seq{{Rows: rows, Blocks: BlockTable(rows, 0)}}
	for i := range rows {
		s.Outputs = append(s.Outputs, int32(i))
	}
	return s
}

// BlockTable lists the blocks for the given number of tokens, from first on.
func BlockTable(tokens, first int) []int32 {
	var table []int32
	for i := range (tokens + compute.BlockTokens - 1) / compute.BlockTokens {
		table = append(table, int32(first+i))
	}
	return table
}
