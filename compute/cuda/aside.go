package cuda

import (
	"slices"
	"time"

	"parley/compute"
	"parley/compute/libcuda"
)

// goAside prepares a copy of a block aside: it waits for the steps that were launched before.
func (c *CUDA) goAside(block int32) {
	a := &c.pool.aside
	if a.behind {
		c.must(c.driver.Fork())
		a.behind = false
	}
	a.moving[block] = struct{}{}
}

// join makes what follows wait for the copies aside, if they concern one of the blocks.
func (c *CUDA) join(blocks []int32) {
	a := &c.pool.aside
	a.behind = true
	if len(a.moving) == 0 {
		return
	}
	for _, b := range blocks {
		if _, moves := a.moving[b]; moves {
			c.must(c.driver.Join())
			clear(a.moving)
			return
		}
	}
}

// joinStep makes a step wait for the copies of blocks that it uses.
func (c *CUDA) joinStep(step *compute.Step) {
	c.pool.aside.behind = true
	for i := range step.Seqs {
		if len(c.pool.aside.moving) == 0 {
			return
		}
		q := &step.Seqs[i]
		c.join(q.Blocks[:(q.Past+q.Rows+compute.BlockTokens-1)/compute.BlockTokens])
	}
}

// WaitCopies returns when all copies of blocks are done.
func (c *CUDA) WaitCopies() {
	c.must(c.driver.AwaitAside())
	clear(c.pool.aside.moving)
}

// StartBatch begins a batch of copies of pinned blocks, whose time is taken. If many are under
// way it waits for them.
func (c *CUDA) StartBatch() {
	a := &c.pool.aside
	if len(a.batches) == libcuda.SideBatches {
		c.WaitCopies()
		c.collectBatches()
	}
	number := 0
	for slices.Contains(a.batches, number) {
		number++
	}
	if a.behind { // the time is that of the copies alone
		c.must(c.flush())
		c.must(c.driver.Fork())
		a.behind = false
	}
	c.must(c.driver.BeginBatch(number))
	a.batches = append(a.batches, number)
}

// EndBatch ends the batch that was begun last.
func (c *CUDA) EndBatch() {
	c.must(c.driver.EndBatch(c.pool.aside.batches[len(c.pool.aside.batches)-1]))
}

// Batches returns how long the batches took that are done since it was called last, the oldest
// first. They are valid until the next call.
func (c *CUDA) Batches() []time.Duration {
	c.collectBatches()
	a := &c.pool.aside
	a.told, a.took = a.took, a.told[:0]
	return a.told
}

// collectBatches takes the times of batches that are done.
func (c *CUDA) collectBatches() {
	a := &c.pool.aside
	for len(a.batches) > 0 {
		took, done, err := c.driver.BatchTook(a.batches[0])
		c.must(err)
		if !done {
			return
		}
		a.took, a.batches = append(a.took, took), append(a.batches[:0], a.batches[1:]...)
	}
}
