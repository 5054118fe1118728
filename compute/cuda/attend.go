package cuda

import (
	"parley/compute/libcuda"
	"parley/model/weights"
)

// log2e turns scores into powers of two.
const log2e = 1.4426950408889634

type (
	attendArgs struct {
		dst, q, partials, states, step libcuda.Address
		pool                           poolArgs
		layer, queries, window         int32
		scale                          float32
		packed                         libcuda.Address
		rowTiles                       int32
	}
	combineArgs struct {
		dst, partials, states, packed libcuda.Address
		codes                         codesArgs
		step                          libcuda.Address
		queries, dim, rowTiles        int32
	}
)

// runAttend launches attention over the items of the step, and the union of
// what was found in partitions. If the rows go into products with BF16 matrices
// next, they are packed for them at once, and not kept otherwise if nothing else
// reads them. In a graph the number of items changes from step to step, so blocks
// of threads go round over them.
func (c *CUDA) runAttend(q *command, rest []command, rows int) {
	dim, cols := q.heads.Dim, q.heads.Query*q.heads.Dim
	args := attendArgs{
		dst:      q.dst.at,
		q:        q.src.at,
		step:     c.step.device,
		pool:     c.pool.args(),
		layer:    int32(q.layer),
		queries:  int32(q.heads.Query),
		window:   int32(q.window),
		scale:    q.x * log2e,
		rowTiles: rowTiles(rows),
	}
	args.partials = c.grow(&c.partials, 4*maxPartials*int64(cols), "partial results of attention")
	args.states = c.grow(&c.states, 8*maxPartials*int64(q.heads.Query), "partial results of attention")
	c.packed = packedRows{}
	var codes codesArgs
	recorded := c.step.bucketOf() != 0
	switch kind, ok := at(rest, 0).wants(q.dst); {
	case !ok || dim%8 != 0 || cols%64 != 0:
	case kind == weights.BF16 && (c.step.many == 0 || headWidth(dim) <= widthInRegisters):
		args.packed = c.grow(&c.x16, packedBytes(rows, cols), "packed activations")
		c.packed = packedRows{of: q.dst.at, kind: kind}
	case recorded && (kind == weights.Q8_0 && dim%32 == 0 || kind == weights.F8E4M3 && cols%128 == 0):
		codes = c.codes(kind, rows, cols) // all rows pass through the union
		c.packed = packedRows{of: q.dst.at, kind: kind}
	}
	if args.packed != 0 && overwritten(q.dst, rest[1:]) {
		args.dst = 0
	}
	few, unions := c.step.few, c.step.combines
	if recorded {
		few, unions = max(rows, fewBlocks*c.device.Multiprocessor/q.heads.KV), rows
	}
	kernel := &c.attend[0]
	if c.step.fewRows > queryRows/2 {
		kernel = &c.attend[1]
	}
	start(c, kernel, few, q.heads.KV, &args)
	start(c, &c.attend[2], c.step.many, q.heads.KV, &args)
	union := combineArgs{
		dst:      args.dst,
		partials: args.partials,
		states:   args.states,
		packed:   args.packed,
		codes:    codes,
		step:     args.step,
		queries:  args.queries,
		dim:      int32(dim),
		rowTiles: args.rowTiles,
	}
	start(c, &c.combine, unions, (q.heads.Query*((dim+7)/8)+127)/128, &union)
}

// widthInRegisters is up to which width the kernel for many query rows keeps its
// results in registers until they are complete.
const widthInRegisters = 128
