package cuda

import "parley/model/weights"

// What each kernel of basic.cu and rope.cu is given; the fields are in the order there.
type (
	embedArgs struct {
		dst, table, step address
		cols, kind       int32
		scale            float32
		vocab            int32
	}
	widenArgs struct {
		dst, table       address
		rows, cols, kind int32
	}
	normArgs struct {
		dst, src, add, w, packed, step address
		cols                           int32
		eps, offset                    float32
		rowTiles                       int32
		codes                          codesArgs
	}
	addArgs struct {
		dst, src, step address
		cols           int32
	}
	angleArgs struct {
		angles, step      address
		ropes, rows, half int32
	}
	ropeArgs struct {
		q, k, v, qnorm, knorm, angles, step       address
		pool                                      poolArgs
		queries, layer, half, stride, interleaved int32
		eps, offset                               float32
	}
)

// addressOf is where a weight lies, 0 for none.
func (w *weight) addressOf() address {
	if w == nil {
		return 0
	}
	return w.at
}

// field is where a number at the beginning of the step lies.
func (c *CUDA) field(i int) address { return c.step.device + address(4*i) }

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
	case ok && kind == weights.Q8_0:
		args.codes = c.codes(rows, q.dst.cols)
		c.packed = packedRows{of: q.dst.at, kind: kind}
	}
	if c.packed.of != 0 && overwritten(q.dst, rest[1:]) {
		args.dst = 0
	}
	start(c, &c.norm, rows, 1, &args)
}

// wants returns the form in which the command multiplies all rows of b with
// matrices, if it does and they all meet the same.
func (q *command) wants(b *buffer) (kind weights.DType, ok bool) {
	if q.src != b {
		return 0, false
	}
	switch q.op {
	case opLinear:
		kind = form(q.projections[0].w.kind)
		for _, p := range q.projections[:q.count] {
			if form(p.w.kind) != kind {
				return 0, false
			}
		}
		return kind, true
	case opMLP:
		kind = form(q.mlp.gate.kind)
		return kind, kind == form(q.mlp.up.kind)
	}
	return 0, false
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
		angles: c.grow(&c.angleTable, 8*int64(n)*int64(room)*int64(half), "rotations"),
		step:   c.step.device,
		ropes:  int32(n),
		rows:   int32(room),
		half:   int32(half),
	}
	c.angleRows, c.angleHalf = room, half
	start(c, &c.angles, rows, n, &args)
}

func (c *CUDA) runRopeStore(q *command, rows int) {
	args := ropeArgs{
		q:           q.dst.at,
		k:           q.key.at,
		v:           q.value.at,
		qnorm:       q.w.addressOf(),
		knorm:       q.w2.addressOf(),
		angles:      c.angleTable.at + address(8*q.rope*c.angleRows*c.angleHalf),
		step:        c.step.device,
		pool:        c.pool.args(),
		queries:     int32(q.heads.Query),
		layer:       int32(q.layer),
		half:        q.half,
		stride:      int32(c.angleHalf),
		interleaved: q.ropeKind,
		eps:         q.x,
		offset:      q.y,
	}
	start(c, &c.ropeStore, rows, (q.heads.Query+2*q.heads.KV+7)/8, &args)
}
