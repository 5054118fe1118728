package cpu

import (
	"errors"
	"fmt"
	"runtime"

	"parley/compute"
)

// Options say how a [CPU] computes.
type Options struct {
	// Threads is how many threads compute; 0 means as many as Go may use.
	Threads int
	// Path names the instruction set: "amx", "avx512", "avx2", "neon" or "plain"; "" means
	// the best that this processor has.
	Path string
	// Numerics say how exactly is computed.
	Numerics Numerics
	// Share, if not nil, is a backend whose threads this one uses instead of
	// threads of its own; Threads is not looked at then. The two must not
	// compute at the same time, and this one must be closed first.
	Share *CPU
}

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

	step   *compute.Step
	rows   []rowPosition // of the step
	ropes  []compute.Rope
	angles []angles // for each of the ropes
	kv     kvPool
	jobs   jobs
	scratch
}

var _ compute.Backend = (*CPU)(nil)

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

// jobs are the tasks of the pool, kept so that no step allocates one.
type jobs struct {
	pack     packJob
	angle    angleJob
	embed    embedJob
	norm     normJob
	add      addJob
	quantize quantizeJob
	split    splitJob
	columns  columnsJob
	multiply multiplyJob
	rope     ropeJob
	attend   attendJob
	merge    mergeJob
	gather   gatherJob
	combine  combineJob
}

// maxThreads bounds how many threads a backend may ask for.
const maxThreads = 1024

// New returns a backend. It must be closed.
func New(o Options) (*CPU, error) {
	if o.Threads < 0 || o.Threads > maxThreads {
		return nil, fmt.Errorf("cpu: %d threads: use 1 to %d, or 0 for as many as there are cores", o.Threads,
			maxThreads)
	}
	kernels, err := pickPath(paths(), o.Path)
	if err != nil {
		return nil, err
	}
	if o.Share != nil {
		return &CPU{
			kernels:  kernels,
			numerics: o.Numerics,
			pool:     o.Share.pool,
			shared:   true,
			workers:  o.Share.workers,
		}, nil
	}
	if o.Threads == 0 {
		o.Threads = min(runtime.GOMAXPROCS(0), maxThreads)
	}
	c := &CPU{kernels: kernels, numerics: o.Numerics, pool: newPool(o.Threads)}
	for range o.Threads {
		c.workers = append(c.workers, &worker{})
	}
	return c, nil
}

// Name says which instructions, numerics and how many threads the backend uses.
// What comes before the comma decides its arithmetic.
func (c *CPU) Name() string {
	arithmetic, remark := c.kernels.name, ""
	if c.numerics == Fast {
		arithmetic += " with fast numerics"
	}
	if c.numerics == Fast && c.kernels.brain == nil {
		arithmetic, remark = c.kernels.name, " (it has no fast numerics)"
	}
	return fmt.Sprintf("cpu %s, %d threads%s", arithmetic, len(c.workers), remark)
}

// Close ends the threads, unless they are another backend's, and gives all
// memory back. Weights of this backend must not be used any more.
func (c *CPU) Close() error {
	if c.shared {
		c.pool.settle()
	} else {
		c.pool.close()
	}
	c.kv = kvPool{}
	return errors.Join(c.memory.give()...)
}

// A buffer holds activations.
type buffer struct {
	rows, cols int
	data       []float32
}

// Dims returns the number of rows and columns.
func (b *buffer) Dims() (rows, cols int) { return b.rows, b.cols }

func (b *buffer) row(i int) []float32 { return b.data[i*b.cols:][:b.cols:b.cols] }

// NewBuffer takes memory for activations.
func (c *CPU) NewBuffer(rows, cols int) (compute.Buffer, error) {
	if rows < 1 || cols < 1 || rows > maxElements/cols {
		return nil, fmt.Errorf("cpu: a buffer of %d by %d is not possible", rows, cols)
	}
	data, err := c.takeFloats(rows * cols)
	if err != nil {
		return nil, fmt.Errorf("%w for a buffer of %d by %d", err, rows, cols)
	}
	return &buffer{rows: rows, cols: cols, data: data}, nil
}

// largeBytes is from which size on memory is taken from the system, in large pages where it has them.
const largeBytes = 2 << 20

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

// Begin makes step the current one and computes its rotations. The one before
// may have ended anywhere, in a panic.
func (c *CPU) Begin(step *compute.Step, ropes []compute.Rope) {
	c.jobs.multiply.forget()
	c.step, c.ropes, c.rows = step, ropes, c.rows[:0]
	for i := range step.Seqs {
		seq := &step.Seqs[i]
		for j := range seq.Rows {
			c.rows = append(c.rows, rowPosition{seq, seq.Past + j})
		}
	}
	c.computeAngles()
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

// scratchRows returns how many rows of each kind the limits lead to.
func scratchRows(l compute.Limits) (inner, gathered int) {
	inner = l.Rows * max(1, l.Experts)
	gathered = l.Outputs
	if l.Experts > 0 {
		gathered = max(gathered, inner)
	}
	return inner, gathered
}

// ScratchBytes returns how much memory Reserve takes for steps within the
// limits, with the given number of threads.
func ScratchBytes(l compute.Limits, threads int) int64 {
	inner, gathered := scratchRows(l)
	row := int64(l.Width)
	perThread := int64(4*(unpackCols+unpackCols*panelOutputs)) + openReserve
	quantized := int64(inner+tileRows) * int64(quantizedBytes(l.Width))
	split := int64(inner)*int64(brainRowBytes(l.Width, 2)) + 4*int64(min(inner, fewSlots))*int64(
		fewRowFloats(l.Width, 2))
	return quantized + split + int64(inner)*12*row + int64(gathered)*4*row + int64(threads)*perThread
}

// Reserve takes the scratch memory for steps within the limits.
func (c *CPU) Reserve(l compute.Limits) error {
	if min(l.Rows, l.Outputs, l.Width, l.Experts) < 0 || l.Rows > maxElements/max(1, l.Width)/max(1, l.Experts) {
		return fmt.Errorf("cpu: cannot reserve memory for %d rows and %d outputs of %d columns with %d experts each",
			l.Rows, l.Outputs, l.Width, l.Experts)
	}
	c.pool.settle()
	inner, gathered := scratchRows(l)
	err := errors.Join(
		c.reserveFloats(&c.hidden, inner*l.Width),
		c.reserveFloats(&c.up, inner*l.Width),
		c.reserveFloats(&c.columns, inner*l.Width),
		c.reserveFloats(&c.gathered, gathered*l.Width),
		c.reserveFloats(&c.few, min(inner, fewSlots)*fewRowFloats(l.Width, 2)),
		c.reserveBytes(&c.brain, inner*brainRowBytes(l.Width, 2)),
		c.reserveBytes(&c.quantized, (inner+tileRows)*quantizedBytes(l.Width)))
	if err != nil {
		return fmt.Errorf("%w for steps of %d rows: use fewer", err, l.Rows)
	}
	c.rows = make([]rowPosition, 0, l.Rows)
	c.routes.reserve(l)
	for _, w := range c.workers {
		w.growUnpacked()
		grow(&w.open, openReserve)
		w.growProducts()
	}
	return nil
}
