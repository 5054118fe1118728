package cuda

import (
	"fmt"
	"slices"

	"parley/compute/libcuda"
	"parley/model/weights"
)

// An input is rows of activations on their way into a product.
type input struct {
	at     libcuda.Address // float32
	up     libcuda.Address // if not 0: act(at)·up
	act    int32
	cols   int
	count  libcuda.Address // of the number of rows
	rows   int             // the most there may be
	list   libcuda.Address // which rows; 0 for all
	tiles  libcuda.Address // the expert of each tile of rows; 0 without
	tile   int             // rows in a tile
	packed packedRows
	// packedAt is where rows are that exist packed alone, as packed says; at is 0 then.
	packedAt libcuda.Address
}

type (
	packArgs struct {
		src, up, packed, scales, count, rows libcuda.Address
		cols, kind, act, rowTiles            int32
	}
	codesArgs struct {
		packed        libcuda.Address
		rowTiles, fp8 int32
	}
	activateArgs struct {
		gate, up, count libcuda.Address
		cols, act       int32
	}
	floatArgs struct {
		x, w, bias, out, count, rows, tiles libcuda.Address
		outputs, cols, ld                   int32
	}
	linearJob struct {
		w, bias, out       libcuda.Address
		outputs, ld, tile0 int32
		_                  int32
	}
	linearArgs struct {
		x, scales, count, tiles, hidden libcuda.Address
		records, jobs, mtiles, ntiles   int32
		rowTiles, act                   int32
		job                             [maxProjections]linearJob
	}
)

