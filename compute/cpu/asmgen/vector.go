package main

// fold combines sixteen lanes to one with op, which leaves it in every lane of
// the first register's 128 bits. It first adds halves, then quarters, and so
// on: one order for both instruction sets. temp is used up.
func (a *assembler) fold(m isa, op string, v vec, temp string) {
	y, x, tx := v[0], xmm(v[0]), xmm(temp)
	if m.parts == 1 {
		y = half(v[0])
		a.op("VEXTRACTF64X4", 1, v[0], half(temp))
		a.op(op, half(temp), y, y)
	} else {
		a.op(op, v[1], v[0], v[0])
	}
	a.op("VEXTRACTF128", 1, y, tx)
	a.op(op, tx, x, x)
	a.op("VPSHUFD", 0x4e, x, tx)
	a.op(op, tx, x, x)
	a.op("VPSHUFD", 0xb1, x, tx)
	a.op(op, tx, x, x)
}

// spread copies the lowest lane of a 128-bit register to sixteen lanes.
func (a *assembler) spread(m isa, x string, dst vec) {
	for i := len(dst) - 1; i >= 0; i-- {
		a.op("VBROADCASTSS", x, dst[i])
	}
}

// and is the bitwise and of floats.
func (a *assembler) and(m isa, b any, src, dst vec) {
	op := "VPAND"
	if m.parts == 1 {
		op = "VPANDD"
	}
	a.each(m, op, b, src, dst)
}

// overLanes writes a loop over n/16 groups of sixteen lanes; the pointers move on.
func (a *assembler) overLanes(pointers []string, body func()) {
	a.load("n", "CX")
	a.op("SHRQ", 4, "CX")
	a.times("CX", func() {
		body()
		for _, p := range pointers {
			a.op("ADDQ", 64, p)
		}
	})
}

func (a *assembler) sumSquares(m isa) {
	a.begin("sumSquares"+m.suffix,
		"sets the 16 lanes to the sums of squares of every 16th of n values; n is a multiple of 16.",
		"lanes []float32", "x []float32", "n int")
	a.load("lanes_base", "DI")
	a.load("x_base", "SI")
	sum, x := m.vec(0), m.vec(1)
	a.zero(m, sum)
	a.overLanes([]string{"SI"}, func() {
		a.each(m, "VMOVUPS", at("(SI)", 0), x)
		a.each(m, "VFMADD231PS", x, x, sum)
	})
	a.each(m, "VMOVUPS", sum, at("(DI)", 0))
	a.end()
}

func (a *assembler) scaleNorm(m isa) {
	a.begin("scaleNorm"+m.suffix, "sets dst to src·scale·(w+offset); n is a multiple of 16.",
		"dst []float32", "src []float32", "w []float32", "n int", "scale float32", "offset float32")
	a.load("dst_base", "DI")
	a.load("src_base", "SI")
	a.load("w_base", "DX")
	scale, offset, x, w := m.vec(0), m.vec(1), m.vec(2), m.vec(3)
	a.each(m, "VBROADCASTSS", a.arg("scale"), scale)
	a.each(m, "VBROADCASTSS", a.arg("offset"), offset)
	a.overLanes([]string{"DI", "SI", "DX"}, func() {
		a.each(m, "VMULPS", at("(SI)", 0), scale, x)
		a.each(m, "VADDPS", at("(DX)", 0), offset, w)
		a.each(m, "VMULPS", x, w, x)
		a.each(m, "VMOVUPS", x, at("(DI)", 0))
	})
	a.end()
}

func (a *assembler) addTo(m isa) {
	a.begin("addTo"+m.suffix, "adds src to dst; n is a multiple of 16.",
		"dst []float32", "src []float32", "n int")
	a.load("dst_base", "DI")
	a.load("src_base", "SI")
	x := m.vec(0)
	a.overLanes([]string{"DI", "SI"}, func() {
		a.each(m, "VMOVUPS", at("(SI)", 0), x)
		a.each(m, "VADDPS", at("(DI)", 0), x, x)
		a.each(m, "VMOVUPS", x, at("(DI)", 0))
	})
	a.end()
}

