package cuda

import (
	"fmt"

	"parley/compute/libcuda"
)

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
func (c *CUDA) take(bytes int64, what string) (libcuda.Address, error) {
	at, err := c.driver.Allocate(bytes)
	if err != nil {
		return 0, fmt.Errorf("cuda: %s has no %.1f MiB left for %s: %w", c.device.Name, float64(bytes)/(1<<20), what,
			err)
	}
	c.memory = append(c.memory, at)
	return at, nil
}

// give releases memory that was taken.
func (c *CUDA) give(at libcuda.Address) error {
	for i, m := range c.memory {
		if m == at {
			c.memory = append(c.memory[:i], c.memory[i+1:]...)
			return c.driver.Release(at)
		}
	}
	return nil
}

// grow makes a region at least that large. What it held is lost, and so are graphs.
func (c *CUDA) grow(r *region, bytes int64, what string) libcuda.Address {
	if bytes <= r.bytes || c.failed != nil {
		return r.at
	}
	if err := first(c.driver.Synchronize(), c.forgetGraphs(), c.give(r.at)); err != nil {
		c.fail(err)
		return 0
	}
	at, err := c.take(bytes, what)
	if err != nil {
		c.fail(err)
		return 0
	}
	*r = region{at, bytes, what}
	return at
}

// forgetGraphs drops all graphs: what they refer to has moved.
func (c *CUDA) forgetGraphs() error {
	for b, r := range c.graphs {
		if err := c.driver.Forget(r.graph); err != nil {
			return err
		}
		delete(c.graphs, b)
	}
	return nil
}

// enqueue queues a command.
func (c *CUDA) enqueue(q command) { c.queue = append(c.queue, q) }

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// maxElements bounds what is taken at once, so that sizes in bytes do not overflow.
const maxElements = 1 << 40
