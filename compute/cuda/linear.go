package cuda

import (
	"fmt"

	"parley/model/weights"
)

// packedRows says what the memory for packed activations holds: the rows of a
// buffer, in the form that a type of weights meets.
type packedRows struct {
	of   address
	kind weights.DType
}

// An input is rows of activations on their way into a product.
type input struct {
	at     address // float32
	up     address // if not 0: act(at)·up
	act    int32
	cols   int
	count  address // of the number of rows
	rows   int     // the most there may be
	list   address // which rows; 0 for all
	tiles  address // the expert of each tile of rows; 0 without
	tile   int     // rows in a tile
	packed packedRows
}

type (
	packArgs struct {
		src, up, packed, scales, sums, count, rows address
		cols, kind, act                            int32
	}
	activateArgs struct {
		gate, up, count address
		cols, act       int32
	}
	floatArgs struct {
		x, w, bias, out, count, rows, tiles address
		outputs, cols, ld                   int32
	}
	linearJob struct {
		w, bias, out       address
		outputs, ld, tile0 int32
		_                  int32
	}
	linearArgs struct {
		x, scales, sums, count, tiles address
		records, jobs, mtiles, ntiles int32
		job                           [maxProjections]linearJob
	}
)

// A job is one product with an input. With experts w and bias are tables of addresses.
type job struct {
	kind       weights.DType
	w, bias    address
	rows, cols int // of the weight
	out        address
	ld         int
}

func jobOf(w, bias *weight, out address, ld int) job {
	return job{w.kind, w.at, bias.addressOf(), w.rows, w.cols, out, ld}
}

// form is the type of weights whose activations are packed as this one's are.
func form(t weights.DType) weights.DType {
	if quantized(t) {
		return weights.Q8_0
	}
	return t
}

// pack brings an input into the form for a type of weights, if it is not yet.
func (c *CUDA) pack(in *input, kind weights.DType) {
	kind = form(kind)
	if kind == weights.F32 || (in.packed.kind == kind && in.packed.of == in.at && in.at != 0) {
		return
	}
	bytes := packedBytes(in.rows, in.cols)
	args := packArgs{
		src:   in.at,
		up:    in.up,
		count: in.count,
		rows:  in.list,
		cols:  int32(in.cols),
		act:   in.act,
	}
	if kind == weights.Q8_0 {
		args.packed = c.grow(&c.x8, bytes/2, "quantized activations")
		args.scales = c.grow(&c.x8Scales, bytes/2/32*4, "scales of activations")
		args.sums = c.grow(&c.x8Sum, bytes/2/32*4, "sums of activations")
		start(c, &c.pack8, in.rows, roundUp(in.cols, 256)/256, &args)
	} else {
		args.packed = c.grow(&c.x16, bytes, "packed activations")
		chunks := roundUp(in.cols, 2048) / 2048
		if kind == weights.F16 {
			chunks = 1
			args.kind = 1
			args.scales = c.grow(&c.x16Scales, 4*int64(in.rows), "scales of activations")
		}
		start(c, &c.pack16, in.rows, chunks, &args)
	}
	in.packed = packedRows{in.at, kind}
}

// product launches jobs with the same input; those of one type in one launch.
func (c *CUDA) product(in *input, jobs []job) {
	for len(jobs) > 0 {
		n := 1
		for n < len(jobs) && jobs[n].kind == jobs[0].kind {
			n++
		}
		c.pack(in, jobs[0].kind)
		if jobs[0].kind == weights.F32 {
			c.productFloat(in, &jobs[0])
			n = 1
		} else {
			c.productPacked(in, jobs[:n])
		}
		jobs = jobs[n:]
	}
}

func (c *CUDA) productFloat(in *input, j *job) {
	if in.up != 0 {
		args := activateArgs{in.at, in.up, in.count, int32(in.cols), in.act}
		start(c, &c.gateUp, c.blocksFor(in.rows*in.cols), 1, &args)
		in.up = 0
	}
	args := floatArgs{
		x:       in.at,
		w:       j.w,
		bias:    j.bias,
		out:     j.out,
		count:   in.count,
		rows:    in.list,
		tiles:   in.tiles,
		outputs: int32(j.rows),
		cols:    int32(in.cols),
		ld:      int32(j.ld),
	}
	start(c, &c.linearF32, (j.rows+7)/8, (in.rows+7)/8, &args)
}

