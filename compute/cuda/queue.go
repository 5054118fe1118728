package cuda

import "parley/compute"

// buckets are the sizes of batch for which graphs are recorded.
var buckets = []int{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 224, 256, 384, 512}

// bucketOf returns the size of graph for the step, or 0 if it has none: only
// steps in which every sequence has one row are recorded.
func (s *stepData) bucketOf() int {
	if !s.single || s.many > 0 {
		return 0
	}
	for _, b := range buckets {
		if s.rows <= b {
			return b
		}
	}
	return 0
}

// flush runs what is queued, as a graph if the same was recorded before. It
// does not wait.
func (c *CUDA) flush() error {
	if c.failed != nil {
		c.queue = c.queue[:0]
		return c.failed
	}
	if len(c.queue) == 0 {
		return nil
	}
	queue := c.queue
	c.queue = c.queue[:0]
	c.pool.aside.behind = true
	heads, windows := headsOf(queue)
	blocks := fewBlocks * c.device.Multiprocessor / heads.KV
	c.step.divide(heads.Query/heads.KV, manyRows(c.pool.shape.HeadDim), blocks, windows)
	c.sendStep()
	bucket := c.step.bucketOf()
	whole := queue[0].op == opAngles && queue[len(queue)-1].op == opLogits && c.step.outputs == c.step.rows
	if bucket == 0 || bucket > min(c.limits.Rows, c.limits.Outputs) || !whole {
		c.run(queue, c.step.rows, c.step.outputs)
		return c.failed
	}
	return c.runGraph(queue, bucket)
}

// headsOf returns the heads of attention, and whether a layer has a window.
func headsOf(queue []command) (heads compute.Heads, windows bool) {
	heads = compute.Heads{Query: 1, KV: 1}
	for i := range queue {
		if q := &queue[i]; q.op == opAttend {
			heads, windows = q.heads, windows || q.window > 0
		}
	}
	return heads, windows
}

// runGraph replays the graph of a bucket. If there is none, or one of other
// commands, it is recorded first.
func (c *CUDA) runGraph(queue []command, bucket int) error {
	r := c.graphs[bucket]
	if r == nil || !equal(r.queue, queue) {
		c.run(queue, bucket, bucket) // memory is taken and kernels are loaded before the recording
		if r != nil {
			c.fail(c.driver.Forget(r.graph))
		}
		delete(c.graphs, bucket)
		return c.record(queue, bucket)
	}
	return c.driver.Replay(r.graph)
}

// record makes a graph of the commands without running them.
func (c *CUDA) record(queue []command, bucket int) error {
	if c.failed != nil {
		return c.failed
	}
	if err := c.driver.BeginCapture(); err != nil {
		return err
	}
	c.packed = packedRows{}
	c.run(queue, bucket, bucket)
	g, err := c.driver.EndCapture()
	if err != nil || c.failed != nil {
		return first(c.failed, err)
	}
	c.graphs[bucket] = &recording{append([]command(nil), queue...), g}
	return nil
}

func equal(a, b []command) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// run launches the kernels of commands, for as many rows and outputs as there may be.
func (c *CUDA) run(queue []command, rows, outputs int) {
	for i := 0; i < len(queue) && c.failed == nil; i++ {
		q, rest := &queue[i], queue[i+1:]
		switch q.op {
		case opAngles:
			c.runAngles(rows)
		case opEmbed:
			c.runEmbed(q, rows)
		case opAdd:
			if next := at(rest, 0); next.op == opNorm && next.src == q.dst {
				c.runNorm(next, q.src, rest[1:], rows)
				i++
				continue
			}
			c.runAdd(q, rows)
		case opNorm:
			c.runNorm(q, nil, rest, rows)
		case opLinear:
			c.runLinear(q, rows)
		case opRopeStore:
			c.runRopeStore(q, rows)
		case opAttend:
			c.runAttend(q, rest, rows)
		case opMLP:
			c.runMLP(q, rows)
		case opMixture:
			c.runMixture(q, rows)
		case opLogits:
			c.runLogits(q, outputs)
		}
	}
}

// at returns a command, an empty one where there is none.
func at(queue []command, i int) *command {
	if i < len(queue) {
		return &queue[i]
	}
	return &command{}
}

// overwritten reports whether commands write a buffer before they read it, so that
// nothing else sees what it holds.
func overwritten(b *buffer, queue []command) bool {
	for i := range queue {
		q := &queue[i]
		if q.src == b || q.op == opRopeStore && (q.dst == b || q.key == b || q.value == b) ||
			q.op == opAdd && q.dst == b {
			return false
		}
		if q.dst == b {
			return true
		}
		for _, p := range q.projections[:q.count] {
			if p.out == b {
				return true
			}
		}
	}
	return false
}

// pinLeast is from which size on callers' memory is pinned, and pinnedMost how many pieces are.
const pinLeast, pinnedMost = 1 << 20, 4
