// Package cuda computes on an NVIDIA GPU, without cgo and without any library
// but the driver's own, which is opened at run time.
//
// Kernels are CUDA C in kernels/, compiled to PTX (make generate) that is part
// of the binary and compiled for the device by the driver, which keeps the result.
//
// Activations are float32. Where they meet weights they are rounded: to
// bfloat16 for BF16, to half numbers with a power of two for each row for F16,
// to 8 bits in groups of 32 for quantized types; F32 weights meet float32.
// Weights are the M side of the matrix product and each result is one chain of
// additions in the order of the columns, so that a row's bits do not depend on
// the rows beside it. Attention has a softmax for each 256 positions and unites
// those in order, whatever the batch.
//
// Operations are recorded and run when results are wanted. A pass in which
// each sequence has one new token is recorded as a graph when it is met for the
// first time with a size of batch, and is one launch from then on.
package cuda

import (
	"errors"
	"fmt"
	"sync/atomic"

	"parley/compute"
	"parley/model/weights"
)

// A CUDA is the backend on one GPU. It implements [compute.Backend].
//
// An operation that fails on the device makes every later one fail, too: what
// returns results panics with the error, and [CUDA.Err] returns it.
type CUDA struct {
	driver driver
	device Device
	basics
	matrices map[weights.DType][]matrixKernel
	pairs    []matrixKernel // of two BF16 matrices, if the device has them
	arrange  map[weights.DType]kernel
	attend   []kernel // for few query rows, for many
	failed   error
	broken   atomic.Pointer[error] // failed, for other goroutines

	memory  []address // everything taken
	staging staging
	pinned  [][]byte // memory of callers

	limits compute.Limits
	pool   pool
	step   stepData
	scratch
	queue  []command
	graphs map[int]*recording // by size of batch
	packed packedRows
	choice choiceData
}

var _ compute.Chooser = (*CUDA)(nil)

// Open takes device index of this machine. The backend must be closed.
func Open(index int) (*CUDA, error) {
	d, err := openDriver(index)
	if err != nil {
		return nil, err
	}
	c, err := open(d)
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return c, nil
}

// open makes a backend of a driver's device.
func open(d driver) (*CUDA, error) {
	c := &CUDA{
		driver:   d,
		device:   d.describe(),
		matrices: map[weights.DType][]matrixKernel{},
		arrange:  map[weights.DType]kernel{},
		graphs:   map[int]*recording{},
	}
	return c, c.loadBasics()
}

// Device describes the GPU.
func (c *CUDA) Device() Device { return c.device }

// FreeBytes returns the memory of device index that is not in use.
func FreeBytes(index int) (int64, error) {
	d, err := openDriver(index)
	if err != nil {
		return 0, err
	}
	free, err := d.free()
	return free, errors.Join(err, d.close())
}

// Name describes the device. The part before the comma names everything that the bits
// of keys and values depend on, the kernels included.
func (c *CUDA) Name() string {
	d := c.device
	return fmt.Sprintf("cuda %s sm_%d%d kernels %s, %d multiprocessors, CUDA %d.%d", d.Name, d.Major, d.Minor,
		kernelsID(), d.Multiprocessor, d.Driver/1000, d.Driver%1000/10)
}

// Err returns what went wrong on the device, nil while it works. An error
// stays. It may be called by any goroutine.
func (c *CUDA) Err() error {
	if err := c.broken.Load(); err != nil {
		return *err
	}
	return nil
}

func (c *CUDA) fail(err error) {
	if err != nil && c.failed == nil {
		c.failed = fmt.Errorf("cuda: %s: %w", c.device.Name, err)
		c.broken.Store(&c.failed)
	}
}

// must panics with what went wrong: the operations have no other way to say it.
func (c *CUDA) must(err error) {
	c.fail(err)
	if c.failed != nil {
		panic(c.failed)
	}
}

// take allocates device memory. What it holds is not defined.
func (c *CUDA) take(bytes int64, what string) (address, error) {
	at, err := c.driver.allocate(bytes)
	if err != nil {
		return 0, fmt.Errorf("cuda: %s has no %.1f MiB left for %s: %w", c.device.Name, float64(bytes)/(1<<20), what,
			err)
	}
	c.memory = append(c.memory, at)
	return at, nil
}

// give releases memory that was taken.
func (c *CUDA) give(at address) error {
	for i, m := range c.memory {
		if m == at {
			c.memory = append(c.memory[:i], c.memory[i+1:]...)
			return c.driver.release(at)
		}
	}
	return nil
}

// Close gives all memory back.
func (c *CUDA) Close() error {
	errs := []error{c.driver.synchronize(), c.forgetGraphs()}
	for _, m := range c.memory {
		errs = append(errs, c.driver.release(m))
	}
	for _, m := range c.pinned {
		errs = append(errs, c.driver.unpin(m))
	}
	c.memory, c.pinned = nil, nil
	errs = append(errs, c.staging.close(c.driver), c.step.close(c.driver), c.choice.close(c.driver), c.driver.close())
	if c.failed != nil {
		return nil // it was said when it happened
	}
	return errors.Join(errs...)
}

// A buffer holds rows of float32.
type buffer struct {
	rows, cols int
	at         address
}

// Dims returns the number of rows and columns.
func (b *buffer) Dims() (rows, cols int) { return b.rows, b.cols }

// maxElements bounds what is taken at once, so that sizes in bytes do not overflow.
const maxElements = 1 << 40

// NewBuffer takes memory for activations.
func (c *CUDA) NewBuffer(rows, cols int) (compute.Buffer, error) {
	if rows < 1 || cols < 1 || rows > maxElements/cols {
		return nil, fmt.Errorf("cuda: a buffer of %d by %d is not possible", rows, cols)
	}
	at, err := c.take(4*int64(rows)*int64(cols), fmt.Sprintf("a buffer of %d by %d", rows, cols))
	if err != nil {
		return nil, err
	}
	return &buffer{rows: rows, cols: cols, at: at}, nil
}
