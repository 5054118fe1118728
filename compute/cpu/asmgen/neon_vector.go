package main

// overLanes writes a loop over n/16 groups of sixteen lanes; the pointers move on.
func (a neon) overLanes(pointers []xreg, body func()) {
	a.load("n", counter)
	a.op("LSR", 4, counter, counter)
	a.times(counter, func() {
		body()
		for _, p := range pointers {
			a.advance(p, 64)
		}
	})
}

// rowKernels writes the kernels that go over a row.
func (a neon) rowKernels() {
	a.sumSquares()
	a.scaleNorm()
	a.addTo()
	a.addScaled()
	a.scaleTo()
	a.blend()
	a.rotate()
	a.rotatePairs()
}

func (a neon) sumSquares() {
	a.begin("sumSquares", "sets the 16 lanes to the sums of squares of every 16th of n values; n is a multiple of 16.",
		"lanes []float32", "x []float32", "n int")
	const lanes, src xreg = 0, 1
	a.loads(lanes, "lanes_base", "x_base")
	sum, x := value(0), value(1)
	a.zero(sum)
	a.overLanes([]xreg{src}, func() {
		a.each("ldr.q", x, slot{src, 0})
		a.each("fmla", sum, x, x)
	})
	a.each("str.q", sum, slot{lanes, 0})
	a.end()
}

func (a neon) scaleNorm() {
	a.begin("scaleNorm", "sets dst to src·scale·(w+offset); n is a multiple of 16.",
		"dst []float32", "src []float32", "w []float32", "n int", "scale float32", "offset float32")
	const dst, src, weight xreg = 0, 1, 2
	a.loads(dst, "dst_base", "src_base", "w_base")
	x, w := value(0), value(1)
	const scale, offset vreg = 8, 9
	a.spread("scale", scale)
	a.spread("offset", offset)
	a.overLanes([]xreg{dst, src, weight}, func() {
		a.each("ldr.q", x, slot{src, 0})
		a.each("ldr.q", w, slot{weight, 0})
		a.each("fmul", x, x, scale)
		a.each("fadd", w, w, offset)
		a.each("fmul", x, x, w)
		a.each("str.q", x, slot{dst, 0})
	})
	a.end()
}

// onto writes a loop that replaces dst by what body makes of it and of src.
func (a neon) onto(body func(dst, src regs)) {
	const to, from xreg = 0, 1
	a.loads(to, "dst_base", "src_base")
	dst, src := value(0), value(1)
	a.overLanes([]xreg{to, from}, func() {
		a.each("ldr.q", dst, slot{to, 0})
		a.each("ldr.q", src, slot{from, 0})
		body(dst, src)
		a.each("str.q", dst, slot{to, 0})
	})
	a.end()
}

func (a neon) addTo() {
	a.begin("addTo", "adds src to dst; n is a multiple of 16.", "dst []float32", "src []float32", "n int")
	a.onto(func(dst, src regs) { a.each("fadd", dst, dst, src) })
}

func (a neon) addScaled() {
	a.begin("addScaled", "adds scale·src to dst; n is a multiple of 16.",
		"dst []float32", "src []float32", "n int", "scale float32")
	const scale vreg = 8
	a.spread("scale", scale)
	a.onto(func(dst, src regs) { a.each("fmla", dst, src, scale) })
}

func (a neon) scaleTo() {
	a.begin("scaleTo", "sets dst to scale·src; n is a multiple of 16.",
		"dst []float32", "src []float32", "n int", "scale float32")
	const to, from xreg = 0, 1
	const scale vreg = 4
	a.loads(to, "dst_base", "src_base")
	a.spread("scale", scale)
	x := value(0)
	a.overLanes([]xreg{to, from}, func() {
		a.each("ldr.q", x, slot{from, 0})
		a.each("fmul", x, x, scale)
		a.each("str.q", x, slot{to, 0})
	})
	a.end()
}

func (a neon) blend() {
	a.begin("blend", "sets dst to keep·dst + add·src; n is a multiple of 16.",
		"dst []float32", "src []float32", "n int", "keep float32", "add float32")
	const keep, add vreg = 8, 9
	a.spread("keep", keep)
	a.spread("add", add)
	a.onto(func(dst, src regs) {
		a.each("fmul", dst, dst, keep)
		a.each("fmla", dst, src, add)
	})
}