func (a *assembler) addScaled(m isa) {
	a.begin("addScaled"+m.suffix, "adds scale·src to dst; n is a multiple of 16.",
		"dst []float32", "src []float32", "n int", "scale float32")
	a.load("dst_base", "DI")
	a.load("src_base", "SI")
	scale, sum := m.vec(0), m.vec(1)
	a.each(m, "VBROADCASTSS", a.arg("scale"), scale)
	a.overLanes([]string{"DI", "SI"}, func() {
		a.each(m, "VMOVUPS", at("(DI)", 0), sum)
		a.each(m, "VFMADD231PS", at("(SI)", 0), scale, sum)
		a.each(m, "VMOVUPS", sum, at("(DI)", 0))
	})
	a.end()
}

func (a *assembler) scaleTo(m isa) {
	a.begin("scaleTo"+m.suffix, "sets dst to scale·src; n is a multiple of 16.",
		"dst []float32", "src []float32", "n int", "scale float32")
	a.load("dst_base", "DI")
	a.load("src_base", "SI")
	scale, x := m.vec(0), m.vec(1)
	a.each(m, "VBROADCASTSS", a.arg("scale"), scale)
	a.overLanes([]string{"DI", "SI"}, func() {
		a.each(m, "VMULPS", at("(SI)", 0), scale, x)
		a.each(m, "VMOVUPS", x, at("(DI)", 0))
	})
	a.end()
}

func (a *assembler) blend(m isa) {
	a.begin("blend"+m.suffix, "sets dst to keep·dst + add·src; n is a multiple of 16.",
		"dst []float32", "src []float32", "n int", "keep float32", "add float32")
	a.load("dst_base", "DI")
	a.load("src_base", "SI")
	keep, add, x := m.vec(0), m.vec(1), m.vec(2)
	a.each(m, "VBROADCASTSS", a.arg("keep"), keep)
	a.each(m, "VBROADCASTSS", a.arg("add"), add)
	a.overLanes([]string{"DI", "SI"}, func() {
		a.each(m, "VMULPS", at("(DI)", 0), keep, x)
		a.each(m, "VFMADD231PS", at("(SI)", 0), add, x)
		a.each(m, "VMOVUPS", x, at("(DI)", 0))
	})
	a.end()
}

// rotate turns pairs that lie half a head apart.
func (a *assembler) rotate(m isa) {
	a.begin("rotate"+m.suffix, "turns the pairs of lo and hi by the angles of cos and sin; n is a multiple of 16.",
		"lo []float32", "hi []float32", "cos []float32", "sin []float32", "n int")
	a.load("lo_base", "DI")
	a.load("hi_base", "SI")
	a.load("cos_base", "DX")
	a.load("sin_base", "BX")
	lo, hi, cos, sin, x := m.vec(0), m.vec(1), m.vec(2), m.vec(3), m.vec(4)
	a.overLanes([]string{"DI", "SI", "DX", "BX"}, func() {
		a.each(m, "VMOVUPS", at("(DI)", 0), lo)
		a.each(m, "VMOVUPS", at("(SI)", 0), hi)
		a.each(m, "VMOVUPS", at("(DX)", 0), cos)
		a.each(m, "VMOVUPS", at("(BX)", 0), sin)
		a.each(m, "VMULPS", hi, sin, x)
		a.each(m, "VFMSUB231PS", lo, cos, x)
		a.each(m, "VMULPS", lo, sin, lo)
		a.each(m, "VFMADD231PS", hi, cos, lo)
		a.each(m, "VMOVUPS", x, at("(DI)", 0))
		a.each(m, "VMOVUPS", lo, at("(SI)", 0))
	})
	a.end()
}

