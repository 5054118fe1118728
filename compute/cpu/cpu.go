package cpu

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

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

var _ compute.Backend = (*CPU)(nil)

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

// pickPath returns the kernels of the named path, or the best ones for "".
func pickPath(all []path, name string) (*kernelSet, error) {
	var names []string
	for _, p := range all {
		if p.supported && (name == "" || name == p.kernels.name) {
			return p.kernels, nil
		}
		if name == p.kernels.name {
			return nil, fmt.Errorf(
				"cpu: this processor has not all instructions of path %q: use another or leave it open", name)
		}
		names = append(names, p.kernels.name)
	}
	return nil, fmt.Errorf("cpu: no path %q: use one of %s, or leave it open", name, strings.Join(names, ", "))
}