// turn rotates pairs: lo becomes lo·cos - hi·sin, and hi becomes hi·cos + lo·sin.
// As for amd64, the products with sin are the ones that are rounded.
func (a neon) turn(lo, hi, cos, sin, newLo, newHi regs) {
	a.each("fmul", newLo, hi, sin)
	a.each("fmul", newHi, lo, sin)
	a.each("fneg", newLo, newLo)
	a.each("fmla", newLo, lo, cos)
	a.each("fmla", newHi, hi, cos)
}

// rotate turns pairs that lie half a head apart.
func (a neon) rotate() {
	a.begin("rotate", "turns the pairs of lo and hi by the angles of cos and sin; n is a multiple of 16.",
		"lo []float32", "hi []float32", "cos []float32", "sin []float32", "n int")
	pointers := []xreg{0, 1, 2, 3}
	a.loads(0, "lo_base", "hi_base", "cos_base", "sin_base")
	a.overLanes(pointers, func() {
		for i, p := range pointers {
			a.each("ldr.q", value(i), slot{p, 0})
		}
		a.turn(value(0), value(1), value(2), value(3), value(4), value(5))
		a.each("str.q", value(4), slot{0, 0})
		a.each("str.q", value(5), slot{1, 0})
	})
	a.end()
}

// rotatePairs turns pairs that lie side by side: they are taken apart when
// they are loaded, and put together when they are stored.
func (a neon) rotatePairs() {
	a.begin("rotatePairs",
		"turns the pairs of neighbours in x by the angles of cos and sin; n values of x, a multiple of 16.",
		"x []float32", "cos []float32", "sin []float32", "n int")
	const x, cosines, sines xreg = 0, 1, 2
	a.loads(x, "x_base", "cos_base", "sin_base")
	lo, hi, cos, sin, newLo, newHi := between(0, 1), between(1, 1), between(2, 1), between(3, 1), between(4,
		1), between(5, 1)
	a.load("n", counter)
	a.op("LSR", 3, counter, counter)
	a.times(counter, func() {
		a.op("MOVD", x, inner)
		a.v("ld2", lo[0], inner)
		a.each("ldr.q", cos, slot{cosines, 0})
		a.each("ldr.q", sin, slot{sines, 0})
		a.turn(lo, hi, cos, sin, newLo, newHi)
		a.v("st2", newLo[0], x)
		a.advance(cosines, 16)
		a.advance(sines, 16)
	})
	a.end()
}

// exp replaces x by its exponential, step by step as exp of [assembler] does.
// n, p, q and the constant are used up.
func (a neon) exp(x, n, p, q regs, constant vreg) {
	const round = 12582912
	with := func(f float64) vreg {
		a.v("ldr.q", constant, a.float(f))
		return constant
	}
	a.each("fmax", x, x, with(expMin))
	a.each("fmin", x, x, with(expMax))
	a.each("ldr.q", n, a.float(round))
	a.each("fmla", n, x, with(1.4426950408889634))
	a.each("fsub", p, n, with(round))
	a.each("fmls", x, p, with(0.693359375))
	a.each("fmls", x, p, with(-2.12194440e-4))
	a.each("ldr.q", p, a.float(1.9875691500e-4))
	for _, c := range []float64{1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1, 1,
		1} {
		a.each("ldr.q", q, a.float(c))
		a.each("fmla", q, p, x)
		p, q = q, p
	}
	a.each("shl.4s", n, n, 23)
	a.each("add", x, n, p)
}