// rotatePairs turns pairs that lie side by side. Each lane is multiplied with
// its pair's cosine; its neighbour, multiplied with the sine, is subtracted in
// even lanes and added in odd ones.
func (a *assembler) rotatePairs(m isa) {
	a.begin("rotatePairs"+m.suffix,
		"turns the pairs of neighbours in x by the angles of cos and sin; n values of x, a multiple of 16.",
		"x []float32", "cos []float32", "sin []float32", "n int")
	a.load("x_base", "DI")
	a.load("cos_base", "DX")
	a.load("sin_base", "BX")
	x, swapped, cos, sin := m.vec(0), m.vec(1), m.vec(2), m.vec(3)
	a.overLanes([]string{"DI"}, func() {
		a.each(m, "VMOVUPS", at("(DI)", 0), x)
		for p := range m.parts {
			a.op("VPMOVZXDQ", at("(DX)", p*16), cos[p])
			a.op("VPMOVZXDQ", at("(BX)", p*16), sin[p])
		}
		a.each(m, "VMOVSLDUP", cos, cos)
		a.each(m, "VMOVSLDUP", sin, sin)
		a.each(m, "VPERMILPS", 0xb1, x, swapped)
		a.each(m, "VMULPS", sin, swapped, swapped)
		a.each(m, "VFMADDSUB213PS", swapped, cos, x)
		a.each(m, "VMOVUPS", x, at("(DI)", 0))
		a.op("ADDQ", 32, "DX")
		a.op("ADDQ", 32, "BX")
	})
	a.end()
}

// The range in which exp is computed; below it the result is taken as zero.
const expMin, expMax = -87, 88

// exp replaces x by its exponential: 2ⁿ·e^r with r = x - n·ln 2, and a
// polynomial for e^r. Adding 1.5·2²³ rounds to the integer n and leaves it in
// the low bits, from where a shift puts it into the exponent.
func (a *assembler) exp(m isa, x, n, p vec) {
	const round = 12582912
	a.each(m, "VMAXPS", a.float(expMin), x, x)
	a.each(m, "VMINPS", a.float(expMax), x, x)
	a.each(m, "VMOVUPS", a.float(1.4426950408889634), n)
	a.each(m, "VFMADD213PS", a.float(round), x, n)
	a.each(m, "VSUBPS", a.float(round), n, p)
	a.each(m, "VFNMADD231PS", a.float(0.693359375), p, x)
	a.each(m, "VFNMADD231PS", a.float(-2.12194440e-4), p, x)
	a.each(m, "VMOVUPS", a.float(1.9875691500e-4), p)
	for _, c := range []float64{1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1, 1,
		1} {
		a.each(m, "VFMADD213PS", a.float(c), x, p)
	}
	a.each(m, "VPSLLD", 23, n, n)
	a.each(m, "VPADDD", n, p, x)
}

// gate is x·sigmoid(z)·up, where z is x for SiLU, and for the tanh form of
// GELU twice the argument of tanh: (1+tanh u)/2 is sigmoid(2u).
func (a *assembler) gate(m isa, name string, gelu bool) {
	a.begin(name+m.suffix, "replaces gate by the activation of gate times up; n is a multiple of 16.",
		"gate []float32", "up []float32", "n int")
	a.load("gate_base", "DI")
	a.load("up_base", "SI")
	x, z, n, p := m.vec(0), m.vec(1), m.vec(2), m.vec(3)
	a.overLanes([]string{"DI", "SI"}, func() {
		a.each(m, "VMOVUPS", at("(DI)", 0), x)
		if gelu {
			a.each(m, "VMULPS", x, x, z)
			a.each(m, "VMOVUPS", a.float(geluCubic), n)
			a.each(m, "VFMADD213PS", a.float(geluLinear), n, z)
			a.each(m, "VMULPS", x, z, z)
		} else {
			a.zero(m, z)
			a.each(m, "VSUBPS", x, z, z)
		}
		a.exp(m, z, n, p)
		a.each(m, "VADDPS", a.float(1), z, z)
		a.each(m, "VDIVPS", z, x, x)
		a.each(m, "VMULPS", at("(SI)", 0), x, x)
		a.each(m, "VMOVUPS", x, at("(DI)", 0))
	})
	a.end()
}

// The tanh form of GELU: -2u = x·(geluLinear + geluCubic·x²).
const (
	geluLinear = -1.5957691216057308
	geluCubic  = geluLinear * 0.044715
)
