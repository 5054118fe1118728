package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"parley"
	"parley/compute"
	"parley/model/weights"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// allTypes are the types of weights that a backend takes.
var allTypes = []weights.DType{
	weights.F32, weights.F16, weights.BF16, weights.Q8_0, weights.Q4_0, weights.Q4_1,
	weights.Q5_0, weights.Q5_1, weights.Q4_K, weights.Q5_K, weights.Q6_K,
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func randomFloats(r *rand.Rand, n int) []float32 {
	f := make([]float32, n)
	for i := range f {
		f[i] = float32(r.NormFloat64())
	}
	return f
}

// randomTensor returns a tensor whose elements are of the order of 1/sqrt(cols).
func randomTensor(r *rand.Rand, t weights.DType, rows, cols int) weights.Tensor {
	data := make([]byte, rows*t.RowBytes(cols))
	scale := 1 / math.Sqrt(float64(cols))
	if t.BlockLen() == 1 {
		for i := range rows * cols {
			putFloat(data, t, i, float32(r.NormFloat64()*scale))
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

func putFloat(data []byte, t weights.DType, i int, v float32) {
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

func vectorTensor(r *rand.Rand, n int) weights.Tensor {
	t := randomTensor(r, weights.F32, 1, n)
	t.Shape = []int{n}
	return t
}

// A bench builds and fills what a scenario needs on one backend.
type bench struct {
	testing.TB
	compute.Backend
}

func (b bench) upload(t weights.Tensor) compute.Weight {
	b.Helper()
	w, err := b.Upload(t)
	if err != nil {
		b.Fatal(err)
	}
	return w
}

func (b bench) buffer(rows, cols int, values []float32) compute.Buffer {
	b.Helper()
	buf, err := b.NewBuffer(rows, cols)
	if err != nil {
		b.Fatal(err)
	}
	copy(contents(buf), values)
	return buf
}

func (b bench) newKV(s compute.KVShape) {
	b.Helper()
	if err := b.NewKV(s); err != nil {
		b.Fatal(err)
	}
}

// contents returns what a buffer holds.
func contents(b compute.Buffer) []float32 {
	if fast, ok := b.(*buffer); ok {
		return fast.data
	}
	return b.(*refMatrix).data
}

// A scenario computes something on a backend. It must do the same each time it is called.
type scenario func(b bench) []float32

func (s scenario) on(t testing.TB, o Options) []float32 {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	return s(bench{t, c})
}

func (s scenario) onRef(t testing.TB) []float32 { return s(bench{t, NewRef()}) }

// supportedPaths are the names of the paths that this machine can run.
func supportedPaths() []string {
	var names []string
	for _, p := range paths() {
		if p.supported {
			names = append(names, p.kernels.name)
		}
	}
	return names
}

// compare fails if the scenario differs from the reference on any path by
// more than budget times the root mean square of the reference's values.
func (s scenario) compare(t *testing.T, budget float64) {
	t.Helper()
	want := s.onRef(t)
	for _, path := range supportedPaths() {
		for _, threads := range []int{1, 3} {
			got := s.on(t, Options{Threads: threads, Path: path})
			if err := differ(got, want, budget); err != nil {
				t.Errorf("%s, %d threads: %v", path, threads, err)
			}
		}
	}
}

// differ reports the worst difference of got to want above the budget.
func differ(got, want []float32, budget float64) error {
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
		return fmt.Errorf("value %d is %v, wanted %v: off by %.3g of the root mean square %.3g, allowed %.3g", at, got[at], want[at], worst/rms, rms, budget)
	}
	return nil
}

// sameBits reports the first place where two results differ in any bit.
func sameBits(got, want []float32) error {
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

// plainStep is a step of one sequence of new tokens without context.
func plainStep(rows int) *compute.Step {
	s := &compute.Step{Tokens: make([]parley.Token, rows)}
	s.Seqs = []compute.Seq{{Rows: rows, Blocks: blockTable(rows, 0)}}
	for i := range rows {
		s.Outputs = append(s.Outputs, int32(i))
	}
	return s
}

// blockTable lists the blocks for the given number of tokens, from first on.
func blockTable(tokens, first int) []int32 {
	var table []int32
	for i := range (tokens + compute.BlockTokens - 1) / compute.BlockTokens {
		table = append(table, int32(first+i))
	}
	return table
}
