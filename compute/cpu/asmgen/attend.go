package main

// A kvType is how keys and values are stored.
type kvType struct {
	name   string
	bytes  int
	shift  int     // of a count of sixteen elements to make it bytes, as a power of two
	factor float64 // by which scales exceed what widened codes must be multiplied with; 0 without scales
}

// Codes in E4M3 are widened as if they were the bits of a half float, whose
// exponents count from 15 instead of 7.
var (
	kvF32  = kvType{name: "F32", bytes: 4, shift: 6}
	kvBF16 = kvType{name: "BF16", bytes: 2, shift: 5}
	kvInt8 = kvType{name: "Int8", bytes: 1, shift: 4, factor: 1}
	kvFP8  = kvType{name: "FP8", bytes: 1, shift: 4, factor: 1 << (15 - 7)}
)

// opened returns how elements are kept that were widened before they are used.
func (kv kvType) opened() kvType {
	kv.bytes, kv.shift = kvF32.bytes, kvF32.shift
	return kv
}

// widenKV loads sixteen elements as float32.
func (a *assembler) widenKV(m isa, kv kvType, addr string, disp int, dst vec) {
	for p, reg := range dst {
		src := at(addr, disp+p*16/m.parts*kv.bytes)
		switch {
		case kv.bytes == 4:
			a.op("VMOVUPS", src, reg)
		case kv == kvBF16:
			a.widenBF16(src, reg)
		case kv == kvInt8:
			a.op("VPMOVSXBD", src, reg)
			a.op("VCVTDQ2PS", reg, reg)
		case kv == kvFP8:
			a.widenFP8(m, src, reg)
		}
	}
}

// widenFP8 puts the sign of each code at the top of a word, and the other
// bits below the word's next one, which it clears: a half float.
func (a *assembler) widenFP8(m isa, src mem, reg string) {
	and := "VPAND"
	if m.parts == 1 {
		and = "VPANDD"
	}
	word := half(reg)
	a.op("VPMOVSXBW", src, word)
	a.op("VPSLLW", 7, word, word)
	a.op(and, a.bits(0xbfffbfff), word, word)
	a.op("VCVTPH2PS", word, reg)
}

// scales loads the scales of sixteen tokens.
func (a *assembler) scales(m isa, kv kvType, addr string, dst vec) {
	a.widenKV(m, kvBF16, addr, 0, dst)
	if kv.factor != 1 {
		a.each(m, "VMULPS", a.float(kv.factor), dst, dst)
	}
}

// scores writes the products of queries with the sixteen keys of a block.
// Even and odd dimensions are summed apart, so that the chain of additions is
// half as long, and are added in the end.
func (a *assembler) scores(m isa, kv kvType) {
	a.begin("scores"+kv.name+m.suffix,
		"sets dst to 16 dot products for each of n queries. keys is [dim][16], then scales; dim is even.",
		"dst []float32", "q []float32", "keys []byte", "dim int", "n int")
	a.load("dst_base", "DI")
	a.load("keys_base", "DX")
	a.scoreQueries(m, kv, alone)
	a.end()
}

// A neighbour says whether the block that comes next is asked for while the
// current one is computed: its distance in bytes is in R14 then.
type neighbour bool

const alone, followed neighbour = false, true

// ask asks for the lines of the next block that lie where these bytes lie in the current one.
func (a *assembler) ask(next neighbour, base string, disp, bytes int) {
	for line := 0; next == followed && line < bytes; line += 64 {
		a.op("PREFETCHT0", at("("+base+")(R14*1)", disp+line))
	}
}

// scoreQueries writes the scores of n queries, of which it loads all but the
// keys at DX and where the scores go, DI.
func (a *assembler) scoreQueries(m isa, kv kvType, next neighbour) {
	a.load("q_base", "SI")
	a.load("dim", "R8")
	a.op("LEAQ", "(R8*4)", "R9")
	a.op("SHRQ", 1, "R8")
	a.load("n", "AX")
	a.inTiles(m, "AX", func(queries int) { a.scoreTile(m, kv, queries, next) })
}

// queriesAtOnce is for how many queries there are registers.
func (m isa) queriesAtOnce() int { return map[int]int{1: 6, 2: 3}[m.parts] }

