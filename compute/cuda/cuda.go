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

	"parley/compute"
	"parley/compute/libcuda"
	"parley/model/weights"
)

var _ compute.Chooser = (*CUDA)(nil)

// Open takes device index of this machine. The backend must be closed.
func Open(index int) (*CUDA, error) {
	d, err := openDriver(index)
	if err != nil {
		return nil, err
	}
	c, err := open(d)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return c, nil
}

// open makes a backend of a driver's device.
func open(d driver) (*CUDA, error) {
	c := &CUDA{
		driver:  d,
		device:  d.Describe(),
		kernels: kernels{matrices: map[weights.DType][]matrixKernel{}, arrange: map[weights.DType]kernel{}},
		pending: pending{graphs: map[int]*recording{}},
	}
	return c, c.loadBasics()
}

// Device describes the GPU.
func (c *CUDA) Device() libcuda.Device { return c.device }

// FreeBytes returns the memory of device index that is not in use.
func FreeBytes(index int) (int64, error) {
	d, err := openDriver(index)
	if err != nil {
		return 0, err
	}
	free, err := d.Free()
	return free, errors.Join(err, d.Close())
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

// Close gives all memory back.
func (c *CUDA) Close() error {
	errs := []error{c.driver.Synchronize(), c.driver.AwaitAside(), c.forgetGraphs()}
	for _, m := range c.memory {
		errs = append(errs, c.driver.Release(m))
	}
	for _, m := range append(c.pinned, c.arenas...) {
		errs = append(errs, c.driver.Unpin(m))
	}
	c.memory, c.pinned, c.arenas = nil, nil, nil
	errs = append(errs, c.staging.close(c.driver), c.pool.bounce.close(c.driver), c.step.close(c.driver),
		c.choice.close(c.driver), c.driver.Close())
	if c.failed != nil {
		return nil // it was said when it happened
	}
	return errors.Join(errs...)
}

// Dims returns the number of rows and columns.
func (b *buffer) Dims() (rows, cols int) { return b.rows, b.cols }

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
