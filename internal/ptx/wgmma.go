package ptx

import (
	"math/bits"
	"strconv"
	"strings"

	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

// The marks of a register.
const (
	markPending = 1 << iota // a pending operation writes it
	markFresh               // it was written after the last wgmma.fence
)

func newMatrixGroups(w *warp) matrixGroups {
	if !w.k.matrix || w.b.run.d.options.Without&CheckPending != 0 {
		return matrixGroups{}
	}
	marks := make([]byte, len(w.r))
	for i := range marks {
		marks[i] = markFresh
	}
	return matrixGroups{marks: marks}
}

// A matrixForm is a decoded wgmma.mma_async.
type matrixForm struct {
	n, k           int
	at, bt         arith.Type
	integer        bool
	d              []slot
	a              []slot // registers, or none
	aDesc, bDesc   slot
	scale          predicate
	signA, signB   float32
	transA, transB bool
}

// buildWgmma decodes wgmma.
func buildWgmma(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	if what := m.Take("fence", "commit_group", "wait_group", "mma_async"); what != "mma_async" {
		m.Drop("sync", "aligned")
		return c.wgmmaGroup(what, ops)
	}
	c.k.matrix = true
	f := c.wgmmaForm(m)
	if c.err != nil {
		return inst{}
	}
	c.wgmmaOperands(f, ops)
	return inst{kind: kindConverge, matrix: true, step: func(w *warp, _ uint32) { f.issue(w) }}
}

func (c *compiler) wgmmaGroup(what string, ops []syntax.Operand) inst {
	in := inst{kind: kindConverge, matrix: true}
	switch what {
	case "fence":
		in.step = func(w *warp, _ uint32) {
			for i := range w.wg.marks {
				w.wg.marks[i] &^= markFresh
			}
		}
	case "commit_group":
		in.step = func(w *warp, _ uint32) { w.wg.committed++ }
	case "wait_group":
		if !c.operands(ops, 1, 1) {
			return inst{}
		}
		keep := uint32(ops[0].Value)
		in.step = func(w *warp, _ uint32) { w.finishMatrices(keep) }
	default:
		c.fail("unknown form of wgmma")
	}
	return in
}

// wgmmaForm reads shape and types.
func (c *compiler) wgmmaForm(m *syntax.Modifiers) *matrixForm {
	if !m.Has("sync") || !m.Has("aligned") || len(m.Parts) < 4 {
		c.fail("wgmma without .sync.aligned")
		return nil
	}
	f := &matrixForm{signA: 1, signB: 1}
	rest, ok := strings.CutPrefix(m.Parts[0], "m64n")
	n, k, found := strings.Cut(rest, "k")
	f.n, _ = strconv.Atoi(n)
	f.k, _ = strconv.Atoi(k)
	m.Parts = m.Parts[1:]
	d := c.typed(m)
	f.at, f.bt = c.typed(m), c.typed(m)
	m.Drop("satfinite")
	f.integer = d == arith.Types["s32"]
	if !ok || !found || f.n < 8 || f.n > 256 || f.n%8 != 0 || f.at.Bits == 0 || f.k*f.at.Bits != 256 {
		c.fail("unknown shape of wgmma")
	} else if !f.integer && d != arith.Types["f32"] || f.at.Bits != f.bt.Bits {
		c.fail("unknown types of wgmma")
	}
	return f
}

func (c *compiler) wgmmaOperands(f *matrixForm, ops []syntax.Operand) {
	if !c.operands(ops, 4, 8) {
		return
	}
	f.d = c.outs32(ops[0], f.n/2)
	f.aDesc = -1
	if ops[1].Kind == syntax.VectorOperand {
		f.a = c.ins32(ops[1], 4)
	} else {
		f.aDesc = c.in64(ops[1], arith.Types["b64"])
	}
	f.bDesc = c.in64(ops[2], arith.Types["b64"])
	f.scale = c.inPred(ops[3])
	signs := ops[4:]
	if len(signs) >= 2 {
		f.signA, f.signB = float32(int64(signs[0].Value)), float32(int64(signs[1].Value))
		signs = signs[2:]
	}
	if len(signs) > 0 && f.a == nil {
		f.transA, signs = signs[0].Value != 0, signs[1:]
	}
	if len(signs) > 0 {
		f.transB = signs[0].Value != 0
	}
	if (f.transA || f.transB) && f.at.Bits != 16 {
		c.fail("only 16-bit types can be transposed")
	}
}

// issue examines the operands and leaves the work to wgmma.wait_group.
func (f *matrixForm) issue(w *warp) {
	op := &matrixOp{form: f, group: w.wg.committed, accumulate: f.scale.of(w)&1 != 0, line: w.pc}
	op.b = w.q[f.bDesc][0]
	for lane := range arith.WarpSize {
		if f.aDesc >= 0 && w.q[f.aDesc][lane] != w.q[f.aDesc][0] || w.q[f.bDesc][lane] != op.b {
			w.fault(lane, "the matrix descriptor is not the same in all lanes")
		}
	}
	for i, s := range f.a {
		op.registers[i] = w.r[s]
	}
	if f.aDesc >= 0 {
		op.a = w.q[f.aDesc][0]
	}
	f.chunks(w, op, func(at, _, _ int, _ bool) { w.b.shadow.startRead(w, 0, at, 16) })
	w.checkFresh(f.d)
	w.checkFresh(f.a)
	if w.wg.marks != nil {
		for _, s := range f.d {
			w.wg.marks[s] |= markPending
		}
	}
	w.wg.list = append(w.wg.list, op)
	w.wg.pending = true
}

// track refuses instructions that use accumulators of pending operations, and
// remembers what they write.
func (w *warp) track(in *inst) {
	if in.matrix || w.wg.marks == nil {
		return
	}
	if w.wg.pending {
		for _, s := range in.uses {
			if w.wg.marks[s]&markPending != 0 {
				w.fault(bits.TrailingZeros32(w.lanes),
					"use of a register that a pending wgmma writes; wgmma.wait_group is missing")
			}
		}
	}
	for _, s := range in.writes {
		w.wg.marks[s] |= markFresh
	}
}

// checkFresh requires a wgmma.fence between other writes to registers and wgmma.
func (w *warp) checkFresh(registers []slot) {
	if w.wg.marks == nil {
		return
	}
	for _, s := range registers {
		if w.wg.marks[s]&markFresh != 0 {
			w.fault(bits.TrailingZeros32(w.lanes), "a register of wgmma was written after the last wgmma.fence")
		}
	}
}

// finishMatrices computes the operations of all but the last keep groups.
func (w *warp) finishMatrices(keep uint32) {
	n := 0
	for n < len(w.wg.list) && w.wg.list[n].group+keep < w.wg.committed {
		w.wg.list[n].compute(w)
		n++
	}
	w.wg.list = append(w.wg.list[:0], w.wg.list[n:]...)
	w.wg.pending = len(w.wg.list) > 0
	if w.wg.marks == nil {
		return
	}
	for i := range w.wg.marks {
		w.wg.marks[i] &^= markPending
	}
	for _, op := range w.wg.list {
		for _, s := range op.form.d {
			w.wg.marks[s] |= markPending
		}
	}
}

// A descriptor is a decoded matrix descriptor.
type descriptor struct {
	start, leading, stride int
	swizzle                int // 0 none, 1: 32 bytes, 2: 64 bytes, 3: 128 bytes
}

func (w *warp) descriptor(d uint64) descriptor {
	if d>>49&7 != 0 {
		w.fault(0, "a matrix descriptor with a base offset is not supported")
	}
	return descriptor{
		start:   int(d&0x3fff) << 4,
		leading: int(d>>16&0x3fff) << 4,
		stride:  int(d>>32&0x3fff) << 4,
		swizzle: []int{0, 3, 2, 1}[d>>62],
	}
}

// kMajor returns the address of 16 bytes along k: half 0 or 1 of a row.
func (d descriptor) kMajor(row, half int) int {
	if d.swizzle == 0 {
		return d.start + row/8*d.stride + row%8*16 + half*d.leading
	}
	return swizzled(d.start+row/8*d.stride+row%8*(16<<d.swizzle)+half*16, d.swizzle)
}

// mnMajor returns the address of eight 16-bit elements along m or n, at depth k.
func (d descriptor) mnMajor(unit, k int) int {
	if d.swizzle == 0 {
		return d.start + unit*d.stride + k%8*16 + k/8*d.leading
	}
	wide := 1 << d.swizzle
	return swizzled(d.start+unit/wide*d.leading+unit%wide*16+k%8*(16<<d.swizzle)+k/8*d.stride, d.swizzle)
}

// chunks visits the 16-byte pieces of shared memory that the operation reads:
// their address, row or unit, half or depth, and whether they belong to A.
func (f *matrixForm) chunks(w *warp, op *matrixOp, visit func(at, row, k int, isA bool)) {
	check := func(at int) int {
		if at < sharedBase || at+16 > len(w.b.shared) {
			w.faultAt(0, uint64(at), "a matrix descriptor reaches outside the %d bytes of shared memory",
				len(w.b.shared)-sharedBase)
		}
		return at
	}
	walk := func(d descriptor, from, rows int, trans, isA bool) {
		if trans {
			for unit := range rows / 8 {
				for k := range f.k {
					visit(check(d.mnMajor(from/8+unit, k)), unit*8, k, isA)
				}
			}
			return
		}
		for row := range rows {
			visit(check(d.kMajor(from+row, 0)), row, 0, isA)
			visit(check(d.kMajor(from+row, 1)), row, 1, isA)
		}
	}
	if f.aDesc >= 0 {
		walk(w.descriptor(op.a), w.id%4*16, 16, f.transA, true)
	}
	walk(w.descriptor(op.b), 0, f.n, f.transB, false)
}

// compute does the work: operands are laid out as rows along k first.
func (op *matrixOp) compute(w *warp) {
	f, t := op.form, w.scratch()
	for i, s := range f.a {
		if w.r[s] != op.registers[i] {
			w.fault(0, "a register of A was changed while the wgmma of line %d was pending", w.k.code[op.line].line)
		}
	}
	if f.integer {
		spreadA(w, f, t.ia[:], arith.SignedByte)
		f.gather(w, op, func(at []byte, out int, isA bool) {
			to, e := t.ib[out:], f.bt
			if isA {
				to, e = t.ia[out:], f.at
			}
			for i, v := range at[:16] {
				to[i] = arith.SignedByte(uint32(v), e)
			}
		}, nil)
		f.products32(w, op, t)
		return
	}
	va, vb := arith.ElementValue(f.at), arith.ElementValue(f.bt)
	spreadA(w, f, t.a[:], va)
	size := f.at.Bits / 8
	f.gather(w, op, func(at []byte, out int, isA bool) {
		to, value := t.b[out:], vb
		if isA {
			to, value = t.a[out:], va
		}
		for i := range 16 / size {
			to[i] = value(uint32(arith.Load(at[i*size:], size, false, false)), f.at)
		}
	}, func(at []byte, row, k int, isA bool) {
		to, value := t.b[:], vb
		if isA {
			to, value = t.a[:], va
		}
		for i := range 8 {
			to[(row+i)*f.k+k] = value(uint32(le.Uint16(at[2*i:])), f.at)
		}
	})
	f.products(w, op, t)
}

func spreadA[T float32 | int32](w *warp, f *matrixForm, out []T, value func(uint32, arith.Type) T) {
	if f.a != nil {
		spread(w, f.a, f.k, f.at, 2, out, value)
	}
}

// gather reads shared memory: straight takes 16 bytes along k, across eight
// elements along m or n.
func (f *matrixForm) gather(w *warp, op *matrixOp, straight func(data []byte, out int, isA bool),
	across func(data []byte, row, k int, isA bool)) {
	half := f.k / 2
	f.chunks(w, op, func(at, row, k int, isA bool) {
		data := w.b.shared[at:][:16]
		if isA && f.transA || !isA && f.transB {
			across(data, row, k, isA)
		} else {
			straight(data, row*f.k+k*half, isA)
		}
		w.b.shadow.endRead(w, at, 16)
	})
}

// products adds a b to the accumulators, in the order of k.
func (f *matrixForm) products(w *warp, op *matrixOp, t *tile) {
	sign := f.signA * f.signB
	if sign != 1 {
		for i := range 16 * f.k {
			t.a[i] *= sign
		}
	}
	depth := f.k
	for block := range f.n / 8 {
		d := f.d[4*block:][:4]
		for lane := range arith.WarpSize {
			g, q := lane/4, lane%4
			x0, x1 := t.a[g*depth:][:depth], t.a[(g+8)*depth:][:depth]
			y0, y1 := t.b[(8*block+2*q)*depth:][:depth], t.b[(8*block+2*q+1)*depth:][:depth]
			var s0, s1, s2, s3 float32
			if op.accumulate {
				s0, s1 = arith.F32(w.r[d[0]][lane]), arith.F32(w.r[d[1]][lane])
				s2, s3 = arith.F32(w.r[d[2]][lane]), arith.F32(w.r[d[3]][lane])
			}
			for k, u := range x0 {
				s0 += u * y0[k]
				s1 += u * y1[k]
				s2 += x1[k] * y0[k]
				s3 += x1[k] * y1[k]
			}
			w.r[d[0]][lane], w.r[d[1]][lane] = arith.B32(s0), arith.B32(s1)
			w.r[d[2]][lane], w.r[d[3]][lane] = arith.B32(s2), arith.B32(s3)
		}
	}
}

func (f *matrixForm) products32(w *warp, op *matrixOp, t *tile) {
	for i, s := range f.d {
		for lane := range arith.WarpSize {
			row, col := lane/4+i%4/2*8, i/4*8+lane%4*2+i%2
			x, y := t.ia[row*f.k:][:f.k], t.ib[col*f.k:][:f.k]
			sum := int32(0)
			if op.accumulate {
				sum = int32(w.r[s][lane])
			}
			for k, v := range x {
				sum += v * y[k]
			}
			w.r[s][lane] = uint32(sum)
		}
	}
}
