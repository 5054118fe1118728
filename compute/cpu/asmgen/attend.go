package main

// scores writes the products of queries with the sixteen keys of a block.
// Even and odd dimensions are summed apart, so that the chain of additions is
// half as long, and are added in the end.
func (a *assembler) scores(m isa) {
	a.begin("scores"+m.suffix, "sets dst to 16 dot products for each of n queries. keys is [dim][16]; dim is even.",
		"dst []float32", "q []float32", "keys []float32", "dim int", "n int")
	a.load("dst_base", "DI")
	a.load("q_base", "SI")
	a.load("keys_base", "DX")
	a.load("dim", "R8")
	a.op("LEAQ", "(R8*4)", "R9")
	a.op("SHRQ", 1, "R8")
	a.load("n", "AX")
	tile := map[int]int{1: 4, 2: 2}[m.parts]
	tiles, singles := a.newLabel("tiles"), a.newLabel("singles")
	a.label(tiles)
	a.op("CMPQ", "AX", tile)
	a.op("JLT", singles)
	a.scoreTile(m, tile)
	a.op("SUBQ", tile, "AX")
	a.op("JMP", tiles)
	a.label(singles)
	a.times("AX", func() { a.scoreTile(m, 1) })
	a.end()
}

func (a *assembler) scoreTile(m isa, n int) {
	even, odd := m.vecs(0, n), m.vecs(n, n)
	key := m.vec(2 * n)
	query := m.vec(2*n + 1)[0]
	a.zero(m, even...)
	a.zero(m, odd...)
	a.op("MOVQ", "DX", "BX")
	a.op("MOVQ", "R8", "CX")
	a.op("LEAQ", "(R9)(R9*2)", "R10")
	a.op("ADDQ", "SI", "R10")
	a.times("CX", func() {
		for half, sums := range [][]vec{even, odd} {
			a.each(m, "VMOVUPS", at("(BX)", half*64), key)
			for i, sum := range sums {
				if m.parts == 1 {
					a.op("VFMADD231PS.BCST", at(rowAddress(i), half*4), key[0], sum[0])
					continue
				}
				a.op("VBROADCASTSS", at(rowAddress(i), half*4), query)
				a.each(m, "VFMADD231PS", key, query, sum)
			}
		}
		a.op("ADDQ", 8, "SI")
		a.op("ADDQ", 8, "R10")
		a.op("ADDQ", 128, "BX")
	})
	for i := range even {
		a.each(m, "VADDPS", odd[i], even[i], even[i])
		a.each(m, "VMOVUPS", even[i], at("(DI)", i*64))
	}
	a.op("ADDQ", 64*n, "DI")
	for range n - 1 {
		a.op("ADDQ", "R9", "SI")
	}
}

// Where a query's softmax state keeps what: sixteen partial sums of weights,
// the greatest score so far, the factor by which the latter's last change
// scales what was summed before it, and the weighted sum of values.
const (
	stateTop    = 64
	stateFactor = 68
	stateValues = 128
)

// absorb takes one block of scores and values into the states of queries.
func (a *assembler) absorb(m isa) {
	a.begin("absorb"+m.suffix, "adds the tokens from..to of a block to n queries' softmax states. scores are used up; dim is a multiple of 16.",
		"states []float32", "scores []float32", "values []float32", "dim int", "n int", "from int", "to int", "scale float32")
	a.load("states_base", "DI")
	a.load("scores_base", "SI")
	a.load("values_base", "DX")
	a.load("dim", "R8")
	a.op("SHLQ", 2, "R8") // bytes of a token's values
	a.load("from", "R9")
	a.load("to", "R10")
	a.op("LEAQ", at("(R8)", stateValues), "R11") // bytes of a state
	a.laneMask(m, m.vec(5), m.vec(1))
	a.op("MOVQ", "DI", "AX")
	a.op("MOVQ", "SI", "BX")
	a.load("n", "CX")
	a.times("CX", func() {
		a.weigh(m)
		a.op("ADDQ", "R11", "AX")
		a.op("ADDQ", 64, "BX")
	})
	a.op("SUBQ", "R9", "R10") // tokens
	a.op("LEAQ", "(SI)(R9*4)", "SI")
	a.op("IMULQ", "R8", "R9")
	a.op("ADDQ", "R9", "DX")
	a.load("n", "R12")
	tile, wide := 4, 4
	if m.parts == 2 {
		tile, wide = 2, 2
	}
	tiles, singles := a.newLabel("tiles"), a.newLabel("singles")
	a.label(tiles)
	a.op("CMPQ", "R12", tile)
	a.op("JLT", singles)
	a.addValues(m, tile, wide)
	a.op("SUBQ", tile, "R12")
	a.op("JMP", tiles)
	a.label(singles)
	a.times("R12", func() { a.addValues(m, 1, 4) })
	a.end()
}