// kernelFor chooses the kernel of a type for so many rows and outputs; with a
// tile, the one of that many rows. All give the same bits.
func (c *CUDA) kernelFor(kind weights.DType, rows, outputs, tile int) *matrixKernel {
	all := c.matrices[kind]
	if tile != 0 {
		for i := range all {
			if all[i].rows == tile {
				return &all[i]
			}
		}
		c.fail(fmt.Errorf("no kernel of %v for tiles of %d rows", kind, tile))
	}
	best := len(all) - 1
	for i := range all {
		if all[i].rows >= rows {
			best = i
			break
		}
	}
	// Of two for as many rows the second has more outputs.
	if best+1 < len(all) && all[best+1].rows == all[best].rows && all[best+1].blocks(rows, outputs) >= c.device.Multiprocessor {
		best++
	}
	// Tiles that leave multiprocessors without work are too large.
	for best > 0 && all[best].rows > 128 && all[best].blocks(rows, outputs) < c.device.Multiprocessor {
		best--
	}
	return &all[best]
}

// blocks is how many blocks of threads a product takes.
func (k *matrixKernel) blocks(rows, outputs int) int {
	return (rows + k.rows - 1) / k.rows * ((outputs + 16*k.strips - 1) / (16 * k.strips))
}

func (c *CUDA) productPacked(in *input, jobs []job) {
	outputs := 0
	for _, j := range jobs {
		outputs += j.rows
	}
	k := c.kernelFor(jobs[0].kind, in.rows, outputs, in.tile)
	l := layouts[jobs[0].kind]
	args := linearArgs{
		x:       c.x16.at,
		scales:  c.x16Scales.at,
		count:   in.count,
		tiles:   in.tiles,
		records: int32(roundUp(in.cols, l.record) / l.record),
		jobs:    int32(len(jobs)),
		ntiles:  int32((in.rows + k.rows - 1) / k.rows),
	}
	if quantized(jobs[0].kind) {
		args.x, args.scales, args.sums = c.x8.at, c.x8Scales.at, c.x8Sum.at
	}
	for i, j := range jobs {
		args.job[i] = linearJob{
			w:       j.w,
			bias:    j.bias,
			out:     j.out,
			outputs: int32(j.rows),
			ld:      int32(j.ld),
			tile0:   args.mtiles,
		}
		args.mtiles += int32((j.rows + 16*k.strips - 1) / (16 * k.strips))
	}
	start(c, &k.kernel, int(args.mtiles*args.ntiles), 1, &args)
}

// rowsOf is all rows of a buffer as an input.
func (c *CUDA) rowsOf(b *buffer, rows int) input {
	return input{at: b.at, cols: b.cols, count: c.field(stepRows), rows: rows, packed: c.packed}
}

func (c *CUDA) runLinear(q *command, rows int) {
	in := c.rowsOf(q.src, rows)
	var jobs [maxProjections]job
	for i, p := range q.projections[:q.count] {
		jobs[i] = jobOf(p.w, p.bias, p.out.at, p.out.cols)
	}
	c.product(&in, jobs[:q.count])
	c.packed = in.packed
	for _, p := range q.projections[:q.count] {
		if p.out.at == c.packed.of {
			c.packed = packedRows{}
		}
	}
}

func (c *CUDA) runMLP(q *command, rows int) {
	m := &q.mlp
	bytes := 4 * int64(rows) * int64(m.gate.rows)
	gate := c.grow(&c.gate, bytes, "the inside of an MLP")
	up := c.grow(&c.up, bytes, "the inside of an MLP")
	in := c.rowsOf(q.src, rows)
	c.product(&in, []job{jobOf(m.gate, m.gateBias, gate, m.gate.rows), jobOf(m.up, m.upBias, up, m.up.rows)})
	inner := input{at: gate, up: up, act: int32(m.act), cols: m.gate.rows, count: in.count, rows: rows}
	c.product(&inner, []job{jobOf(m.down, m.downBias, q.dst.at, q.dst.cols)})
	c.packed = packedRows{}
}

// runLogits multiplies the output rows with the table.
func (c *CUDA) runLogits(q *command, outputs int) {
	out := c.grow(&c.logits, 4*int64(max(outputs, c.limits.Outputs))*int64(q.w.rows), "logits")
	in := input{
		at:    q.src.at,
		cols:  q.src.cols,
		count: c.field(stepOutputs),
		rows:  outputs,
		list:  c.field(stepFields),
	}
	c.product(&in, []job{jobOf(q.w, nil, out, q.w.rows)})
	c.packed = packedRows{}
}
