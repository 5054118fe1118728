package main

// Where the facts about a block of quantized activations lie: its scale, what
// weights stored with 128 added give too much, the scaled sum, and what
// weights stored with 32 added give too much in each half of the block.
const (
	factScale      = 0
	factCorrection = 4
	factSum        = 8
	factHalves     = 12
	factBytes      = 20
)

// quantize rounds activations to int8, each block of 32 by its own scale. The
// greatest magnitude is that of the bits: a NaN is then above all numbers, and
// becomes the scale.
func (a *assembler) quantize(m isa) {
	const notLess = 5
	a.begin("quantize"+m.suffix, "rounds blocks of 32 floats to int8, and writes the facts about each.",
		"dst []byte", "facts []byte", "src []float32", "blocks int")
	a.load("dst_base", "DI")
	a.load("facts_base", "DX")
	a.load("src_base", "SI")
	a.load("blocks", "CX")
	lo, hi, top, temp, scale, inverse := m.vec(0), m.vec(1), m.vec(2), m.vec(3), m.vec(4), m.vec(5)
	x, s, inv, mask := xmm(top[0]), xmm(scale[0]), xmm(inverse[0]), xmm(temp[0])
	a.times("CX", func() {
		a.each(m, "VMOVUPS", at("(SI)", 0), lo)
		a.each(m, "VMOVUPS", at("(SI)", 64), hi)
		a.and(m, a.bits(0x7fffffff), lo, top)
		a.and(m, a.bits(0x7fffffff), hi, temp)
		a.each(m, "VPMAXSD", temp, top, top)
		a.fold(m, "VPMAXSD", top, temp[0])
		a.op("VDIVPS", a.float(127), x, s)
		a.op("VMOVUPS", a.float(127), inv)
		a.op("VDIVPS", x, inv, inv)
		a.op("VCMPPS", notLess, a.float(1e-30), x, mask)
		a.op("VANDPS", mask, s, s)
		a.op("VANDPS", mask, inv, inv)
		a.op("VMOVSS", s, at("(DX)", factScale))
		a.spread(m, inv, inverse)
		for _, v := range []vec{lo, hi} {
			a.each(m, "VMULPS", inverse, v, v)
			a.each(m, "VCVTPS2DQ", v, v)
		}
		a.blockSums(m, lo, hi, top, temp, scale, inverse)
		a.storeBytes(m, lo, hi)
		a.op("ADDQ", 128, "SI")
		a.op("ADDQ", 32, "DI")
		a.op("ADDQ", factBytes, "DX")
	})
	a.end()
}

// blockSums writes what follows from the sums of the integers in lo and hi.
func (a *assembler) blockSums(m isa, lo, hi, first, second, scale, temp vec) {
	x, y, s, t := xmm(first[0]), xmm(second[0]), xmm(scale[0]), xmm(temp[0])
	a.each(m, "VMOVUPS", lo, first)
	a.fold(m, "VPADDD", first, temp[0])
	a.each(m, "VMOVUPS", hi, second)
	a.fold(m, "VPADDD", second, temp[0])
	a.op("VPXOR", t, t, t)
	a.op("VPSUBD", x, t, x)
	a.op("VPSUBD", y, t, y)
	a.op("VPADDD", x, y, t)
	a.op("VPSLLD", 5, x, x)
	a.op("VPSLLD", 5, y, y)
	a.op("VMOVD", x, at("(DX)", factHalves))
	a.op("VMOVD", y, at("(DX)", factHalves+4))
	a.op("VPSLLD", 7, t, x)
	a.op("VMOVD", x, at("(DX)", factCorrection))
	a.op("VPXOR", y, y, y)
	a.op("VPSUBD", t, y, t)
	a.op("VCVTDQ2PS", t, t)
	a.op("VMULPS", t, s, t)
	a.op("VMOVSS", t, at("(DX)", factSum))
}

// storeBytes writes 32 integers as bytes at DI.
func (a *assembler) storeBytes(m isa, lo, hi vec) {
	if m.parts == 1 {
		a.op("VPMOVDB", lo[0], at("(DI)", 0))
		a.op("VPMOVDB", hi[0], at("(DI)", 16))
		return
	}
	a.op("VPACKSSDW", lo[1], lo[0], lo[0])
	a.op("VPACKSSDW", hi[1], hi[0], hi[0])
	a.op("VPACKSSWB", hi[0], lo[0], lo[0])
	a.op("VMOVDQU", a.lanes([16]uint32{0, 4, 1, 5, 2, 6, 3, 7}), hi[0])
	a.op("VPERMD", lo[0], hi[0], lo[0])
	a.op("VMOVDQU", lo[0], at("(DI)", 0))
}