// weigh turns the scores at BX into weights, and updates all of the state at AX but its values.
func (a *assembler) weigh(m isa) {
	s, n, p, top, factor := m.vec(0), m.vec(1), m.vec(2), m.vec(3), m.vec(4)
	a.each(m, "VBROADCASTSS", a.arg("scale"), s)
	a.each(m, "VMULPS", at("(BX)", 0), s, s)
	a.newTop(m, s, n, p, top)
	a.newFactor(m, n, p, top, factor)
	a.each(m, "VSUBPS", top, s, s)
	a.expOrZero(m, s, n, p, top, true)
	a.each(m, "VMOVUPS", s, at("(BX)", 0))
	a.op("VMOVSS", xmm(factor[0]), at("(AX)", stateFactor))
	a.each(m, "VFMADD231PS", at("(AX)", 0), factor, s)
	a.each(m, "VMOVUPS", s, at("(AX)", 0))
}

// newFactor sets factor to the exponential of the state's top less the new
// one, which it stores. Mostly they are equal, and the exponential of zero is one.
func (a *assembler) newFactor(m isa, n, p, top, factor vec) {
	same := a.newLabel("same")
	a.each(m, "VMOVUPS", a.float(1), factor)
	a.op("VUCOMISS", at("(AX)", stateTop), xmm(top[0]))
	a.op("JEQ", same)
	a.each(m, "VBROADCASTSS", at("(AX)", stateTop).String(), factor)
	a.each(m, "VSUBPS", top, factor, factor)
	a.op("VMOVSS", xmm(top[0]), at("(AX)", stateTop))
	a.expOrZero(m, factor, n, p, m.vec(6), false)
	a.label(same)
}

// laneMask marks the lanes from..to: in K1, or in the bits of a value. It
// leaves -Inf in the other lanes of neither: newTop does.
func (a *assembler) laneMask(m isa, mask, temp vec) {
	a.op("MOVQ", -1, "AX")
	a.op("MOVQ", "R10", "CX")
	a.op("SHLQ", "CX", "AX")
	a.op("NOTQ", "AX")
	a.op("MOVQ", "R9", "CX")
	a.op("SHRQ", "CX", "AX")
	a.op("SHLQ", "CX", "AX")
	if m.parts == 1 {
		a.op("KMOVW", "AX", "K1")
		return
	}
	var bits [16]uint32
	for i := range bits {
		bits[i] = 1 << i
	}
	a.op("VMOVD", "AX", xmm(temp[0]))
	a.op("VPBROADCASTD", xmm(temp[0]), temp[0])
	for p := range mask {
		bit := a.lanes(bits).plus(p * 32)
		a.op("VPAND", bit, temp[0], mask[p])
		a.op("VPCMPEQD", bit, mask[p], mask[p])
	}
}

// newTop sets top to the greatest of the state's top and the marked lanes of s.
func (a *assembler) newTop(m isa, s, n, p, top vec) {
	const minusInf = 0xff800000
	a.each(m, "VMOVUPS", a.bits(minusInf), n)
	if m.parts == 1 {
		a.op("VMOVUPS", s[0], "K1", n[0])
	} else {
		for i := range n {
			a.op("VBLENDVPS", m.vec(5)[i], s[i], n[i], n[i])
		}
	}
	a.fold(m, "VMAXPS", n, p[0])
	a.op("VMAXSS", at("(AX)", stateTop), xmm(n[0]), xmm(n[0]))
	a.spread(m, xmm(n[0]), top)
}

