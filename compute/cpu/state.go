package cpu

import (
	"parley/compute"
	"parley/model/weights"
)

// A CPU is the fast backend on the processor. It implements [compute.Backend].
//
// Matrices of type Q8_0, Q4_0, Q4_K, Q6_K, F32, F16 and BF16 are packed when they
// are uploaded, with as many bits per weight as in the file, into panels of 32
// outputs that kernels read from end to end; other types stay as they are in
// the file and are unpacked as they are used. Activations are float32, and
// quantized to int8 in blocks of 32 columns where they meet quantized weights.
//
// For each row and output the additions happen in one order, which depends on the
// columns alone, and attention proceeds block by block of 16 positions. So
// the promise of package compute holds: the same bits for a row, whatever
// runs beside it.
type CPU struct {
	kernels  *kernelSet
	numerics Numerics
	pool     *pool
	shared   bool // the pool is another backend's
	workers  []*worker
	memory   arena // taken for weights and the pool

	stepState
	kv   kvPool
	jobs jobs
	scratch
}

// stepState is the step that is computed.
type stepState struct {
	step   *compute.Step
	rows   []rowPosition // of the step
	ropes  []compute.Rope
	angles []angles // for each of the ropes
}

// A rowPosition is where a row of the step stands.
type rowPosition struct {
	seq *compute.Seq
	pos int
}

// A worker is the scratch memory of one thread.
type worker struct {
	tile     [2 * brainTile * panelOutputs]float32 // results for a panel that is not full
	sums     [lanes]float32
	row      []float32 // part of a dequantized row
	unpacked []float32 // part of a dequantized panel
	open     []byte    // unpacked panels for the matrix unit
	products []byte    // of a tile, beginning at a cache line
	attend   attendScratch
	beside   redoScratch
}

// A buffer holds activations.
type buffer struct {
	rows, cols int
	data       []float32
}

// Dims returns the number of rows and columns.
func (b *buffer) Dims() (rows, cols int) { return b.rows, b.cols }

func (b *buffer) row(i int) []float32 { return b.data[i*b.cols:][:b.cols:b.cols] }

// takeFloats takes memory for activations.
func (c *CPU) takeFloats(n int) ([]float32, error) {
	if 4*n < largeBytes {
		return make([]float32, n), nil
	}
	b, err := c.memory.take(4 * int64(n))
	return view[float32](b), err
}

// reserveBytes makes s at least n long.
func (c *CPU) reserveBytes(s *[]byte, n int) (err error) {
	switch {
	case cap(*s) >= n:
	case n < largeBytes:
		*s = make([]byte, n)
	default:
		*s, err = c.memory.take(int64(n))
	}
	return err
}

// reserveFloats makes s at least n long.
func (c *CPU) reserveFloats(s *[]float32, n int) error {
	if cap(*s) >= n {
		return nil
	}
	f, err := c.takeFloats(n)
	if err == nil {
		*s = f
	}
	return err
}

// maxElements bounds what is taken at once, so that sizes in bytes do not overflow.
const maxElements = 1 << 46

// inlineWork is how many elements one thread handles in less time than it takes to wake another.
const inlineWork = 16 << 10

// overRows runs a task over rows of the given width: alone if that is little.
func (c *CPU) overRows(t task, rows, width int) {
	if rows*width <= inlineWork {
		t.run(0, 0, rows)
		return
	}
	c.pool.do(t, rows, max(1, inlineWork/4/width, rows/(itemsPerThread*len(c.workers))))
}

// scratch is memory that operations use inside. It grows to what a step needs, and
// Reserve lets it grow beforehand.
type scratch struct {
	quantized []byte    // activations, one row after the other
	columns   []float32 // activations of tiles of rows, column after column
	brain     []byte    // activations as parts of bfloat16
	few       []float32 // those of few rows, each part in a float32
	hidden    []float32 // gate of an MLP
	up        []float32 // the other half of it; then results of experts
	gathered  []float32 // rows that an expert or the logits need side by side
	routes    routes
}

// grow makes s at least n long, keeping nothing.
func grow[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	*s = (*s)[:n]
	return *s
}

// A weight is a matrix. Its stored form serves to read single rows, its
// packed form, if it has one, to be multiplied.
type weight struct {
	stored     weights.Tensor // as computed with; without Data if narrow has it
	narrow     weights.Tensor // F8E4M3, which is computed with as BF16
	rows, cols int
	packed     []byte
	panelBytes int
	packing    *packing // of quantized weights
	brain      *brainForm
	vector     []float32 // the only row of a vector
}

// Dims returns the number of rows and columns.
func (w *weight) Dims() (rows, cols int) { return w.rows, w.cols }

func (w *weight) panels() int { return (w.rows + panelOutputs - 1) / panelOutputs }

func (w *weight) panel(i int) []byte { return w.packed[i*w.panelBytes:][:w.panelBytes] }

// quantizes reports whether the matrix is multiplied with quantized activations.
func (w *weight) quantizes() bool { return w.packing != nil }

// forms are the forms of its input that a matrix takes beside rows of floats.
type forms uint8

const (
	asInts    forms = 1 << iota // quantized
	asColumns                   // tiles of rows, column after column
	asBrain                     // parts of bfloat16
	asFew                       // the same, each in a float32
)

// A kvPool is the key/value pool: [block][layer][keys, values][head]. Keys of
// a head are [dim][16 tokens], so that the scores of sixteen tokens are sums
// over lanes; its values are [16 tokens][dim]. In types that have scales, those
// of the sixteen tokens follow.
type kvPool struct {
	shape compute.KVShape
	data  []byte
}

// A route is one of the experts that a row uses.
type route struct {
	expert int
	weight float32
	slot   int // row of the expert's input and output among those of all experts
}

// routes say which rows go to which experts. Slots are numbered expert by
// expert, and by row within an expert.
type routes struct {
	scores []float32 // [row][expert]
	chosen []route   // [row][topK], ascending experts
	source []int32   // row of each slot
	starts []int     // first slot of each expert, and the number of slots
	next   []int
}

// angles are the cosines and sines of one rope for each row of the step.
type angles struct {
	half     int
	cos, sin []float32 // [row][half]
}
