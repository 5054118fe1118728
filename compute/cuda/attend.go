package cuda

import "parley/model/weights"

// log2e turns scores into powers of two.
const log2e = 1.4426950408889634

type (
	attendArgs struct {
		dst, q, partials, states, step address
		pool                           poolArgs
		layer, queries, window         int32
		scale                          float32
	}
	combineArgs struct {
		dst, partials, states, packed, step address
		queries, dim, rowTiles              int32
	}
)

// runAttend launches attention over the items of the step, and the union of
// what was found in partitions. In a graph the number of items changes from step
// to step, so blocks of threads go round over them.
func (c *CUDA) runAttend(q, next *command, rows int) {
	dim := q.heads.Dim
	args := attendArgs{
		dst:     q.dst.at,
		q:       q.src.at,
		step:    c.step.device,
		pool:    c.pool.args(),
		layer:   int32(q.layer),
		queries: int32(q.heads.Query),
		window:  int32(q.window),
		scale:   q.x * log2e,
	}
	args.partials = c.grow(&c.partials, 4*maxPartials*int64(q.heads.Query)*int64(dim), "partial results of attention")
	args.states = c.grow(&c.states, 8*maxPartials*int64(q.heads.Query), "partial results of attention")
	recorded := c.step.bucketOf() != 0
	if c.step.few > 0 {
		blocks := c.step.few
		if recorded {
			blocks = max(rows, fewBlocks*c.device.Multiprocessor/q.heads.KV)
		}
		start(c, &c.attend[0], blocks, q.heads.KV, &args)
	}
	if c.step.many > 0 {
		start(c, &c.attend[1], c.step.many, q.heads.KV, &args)
	}
	c.runCombine(&args, q, next, rows, recorded)
}

// runCombine unites what was found in partitions. If all rows pass through it
// and go into products with BF16 matrices next, they are packed for them at once.
func (c *CUDA) runCombine(a *attendArgs, q, next *command, rows int, recorded bool) {
	blocks := c.step.combines
	if recorded {
		blocks = rows
	}
	union := combineArgs{
		dst:      a.dst,
		partials: a.partials,
		states:   a.states,
		step:     a.step,
		queries:  a.queries,
		dim:      int32(q.heads.Dim),
		rowTiles: rowTiles(rows),
	}
	cols := q.heads.Query * q.heads.Dim
	c.packed = packedRows{}
	if c.step.many == 0 && q.heads.Dim%8 == 0 && next.wantsBrain(q.dst) {
		union.packed = c.grow(&c.x16, packedBytes(rows, cols), "packed activations")
		c.packed = packedRows{of: q.dst.at, kind: weights.BF16}
	}
	pieces := max(q.heads.Query*((q.heads.Dim+7)/8), roundUp(cols, 64)/8)
	start(c, &c.combine, blocks, (pieces+127)/128, &union)
}

// fewBlocks is how many blocks of threads of the kernel for few query rows a
// multiprocessor is given in a graph.
const fewBlocks = 6