func jobOf(w, bias *weight, out libcuda.Address, ld int) job {
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
	if kind == weights.F32 || (in.packed.kind == kind && in.packed.of == in.at) {
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
	args.rowTiles = rowTiles(in.rows)
	switch kind {
	case weights.Q8_0:
		args.packed = c.codes(kind, in.rows, in.cols).packed
		start(c, &c.pack8, in.rows, roundUp(in.cols, 256)/256, &args)
	case weights.F8E4M3:
		args.packed = c.codes(kind, in.rows, in.cols).packed
		start(c, &c.packFP8, in.rows, roundUp(in.cols, 2048)/2048, &args)
	default:
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

// codes takes memory for rows of 8-bit numbers as matrices of the type meet them.
func (c *CUDA) codes(kind weights.DType, rows, cols int) codesArgs {
	args := codesArgs{rowTiles: rowTiles(rows)}
	if kind == weights.F8E4M3 {
		args.fp8 = 1
	}
	args.packed = c.grow(&c.x8, codesBytes(rows, cols), "quantized activations")
	return args
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

// kernelFor chooses one of a type's kernels for a number of rows and outputs; with a
// tile, the one of that many rows. All give the same bits.
func (c *CUDA) kernelFor(all []matrixKernel, rows, outputs, tile int) *matrixKernel {
	if all[0].stage > 0 {
		if k := c.quickest(all, rows, outputs, tile); k != nil {
			return k
		}
	}
	if n := slices.IndexFunc(all, func(k matrixKernel) bool { return k.busy > 0 }); n >= 0 {
		if k := c.byGroups(all[n:], rows, outputs, tile); k != nil {
			return k
		}
		all = all[:n]
	}
	wanted := rows
	if tile != 0 {
		wanted = tile
	}
	best := len(all) - 1
	for i := range all {
		if all[i].rows >= wanted {
			best = i
			break
		}
	}
	if tile != 0 && all[best].rows != tile {
		c.fail(fmt.Errorf("no kernel for tiles of %d rows", tile))
	}
	// Among tiles with equally many rows, the next has more outputs. A kernel that computes
	// one tile per thread block needs enough blocks to make the last wave negligible.
	for best+1 < len(all) && all[best+1].rows == all[best].rows {
		wanted := c.device.Multiprocessor * 15 / 16
		if all[best+1].resident == 0 {
			wanted = 2 * c.device.Multiprocessor
		}
		if all[best+1].blocks(rows, outputs) < wanted {
			break
		}
		best++
	}
	// Tiles that leave multiprocessors without work are too large.
	for best > 0 && tile == 0 && all[best].rows > 32 &&
		all[best].blocks(rows, outputs) < c.device.Multiprocessor*3/4 {
		best--
	}
	if all[best].stage > 0 && tile == 0 {
		return c.quickest(all, rows, outputs, 0)
	}
	return &all[best]
}

// byGroups chooses one of the kernels with warpgroups, or none if those without are quicker: it must give work to
// enough multiprocessors, and to nearly all where tiles have experts.
func (c *CUDA) byGroups(groups []matrixKernel, rows, outputs, tile int) *matrixKernel {
	k := c.quickest(groups, rows, outputs, tile)
	if k == nil || tile > 64 { // there are no others for such tiles
		return k
	}
	busy := k.busy
	if tile > 0 {
		busy = 0.95
	}
	if float64(k.blocks(rows, outputs)) < busy*float64(c.device.Multiprocessor) {
		return nil
	}
	return k
}

// quickest chooses the kernel of which a multiprocessor copies the fewest bytes, among those that copies limit. With a
// tile, it is one of that many rows, or none; without, one with warpgroups whose tiles are filled for two thirds.
func (c *CUDA) quickest(all []matrixKernel, rows, outputs, tile int) (best *matrixKernel) {
	least := 0
	for i := range all {
		k := &all[i]
		empty := tile == 0 && k.busy > 0 && 3*rows <= 2*roundUp(rows, k.rows)
		small := k.turned && k.rows == 64 && rows > 2*k.rows // larger tiles copy less in all
		if k.stage == 0 || empty || small || tile > 0 && k.rows != tile || !k.fits(outputs, tile) {
			continue
		}
		rounds := (k.blocks(rows, outputs) + c.device.Multiprocessor - 1) / c.device.Multiprocessor
		if bytes := rounds * k.stage; best == nil || bytes < least {
			best, least = k, bytes
		}
	}
	return best
}

// fits reports whether a kernel can compute that many outputs. Those with rows as the left side need whole records of
// weights and at least one whole tile, and are not for experts, whose outputs are few.
func (k *matrixKernel) fits(outputs, tile int) bool {
	return !k.turned || tile == 0 && outputs%64 == 0 && outputs >= k.outputs
}

// kernelsFor leaves out the kernels with rows as the left side if one of the jobs does not fit them.
func kernelsFor(all []matrixKernel, jobs []job) []matrixKernel {
	return slices.DeleteFunc(slices.Clone(all), func(k matrixKernel) bool {
		return slices.ContainsFunc(jobs, func(j job) bool { return !k.fits(j.rows, 0) })
	})
}

// blocks is how many blocks of threads a product takes.
func (k *matrixKernel) blocks(rows, outputs int) int {
	return (rows + k.rows - 1) / k.rows * k.across(outputs)
}

// grid is how many blocks of threads of a kernel go through the tiles.
func (c *CUDA) grid(k *matrixKernel, tiles int) int {
	if k.resident == 0 {
		return tiles
	}
	return min(tiles, k.resident*c.device.Multiprocessor)
}

func (c *CUDA) productPacked(in *input, jobs []job) {
	outputs := 0
	for _, j := range jobs {
		outputs += j.rows
	}
	k := c.kernelFor(kernelsFor(c.matrices[jobs[0].kind], jobs), in.rows, outputs, in.tile)
	args := c.linearArgsOf(in, jobs, k)
	for i := range jobs {
		args.job[i].tile0 = args.mtiles
		args.mtiles += int32(k.across(jobs[i].rows))
	}
	start(c, &k.kernel, c.grid(k, int(args.mtiles*args.ntiles)), 1, &args)
}

// across is how many tiles of the kernel the outputs take.
func (k *matrixKernel) across(outputs int) int { return (outputs + k.outputs - 1) / k.outputs }

// linearArgsOf fills in what a kernel must know of packed rows and jobs, but for tiles of outputs.
func (c *CUDA) linearArgsOf(in *input, jobs []job, k *matrixKernel) linearArgs {
	l := layouts[jobs[0].kind]
	args := linearArgs{
		x:        in.packedAt,
		scales:   c.x16Scales.at,
		count:    in.count,
		tiles:    in.tiles,
		records:  int32(roundUp(in.cols, l.record) / l.record),
		jobs:     int32(len(jobs)),
		ntiles:   int32((in.rows + k.rows - 1) / k.rows),
		rowTiles: rowTiles(in.rows),
	}
	if args.x == 0 {
		args.x = c.x16.at
	}
	if form(jobs[0].kind).BlockBytes() != 2 {
		args.x = c.x8.at
	}
	for i, j := range jobs {
		args.job[i] = linearJob{
			w:       j.w,
			bias:    j.bias,
			out:     j.out,
			outputs: int32(j.rows),
			ld:      int32(j.ld),
		}
	}
	return args
}

// productPair multiplies with the two BF16 matrices before the product inside an
// MLP, and returns act(gate)·up as the input of the next product. It reports
// false if the device has no kernel for that.
func (c *CUDA) productPair(in *input, gate, up, down *job, act int32) (hidden input, ok bool) {
	if len(c.pairs) == 0 || gate.kind != weights.BF16 || up.kind != weights.BF16 || down.kind != weights.BF16 {
		return input{}, false
	}
	c.pack(in, weights.BF16)
	k := c.kernelFor(c.pairs, in.rows, gate.rows, in.tile)
	args := c.linearArgsOf(in, []job{*gate, *up}, k)
	args.hidden = c.grow(&c.hidden16, packedBytes(in.rows, gate.rows), "the inside of an MLP")
	args.act, args.mtiles = act, int32(k.across(roundUp(gate.rows, 64))) // what is packed is whole records
	start(c, &k.kernel, c.grid(k, int(args.mtiles*args.ntiles)), 1, &args)
	hidden = *in
	hidden.at, hidden.list, hidden.cols = 0, 0, gate.rows
	hidden.packedAt, hidden.packed = args.hidden, packedRows{kind: weights.BF16}
	return hidden, true
}

// rowsOf is all rows of a buffer as an input.
func (c *CUDA) rowsOf(b *buffer, rows int) input {
	return input{
		at:     b.at,
		cols:   b.cols,
		count:  c.field(stepRows),
		rows:   rows,
		packed: c.packed,
	}
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
	in := c.rowsOf(q.src, rows)
	down := jobOf(m.down, m.downBias, q.dst.at, q.dst.cols)
	c.gated(&in, jobOf(m.gate, m.gateBias, 0, 0), jobOf(m.up, m.upBias, 0, 0), down, int32(m.act), rows)
	c.packed = packedRows{}
}

// gated computes down·(act(gate·x)·(up·x)). It takes room for a number of rows.
func (c *CUDA) gated(in *input, gate, up, down job, act int32, room int) {
	hidden, ok := c.productPair(in, &gate, &up, &down, act)
	if !ok {
		inner := gate.rows
		bytes := 4 * int64(room) * int64(inner)
		gate.out, gate.ld = c.grow(&c.gate, bytes, "the inside of an MLP"), inner
		up.out, up.ld = c.grow(&c.up, bytes, "the inside of an MLP"), inner
		c.product(in, []job{gate, up})
		hidden = input{
			at:    gate.out,
			up:    up.out,
			act:   act,
			cols:  inner,
			count: in.count,
			rows:  in.rows,
			tiles: in.tiles,
			tile:  in.tile,
		}
	}
	c.product(&hidden, []job{down})
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