// inTiles writes code for any number of queries, which it takes from the
// counter: as many as fit at once, and fewer for the rest, so that what the
// queries share is loaded once for several of them.
func (a *assembler) inTiles(m isa, counter string, body func(queries int)) {
	most := m.queriesAtOnce()
	for queries := most; queries > 0; queries-- {
		if queries == 5 {
			continue // 4 and 1
		}
		loop, done := a.newLabel("tile"), a.newLabel("smaller")
		a.label(loop)
		a.op("CMPQ", counter, queries)
		a.op("JLT", done)
		body(queries)
		a.op("SUBQ", queries, counter)
		if queries == most {
			a.op("JMP", loop)
		}
		a.label(done)
	}
}

func (a *assembler) scoreTile(m isa, kv kvType, n int, next neighbour) {
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
		a.ask(next, "BX", 0, 32*kv.bytes)
		for half, sums := range [][]vec{even, odd} {
			a.widenKV(m, kv, "(BX)", half*16*kv.bytes, key)
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
		a.op("ADDQ", 32*kv.bytes, "BX")
	})
	if kv.factor != 0 {
		a.scales(m, kv, "(BX)", key)
	}
	for i := range even {
		a.each(m, "VADDPS", odd[i], even[i], even[i])
		if kv.factor != 0 {
			a.each(m, "VMULPS", key, even[i], even[i])
		}
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

// weigh turns one block of scores into weights.
func (a *assembler) weigh(m isa, kv kvType) {
	a.begin("weigh"+kv.name+m.suffix,
		"turns the scores from..to of a block into weights of its values as they are stored, the others into "+
			"zeros, and updates all of n queries' softmax states but their values.",
		"states []float32", "scores []float32", "values []byte", "dim int", "n int", "from int", "to int",
		"scale float32")
	a.load("values_base", "DX")
	a.load("from", "R9")
	a.load("to", "R10")
	a.weighQueries(m, kv)
	a.end()
}

// weighQueries turns the scores R9..R10 of n queries into weights of the values
// at DX, and updates all of their states but the values.
func (a *assembler) weighQueries(m isa, kv kvType) {
	a.load("scores_base", "BX")
	a.load("dim", "R8")
	a.op("LEAQ", at("(R8*4)", stateValues), "R11") // bytes of a state
	a.laneMask(m, m.vec(5), m.vec(1))
	a.valueScales(m, kv)
	a.load("states_base", "AX")
	a.load("n", "CX")
	a.times("CX", func() {
		a.weighQuery(m, kv)
		a.op("ADDQ", "R11", "AX")
		a.op("ADDQ", 64, "BX")
	})
}

// addValues adds one block's weighted values to the states of queries.
func (a *assembler) addValues(m isa, kv kvType) {
	a.begin("addValues"+kv.name+m.suffix,
		"multiplies n queries' values with the state's factor, which becomes 1, and adds the weighted values "+
			"from..to of a block; dim is a multiple of 16.",
		"states []float32", "weights []float32", "values []byte", "dim int", "n int", "from int", "to int")
	a.load("weights_base", "SI")
	a.load("values_base", "DX")
	a.load("dim", "R8")
	a.load("from", "R9")
	a.load("to", "R10")
	a.op("SUBQ", "R9", "R10") // tokens
	a.op("LEAQ", "(SI)(R9*4)", "SI")
	a.op("IMULQ", "R8", "R9")
	if kv.bytes > 1 {
		a.op("SHLQ", kv.shift-4, "R9")
	}
	a.op("ADDQ", "R9", "DX")
	a.addToQueries(m, kv, alone)
	a.end()
}

// addToQueries adds the values of R10 tokens, from DX on, to the states of n
// queries, with the weights at SI.
func (a *assembler) addToQueries(m isa, kv kvType, next neighbour) {
	a.load("states_base", "DI")
	a.load("dim", "R8")
	a.op("LEAQ", at("(R8*4)", stateValues), "R11") // bytes of a state
	if kv.bytes > 1 {
		a.op("SHLQ", kv.shift-4, "R8") // bytes of a token's values
	}
	a.load("n", "R12")
	a.inTiles(m, "R12", func(queries int) { a.addValueTile(m, kv, queries, next) })
}

// attendWhole takes blocks that all queries see whole into their states, one
// after the other, as the three kernels above do together. While it computes a
// block it asks for the next one: blocks lie far apart, so the processor does
// not foresee them, and to ask for all of one at once fills its buffers.
//
// With more queries than are computed at once, it widens a block beforehand.
func (a *assembler) attendWhole(m isa, kv kvType) {
	a.begin("attendWhole"+kv.name+m.suffix,
		"takes whole blocks of a head into n queries' softmax states. keys begins with those of the pool's first "+
			"block, blocks lie blockBytes apart, and values follow their keys after valuesAt bytes; dim is a "+
			"multiple of 16. The states' factors are 1 before and after. open is room for 32·dim+32 values.",
		"states []float32", "scores []float32", "q []float32", "keys []byte", "blocks []int32", "blockBytes int",
		"valuesAt int", "dim int", "n int", "scale float32", "open []float32")
	a.load("blocks_base", "R15")
	a.load("blocks_len", "CX")
	loop, direct, done := a.newLabel("block"), a.newLabel("direct"), a.newLabel("all")
	a.label(loop)
	a.op("TESTQ", "CX", "CX")
	a.op("JLE", done)
	a.nextBlock()
	if kv.bytes < 4 {
		a.op("CMPQ", a.arg("n"), m.queriesAtOnce())
		a.op("JLE", direct)
		a.attendOpened(m, kv)
		a.advanceBlock()
		a.op("JMP", loop)
	}
	a.label(direct)
	a.load("scores_base", "DI")
	a.keysOf("DX")
	a.scoreQueries(m, kv, followed)
	a.weighAll(m, kv)
	a.valuesOf("DX")
	a.addAll(m, kv, followed)
	a.advanceBlock()
	a.op("JMP", loop)
	a.label(done)
	a.end()
}

// nextBlock sets R14 to the distance of the next of CX blocks from that at R15,
// or to zero if there is none.
func (a *assembler) nextBlock() {
	last := a.newLabel("last")
	a.op("XORQ", "R14", "R14")
	a.op("CMPQ", "CX", 1)
	a.op("JEQ", last)
	a.op("MOVLQSX", "(R15)", "DX")
	a.op("MOVLQSX", at("(R15)", 4), "R14")
	a.op("SUBQ", "DX", "R14")
	a.op("IMULQ", a.arg("blockBytes"), "R14")
	a.label(last)
}

// advanceBlock moves R15 on and sets CX to how many blocks are left.
func (a *assembler) advanceBlock() {
	a.op("ADDQ", 4, "R15")
	a.load("blocks_base", "CX")
	a.op("SUBQ", "R15", "CX")
	a.op("SARQ", 2, "CX")
	a.op("ADDQ", a.arg("blocks_len"), "CX")
}

// weighAll weighs the block at R15 for all queries.
func (a *assembler) weighAll(m isa, kv kvType) {
	a.valuesOf("DX")
	a.op("XORQ", "R9", "R9")
	a.op("MOVQ", 16, "R10")
	a.weighQueries(m, kv)
}

// addAll adds the values at DX, sixteen tokens, to all queries.
func (a *assembler) addAll(m isa, kv kvType, next neighbour) {
	a.load("scores_base", "SI")
	a.op("MOVQ", 16, "R10")
	a.addToQueries(m, kv, next)
}

// attendOpened widens the block at R15 and takes it into the states of all queries.
func (a *assembler) attendOpened(m isa, kv kvType) {
	a.load("open_base", "DI")
	a.keysOf("SI")
	a.openPart(m, kv)
	a.valuesOf("SI")
	a.openPart(m, kv)
	a.load("scores_base", "DI")
	a.load("open_base", "DX")
	a.scoreQueries(m, kv.opened(), alone)
	a.weighAll(m, kv)
	a.load("dim", "DX")
	a.op("SHLQ", 6, "DX")
	a.op("ADDQ", a.arg("open_base"), "DX")
	a.op("ADDQ", 64, "DX")
	a.addAll(m, kv.opened(), alone)
}

// openPart widens the keys or the values of a block from SI to DI, which it
// moves on. Their scales follow as they are.
func (a *assembler) openPart(m isa, kv kvType) {
	const unrolled = 4
	a.load("dim", "CX")
	a.op("SHRQ", 2, "CX")
	a.times("CX", func() {
		a.ask(followed, "SI", 0, unrolled*16*kv.bytes)
		for i, v := range m.vecs(0, unrolled) {
			a.widenKV(m, kv, "(SI)", i*16*kv.bytes, v)
			a.each(m, "VMOVUPS", v, at("(DI)", i*64))
		}
		a.op("ADDQ", unrolled*16*kv.bytes, "SI")
		a.op("ADDQ", unrolled*64, "DI")
	})
	if kv.factor != 0 {
		a.op("VMOVUPS", "(SI)", "Y0")
		a.op("VMOVUPS", "Y0", "(DI)")
	}
	a.op("ADDQ", 64, "DI")
}

// keysOf sets reg to the address of the keys of the block at R15.
func (a *assembler) keysOf(reg string) {
	a.op("MOVLQSX", "(R15)", reg)
	a.op("IMULQ", a.arg("blockBytes"), reg)
	a.op("ADDQ", a.arg("keys_base"), reg)
}

// valuesOf sets reg to the address of the values of the block at R15.
func (a *assembler) valuesOf(reg string) {
	a.keysOf(reg)
	a.op("ADDQ", a.arg("valuesAt"), reg)
}

// valueScales loads the scales that follow sixteen tokens' values at DX. R13 is used up.
func (a *assembler) valueScales(m isa, kv kvType) {
	if kv.factor == 0 {
		return
	}
	a.op("MOVQ", "R8", "R13")
	a.op("SHLQ", 4, "R13") // with scales, an element is a byte
	a.op("ADDQ", "DX", "R13")
	a.scales(m, kv, "(R13)", m.vec(7))
}

// weighQuery turns the scores at BX into weights of the values as they are stored,
// and updates all of the state at AX but its values.
func (a *assembler) weighQuery(m isa, kv kvType) {
	s, n, p, top, factor := m.vec(0), m.vec(1), m.vec(2), m.vec(3), m.vec(4)
	a.each(m, "VBROADCASTSS", a.arg("scale"), s)
	a.each(m, "VMULPS", at("(BX)", 0), s, s)
	a.newTop(m, s, n, p, top)
	a.newFactor(m, n, p, top, factor)
	a.each(m, "VSUBPS", top, s, s)
	a.expOrZero(m, s, n, p, top, true)
	if kv.factor == 0 {
		a.each(m, "VMOVUPS", s, at("(BX)", 0))
	} else {
		a.each(m, "VMULPS", m.vec(7), s, n)
		a.each(m, "VMOVUPS", n, at("(BX)", 0))
	}
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

// stateAddresses returns the addresses of up to six states, of which the
// first is at base. AX is used up.
func (a *assembler) stateAddresses(base string, queries int) []string {
	all := []string{"(" + base + ")", "(" + base + ")(R11*1)", "(" + base + ")(R11*2)", "(AX)", "(AX)(R11*1)",
		"(AX)(R11*2)"}
	if queries > 3 {
		a.op("LEAQ", "(R11)(R11*2)", "AX")
		a.op("ADDQ", base, "AX")
	}
	return all[:queries]
}

// addValueTile adds the weighted values to the states of some queries, and
// continues with the next ones. It takes as many dimensions at once as there are
// registers for, then 16.
func (a *assembler) addValueTile(m isa, kv kvType, queries int, next neighbour) {
	wide := min(4, (m.regs/m.parts-queries-1)/queries)
	a.op("LEAQ", at("(DI)", stateValues), "BX")
	a.op("MOVQ", "R8", "R9")
	a.op("SHRQ", kv.shift, "R9")
	more, narrow := a.newLabel("more"), a.newLabel("narrow")
	a.label(more)
	a.op("CMPQ", "R9", wide)
	a.op("JLT", narrow)
	a.addValueColumns(m, kv, queries, wide, next)
	a.op("SUBQ", wide, "R9")
	a.op("JMP", more)
	a.label(narrow)
	if wide > 1 {
		a.times("R9", func() { a.addValueColumns(m, kv, queries, 1, next) })
	}
	a.op("SUBQ", "R8", "DX")
	for _, address := range a.stateAddresses("DI", queries) {
		a.op("MOVL", "$0x3f800000", at(address, stateFactor)) // 1
	}
	for range queries {
		a.op("ADDQ", "R11", "DI")
	}
	a.op("ADDQ", 64*queries, "SI")
}

func (a *assembler) addValueColumns(m isa, kv kvType, queries, n int, next neighbour) {
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
		a.ask(next, "AX", 0, 16*kv.bytes*n)
		for i, w := range weights {
			a.op("VBROADCASTSS", at("(CX)", i*64), w)
		}
		for v := range n {
			a.widenKV(m, kv, "(AX)", v*16*kv.bytes, value)
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
	a.op("ADDQ", 16*kv.bytes*n, "DX")
}