// gate is x·sigmoid(z)·up, as for amd64.
func (a neon) gate(name string, gelu bool) {
	a.begin(name, "replaces gate by the activation of gate times up; n is a multiple of 16.",
		"gate []float32", "up []float32", "n int")
	const gated, up xreg = 0, 1
	a.loads(gated, "gate_base", "up_base")
	a.useConstants()
	x, z, n, p, q := value(0), value(1), value(2), value(3), value(4)
	const constant vreg = 20
	a.overLanes([]xreg{gated, up}, func() {
		a.each("ldr.q", x, slot{gated, 0})
		if gelu {
			a.each("fmul", n, x, x)
			a.each("ldr.q", z, a.float(geluLinear))
			a.v("ldr.q", constant, a.float(geluCubic))
			a.each("fmla", z, n, constant)
			a.each("fmul", z, z, x)
		} else {
			a.each("fneg", z, x)
		}
		a.exp(z, n, p, q, constant)
		a.v("ldr.q", constant, a.float(1))
		a.each("fadd", z, z, constant)
		a.each("fdiv", x, x, z)
		a.each("ldr.q", n, slot{up, 0})
		a.each("fmul", x, x, n)
		a.each("str.q", x, slot{gated, 0})
	})
	a.end()
}

// quantize rounds activations to int8, each block of 32 by its own scale, which
// is NaN if one of them is. What is one number for a block stands in
// the lowest lane of its register.
func (a neon) quantize() {
	a.begin("quantize", "rounds blocks of 32 floats to int8, and writes the facts about each.",
		"dst []byte", "facts []byte", "src []float32", "blocks int")
	const dst, facts, src, blocks xreg = 0, 1, 2, 3
	a.loads(dst, "dst_base", "facts_base", "src_base", "blocks")
	a.useConstants()
	x, sizes := between(0, 8), between(8, 8)
	const top, scale, inverse, none, greatest, least vreg = 16, 17, 18, 19, 20, 21
	a.v("ldr.q", greatest, a.float(127))
	a.v("ldr.q", least, a.float(1e-30))
	a.times(blocks, func() {
		a.each("ldr.q", x, slot{src, 0})
		a.each("fabs", sizes, x)
		a.pairwise("fmax", sizes)
		a.v("fmaxv", top, sizes[0])
		a.v("fdiv", scale, top, greatest)
		a.v("fdiv", inverse, greatest, top)
		a.v("fcmgt", none, least, top)
		a.v("bic", scale, scale, none)
		a.v("bic", inverse, inverse, none)
		a.v("str.s", scale, slot{facts, factScale})
		a.each("fmul", x, x, lane{inverse, 0})
		a.each("fcvtns", x, x)
		a.blockSums(x, sizes, facts, scale)
		a.storeBytes(x, sizes, dst)
		a.advance(src, 128)
		a.advance(dst, 32)
		a.advance(facts, factBytes)
	})
	a.end()
}

// pairwise combines registers until one is left, the first.
func (a neon) pairwise(op string, rs regs) {
	for n := len(rs) / 2; n > 0; n /= 2 {
		a.each(op, rs[:n], rs[:n], rs[n:2*n])
	}
}

// blockSums writes what follows from the sums of a block's integers. temps are used up.
func (a neon) blockSums(x, temps regs, facts xreg, scale vreg) {
	lo, hi, both, large := temps[0], temps[4], temps[1], temps[2]
	a.each("mov", temps, x)
	a.pairwise("add", temps[:4])
	a.pairwise("add", temps[4:])
	for _, half := range []vreg{lo, hi} {
		a.v("addv", half, half)
		a.v("neg", half, half)
	}
	a.v("add", both, lo, hi)
	for i, half := range []vreg{lo, hi} {
		a.v("shl.4s", half, half, 5)
		a.v("str.s", half, slot{facts, factHalves + 4*i})
	}
	a.v("shl.4s", large, both, 7)
	a.v("str.s", large, slot{facts, factCorrection})
	a.v("neg", both, both)
	a.v("scvtf", both, both)
	a.v("fmul", both, both, scale)
	a.v("str.s", both, slot{facts, factSum})
}

// storeBytes writes 32 integers as bytes. temps are used up.
func (a neon) storeBytes(x, temps regs, dst xreg) {
	for half := range 2 {
		words, out := x[4*half:], temps[2*half:]
		for pair := range 2 {
			a.v("xtn.4h", out[pair], words[2*pair])
			a.v("xtn2.8h", out[pair], words[2*pair+1])
		}
		a.v("xtn.8b", out[0], out[0])
		a.v("xtn2.16b", out[0], out[1])
		a.v("str.q", out[0], slot{dst, 16 * half})
	}
}