// expOrZero is exp, with zero for arguments below its range and, if masked,
// for the lanes that are not marked. keep is used up.
func (a *assembler) expOrZero(m isa, x, n, p, keep vec, masked bool) {
	const greaterOrEqual = 13
	if m.parts == 1 {
		if masked {
			a.op("VCMPPS", greaterOrEqual, a.float(expMin), x[0], "K1", "K2")
		} else {
			a.op("VCMPPS", greaterOrEqual, a.float(expMin), x[0], "K2")
		}
		a.exp(m, x, n, p)
		a.op("VMOVUPS.Z", x[0], "K2", x[0])
		return
	}
	a.each(m, "VCMPPS", greaterOrEqual, a.float(expMin), x, keep)
	if masked {
		a.and(m, m.vec(5), keep, keep)
	}
	a.exp(m, x, n, p)
	a.and(m, keep, x, x)
}

// stateAddresses returns the addresses of up to four states, of which the
// first is at base. AX is used up.
func (a *assembler) stateAddresses(base string, queries int) []string {
	all := []string{"(" + base + ")", "(" + base + ")(R11*1)", "(" + base + ")(R11*2)", "(AX)"}
	if queries == 4 {
		a.op("LEAQ", "(R11)(R11*2)", "AX")
		a.op("ADDQ", base, "AX")
	}
	return all[:queries]
}

// addValues adds the weighted values to the states of some queries, and goes
// on to the next ones. It takes wide times 16 dimensions at once, then 16.
func (a *assembler) addValues(m isa, queries, wide int) {
	a.op("LEAQ", at("(DI)", stateValues), "BX")
	a.op("MOVQ", "R8", "R9")
	a.op("SHRQ", 6, "R9")
	more, narrow := a.newLabel("more"), a.newLabel("narrow")
	a.label(more)
	a.op("CMPQ", "R9", wide)
	a.op("JLT", narrow)
	a.addValueColumns(m, queries, wide)
	a.op("SUBQ", wide, "R9")
	a.op("JMP", more)
	a.label(narrow)
	a.times("R9", func() { a.addValueColumns(m, queries, 1) })
	a.op("SUBQ", "R8", "DX")
	for range queries {
		a.op("ADDQ", "R11", "DI")
	}
	a.op("ADDQ", 64*queries, "SI")
}

func (a *assembler) addValueColumns(m isa, queries, n int) {
	sums := make([][]vec, queries)
	weights := make([]string, queries)
	for i := range queries {
		sums[i] = m.vecs(i*n, n)
		weights[i] = m.vec(queries*n + i)[0]
	}
	value := m.vec(queries*n + queries)
	for i, address := range a.stateAddresses("DI", queries) {
		a.op("VBROADCASTSS", at(address, stateFactor), weights[i])
	}
	addresses := a.stateAddresses("BX", queries)
	for i, address := range addresses {
		for v, sum := range sums[i] {
			a.each(m, "VMULPS", at(address, v*64), weights[i], sum)
		}
	}
	a.op("MOVQ", "SI", "CX")
	a.op("MOVQ", "DX", "AX")
	a.op("MOVQ", "R10", "R13")
	a.times("R13", func() {
		for i, w := range weights {
			a.op("VBROADCASTSS", at("(CX)", i*64), w)
		}
		for v := range n {
			a.each(m, "VMOVUPS", at("(AX)", v*64), value)
			for i, w := range weights {
				a.each(m, "VFMADD231PS", value, w, sums[i][v])
			}
		}
		a.op("ADDQ", 4, "CX")
		a.op("ADDQ", "R8", "AX")
	})
	for i, address := range a.stateAddresses("BX", queries) {
		for v, sum := range sums[i] {
			a.each(m, "VMOVUPS", sum, at(address, v*64))
		}
	}
	a.op("ADDQ", 64*n, "BX")
	a.op("ADDQ", 64*n, "DX")
}
