package cuda

import (
	"parley/compute/libcuda"
	"parley/model/weights"
)

// What each kernel of basic.cu and rope.cu is given; the fields are in the order there.
type (
	embedArgs struct {
		dst, table, step libcuda.Address
		cols, kind       int32
		scale            float32
		vocab            int32
	}
	widenArgs struct {
		dst, table       libcuda.Address
		rows, cols, kind int32
	}
	normArgs struct {
		dst, src, add, w, packed, step libcuda.Address
		cols                           int32
		eps, offset                    float32
		rowTiles                       int32
		codes                          codesArgs
	}
	addArgs struct {
		dst, src, step libcuda.Address
		cols           int32
	}
	angleArgs struct {
		angles, step      libcuda.Address
		ropes, rows, half int32
	}
	ropeArgs struct {
		q, k, v, qnorm, knorm, angles, step       libcuda.Address
		pool                                      poolArgs
		queries, layer, half, stride, interleaved int32
		eps, offset                               float32
	}
)

// addressOf is where a weight lies, 0 for none.
func (w *weight) addressOf() libcuda.Address {
	if w == nil {
		return 0
	}
	return w.at
}

// field is where a number at the beginning of the step lies.
func (c *CUDA) field(i int) libcuda.Address { return c.step.device + libcuda.Address(4*i) }

func (c *CUDA) runEmbed(q *command, rows int) {
	c.packed = packedRows{}
	args := embedArgs{
		dst:   q.dst.at,
		table: q.w.at,
		step:  c.step.device,
		cols:  int32(q.w.cols),
		kind:  int32(q.w.kind),
		scale: q.x,
		vocab: int32(q.w.rows),
	}
	start(c, &c.embed, rows, (q.w.cols+255)/256, &args)
}

// runNorm launches a norm, after the addition of add if that is not nil. If the
// result goes into products with BF16 or quantized matrices next, it is packed for them at
// once, and not kept otherwise if nothing else reads it.
func (c *CUDA) runNorm(q *command, add *buffer, rest []command, rows int) {
	args := normArgs{
		dst:    q.dst.at,
		src:    q.src.at,
		w:      q.w.at,
		step:   c.step.device,
		cols:   int32(q.dst.cols),
		eps:    q.x,
		offset: q.y,
	}
	args.rowTiles = rowTiles(rows)
	if add != nil {
		args.add = add.at
	}
	c.packed = packedRows{}
	switch kind, ok := at(rest, 0).wants(q.dst); {
	case ok && kind == weights.BF16:
		args.packed = c.grow(&c.x16, packedBytes(rows, q.dst.cols), "packed activations")
		c.packed = packedRows{of: q.dst.at, kind: kind}
	case ok && (kind == weights.Q8_0 || kind == weights.F8E4M3):
		args.codes = c.codes(kind, rows, q.dst.cols)
		c.packed = packedRows{of: q.dst.at, kind: kind}
	}
	if c.packed.of != 0 && overwritten(q.dst, rest[1:]) {
		args.dst = 0
	}
	start(c, &c.norm, rows, 1, &args)
}

// rowTiles is how many eights of rows lie side by side in packed activations.
func rowTiles(rows int) int32 { return int32((rows + 7) / 8) }

func (c *CUDA) runAdd(q *command, rows int) {
	if c.packed.of == q.dst.at {
		c.packed = packedRows{}
	}
	args := addArgs{dst: q.dst.at, src: q.src.at, step: c.step.device, cols: int32(q.dst.cols)}
	start(c, &c.add, c.blocksFor(rows*q.dst.cols), 1, &args)
}

// blocksFor is how many blocks of 256 threads cover the given number of elements.
func (c *CUDA) blocksFor(elements int) int {
	return max(1, min((elements+255)/256, 16*c.device.Multiprocessor))
}

// runAngles computes the rotations of all rows by all ropes.
func (c *CUDA) runAngles(rows int) {
	half := 0
	for i := range c.step.ropes {
		half = max(half, len(c.step.ropes[i].InvFreq))
	}
	if half == 0 {
		return
	}
	room, n := max(rows, c.limits.Rows), len(c.step.ropes)
	args := angleArgs{
		angles: c.grow(&c.scratch.rotations.region, 8*int64(n)*int64(room)*int64(half), "rotations"),
		step:   c.step.device,
		ropes:  int32(n),
		rows:   int32(room),
		half:   int32(half),
	}
	c.scratch.rotations.rows, c.scratch.rotations.half = room, half
	start(c, &c.angles, rows, n, &args)
}

func (c *CUDA) runRopeStore(q *command, rows int) {
	table := &c.scratch.rotations
	args := ropeArgs{
		q:           q.dst.at,
		k:           q.key.at,
		v:           q.value.at,
		qnorm:       q.w.addressOf(),
		knorm:       q.w2.addressOf(),
		angles:      table.at + libcuda.Address(8*q.rope*table.rows*table.half),
		step:        c.step.device,
		pool:        c.pool.args(),
		queries:     int32(q.heads.Query),
		layer:       int32(q.layer),
		half:        q.half,
		stride:      int32(table.half),
		interleaved: q.ropeKind,
		eps:         q.x,
		offset:      q.y,
	}
	heads, side := q.heads.Query+2*q.heads.KV, 2048/headWidth(q.heads.Dim) // of a thread block
	start(c, &c.ropeStore, rows, (heads+side-1)/side, &args)
}
