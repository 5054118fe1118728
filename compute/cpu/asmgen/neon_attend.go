package main

// neonQueries is how many queries share what is loaded of a block.
const neonQueries = 3

// inTiles writes code for any number of queries: as many as fit at once, and
// fewer for the rest.
func (a neon) inTiles(n xreg, body func(queries int)) {
	for queries := neonQueries; queries > 0; queries-- {
		loop, done := a.newLabel("tile"), a.newLabel("smaller")
		a.label(loop)
		a.op("CMP", queries, n)
		a.op("BLT", done)
		body(queries)
		a.op("SUB", queries, n, n)
		if queries == neonQueries {
			a.op("JMP", loop)
		}
		a.label(done)
	}
}

// widenKV loads sixteen elements as float32.
func (a neon) widenKV(kv kvType, at slot, dst regs) {
	switch kv {
	case kvF32:
		a.each("ldr.q", dst, at)
	case kvBF16:
		for i := 0; i < 4; i += 2 {
			a.v("ldr.q", dst[i+1], slot{at.base, at.disp + 8*i})
			a.widenBF16(dst[i : i+2])
		}
	case kvInt8:
		a.widenBytes(at, dst)
		for i := 0; i < 4; i += 2 {
			a.v("sxtl.4s", dst[i], dst[i+1])
			a.v("sxtl2.4s", dst[i+1], dst[i+1])
		}
		a.each("scvtf", dst, dst)
	case kvFP8:
		a.widenBytes(at, dst)
		for i := 0; i < 4; i += 2 {
			a.v("shl.8h", dst[i+1], dst[i+1], 7)
			a.v("bic.8h", dst[i+1], 0x40) // as [assembler.widenFP8] does
			a.v("fcvtl", dst[i], dst[i+1])
			a.v("fcvtl2", dst[i+1], dst[i+1])
		}
	}
}

// widenBytes loads sixteen signed bytes as words in the second and fourth register.
func (a neon) widenBytes(at slot, dst regs) {
	a.v("ldr.q", dst[3], at)
	a.v("sxtl.8h", dst[1], dst[3])
	a.v("sxtl2.8h", dst[3], dst[3])
}

// tokenScales loads the scales of sixteen tokens. The constant is used up.
func (a neon) tokenScales(kv kvType, at slot, dst regs, constant vreg) {
	a.widenKV(kvBF16, at, dst)
	if kv.factor != 1 {
		a.v("ldr.q", constant, a.float(kv.factor))
		a.each("fmul", dst, dst, constant)
	}
}

// scores writes the products of queries with the sixteen keys of a block. Even
// and odd dimensions are summed apart, and are added in the end.
func (a neon) scores(kv kvType) {
	a.begin("scores"+kv.name,
		"sets dst to 16 dot products for each of n queries. keys is [dim][16], then scales; dim is even.",
		"dst []float32", "q []float32", "keys []byte", "dim int", "n int")
	const dim, n xreg = 3, 4
	a.loads(0, "dst_base", "q_base", "keys_base", "dim", "n")
	a.useConstants()
	a.inTiles(n, func(queries int) { a.scoreTile(kv, queries) })
	a.end()
}

func (a neon) scoreTile(kv kvType, n int) {
	const dst, q, keys, dim xreg = 0, 1, 2, 3
	const queries, cursor xreg = 5, 5 + neonQueries + 1
	even, odd := values(0, n), values(4*n, n)
	key, query := between(8*n, 4), between(8*n+4, n)
	a.zero(even...)
	a.zero(odd...)
	a.op("MOVD", keys, cursor)
	a.op("MOVD", q, queries)
	for i := range n {
		a.op("ADD", dim.String()+"<<2", queries+xreg(i), queries+xreg(i+1))
	}
	a.op("MOVD", queries+xreg(n), q) // where the next tile's begin
	a.op("LSR", 1, dim, counter)
	a.times(counter, func() {
		for i, r := range query {
			a.v("ldr.d", r, slot{queries + xreg(i), 0})
			a.advance(queries+xreg(i), 8)
		}
		for half, sums := range [][]regs{even, odd} {
			a.widenKV(kv, slot{cursor, half * 16 * kv.bytes}, key)
			for i, sum := range sums {
				a.each("fmla", sum, key, lane{query[i], half})
			}
		}
		a.advance(cursor, 32*kv.bytes)
	})
	if kv.factor != 0 {
		a.tokenScales(kv, slot{cursor, 0}, key, query[0])
	}
	for i := range even {
		a.each("fadd", even[i], even[i], odd[i])
		if kv.factor != 0 {
			a.each("fmul", even[i], even[i], key)
		}
		a.each("str.q", even[i], slot{dst, i * 64})
	}
	a.advance(dst, 64*n)
}

// Where weigh keeps what.
const (
	weighState  xreg = 0
	weighScores xreg = 1
	weighValues xreg = 2
	weighDim    xreg = 3

	weighTop      vreg = 28
	weighFactor   vreg = 29
	weighConstant vreg = 30
	weighScale    vreg = 31
)

// weigh turns one block of scores into weights.
func (a neon) weigh(kv kvType) {
	a.begin("weigh"+kv.name,
		"turns the scores from..to of a block into weights of its values as they are stored, the others into "+
			"zeros, and updates all of n queries' softmax states but their values.",
		"states []float32", "scores []float32", "values []byte", "dim int", "n int", "from int", "to int",
		"scale float32")
	const n, from, to, stateBytes xreg = 4, 5, 6, 7
	a.loads(weighState, "states_base", "scores_base", "values_base", "dim", "n", "from", "to")
	a.useConstants()
	a.spread("scale", weighScale)
	a.laneMask(from, to, value(4))
	if kv.factor != 0 { // an element is a byte then
		a.op("ADD", weighDim.String()+"<<4", weighValues, weighValues)
		a.tokenScales(kv, slot{weighValues, 0}, value(6), weighConstant)
	}
	a.op("LSL", 2, weighDim, stateBytes)
	a.advance(stateBytes, stateValues)
	a.times(n, func() {
		a.weighQuery(kv)
		a.op("ADD", stateBytes, weighState, weighState)
		a.advance(weighScores, 64)
	})
	a.end()
}

// laneMask sets all bits of the lanes from..to, and none of the others.
func (a neon) laneMask(from, to xreg, mask regs) {
	var bits [16]uint32
	for i := range bits {
		bits[i] = 1 << i
	}
	ones := counter
	a.op("MOVD", -1, ones)
	a.op("LSL", to, ones, ones)
	a.op("MVN", ones, ones)
	a.op("LSR", from, ones, ones)
	a.op("LSL", from, ones, ones)
	a.v("dup", weighConstant, ones)
	a.each("ldr.q", mask, slot{constantsAt, a.lanes(bits).disp})
	a.each("cmtst", mask, mask, weighConstant)
}

// weighQuery turns the scores of a query into weights of the values as they
// are stored, and updates all of its state but its values.
func (a neon) weighQuery(kv kvType) {
	s, n, scales := value(0), value(1), value(6)
	a.each("ldr.q", s, slot{weighScores, 0})
	a.each("fmul", s, s, weighScale)
	a.newTop(s, n, value(4))
	a.newFactor()
	a.each("fsub", s, s, weighTop)
	a.expOrZero(s, value(4))
	if kv.factor == 0 {
		a.each("str.q", s, slot{weighScores, 0})
	} else {
		a.each("fmul", n, s, scales)
		a.each("str.q", n, slot{weighScores, 0})
	}
	a.v("str.s", weighFactor, slot{weighState, stateFactor})
	a.each("ldr.q", n, slot{weighState, 0})
	a.each("fmla", s, n, weighFactor)
	a.each("str.q", s, slot{weighState, 0})
}

// newTop sets weighTop to the greatest of the state's top, which it leaves in
// weighConstant, and the marked lanes of s.
func (a neon) newTop(s, n, mask regs) {
	const minusInf = 0xff800000
	a.each("ldr.q", n, slot{constantsAt, a.bits(minusInf).disp})
	a.each("bit", n, s, mask)
	a.pairwise("fmax", n)
	a.v("fmaxv", n[0], n[0])
	a.v("ldr.s", weighConstant, slot{weighState, stateTop})
	a.v("fmax", n[0], n[0], weighConstant)
	a.v("dup", weighTop, lane{n[0], 0})
}

// newFactor sets weighFactor to the exponential of the state's top, which is in
// weighConstant, less the new one, which it stores. Mostly they are equal, and
// the exponential of zero is one.
func (a neon) newFactor() {
	same := a.newLabel("same")
	a.v("ldr.q", weighFactor, a.float(1))
	a.op("FCMPS", weighTop.scalar(), weighConstant.scalar())
	a.op("BEQ", same)
	a.v("fsub", weighFactor, weighConstant, weighTop)
	a.v("str.s", weighTop, slot{weighState, stateTop})
	a.expOf(regs{weighFactor}, value(1)[:1], value(2)[:1], value(3)[:1], value(5)[:1], nil)
	a.v("dup", weighFactor, lane{weighFactor, 0})
	a.label(same)
}

// expOrZero is exp of a value, with zero for arguments below its range and for
// lanes that are not marked.
func (a neon) expOrZero(x, mask regs) { a.expOf(x, value(1), value(2), value(3), value(5), mask) }

// expOf is expOrZero with the registers that it uses up. There may be no mask.
func (a neon) expOf(x, n, p, q, keep, mask regs) {
	a.v("ldr.q", weighConstant, a.float(expMin))
	a.each("fcmge", keep, x, weighConstant)
	if mask != nil {
		a.each("and", keep, keep, mask)
	}
	a.exp(x, n, p, q, weighConstant)
	a.each("and", x, x, keep)
}

// Where addValues keeps what.
const (
	addStates     xreg = 0
	addWeights    xreg = 1
	addFrom       xreg = 2 // the values of the first token, from the current dimension on
	addDim        xreg = 3
	addTokens     xreg = 4
	addTokenBytes xreg = 5
	addStateBytes xreg = 6
	addQueries    xreg = 7
	addValue      xreg = 8
	addWeight     xreg = 9
	addGroups     xreg = 10
	addSums       xreg = 11 // and the following: each query's sums
	addFactors    xreg = 22 // and the following: each query's state
)

// addValues adds one block's weighted values to the states of queries.
func (a neon) addValues(kv kvType) {
	a.begin("addValues"+kv.name,
		"multiplies n queries' values with the state's factor, which becomes 1, and adds the weighted values "+
			"from..to of a block; dim is a multiple of 16.",
		"states []float32", "weights []float32", "values []byte", "dim int", "n int", "from int", "to int")
	const from = inner
	a.loads(addStates, "states_base", "weights_base", "values_base", "dim")
	a.load("from", from)
	a.load("to", addTokens)
	a.load("n", addQueries)
	a.op("SUB", from, addTokens, addTokens)
	a.op("LSL", kv.shift-4, addDim, addTokenBytes)
	a.op("LSL", 2, addDim, addStateBytes)
	a.advance(addStateBytes, stateValues)
	a.op("ADD", from.String()+"<<2", addWeights, addWeights)
	a.op("MUL", addTokenBytes, from, from)
	a.op("ADD", from, addFrom, addFrom)
	a.inTiles(addQueries, func(queries int) { a.addValueTile(kv, queries) })
	a.end()
}

// addValueTile adds the weighted values to the states of some queries, and
// continues with the next ones. It takes as many dimensions at once as there are
// registers for, then 16.
func (a neon) addValueTile(kv kvType, queries int) {
	wide := min(4, (32-4-queries)/(4*queries))
	a.op("MOVD", addStates, addFactors)
	for i := range xreg(queries) {
		if i > 0 {
			a.op("ADD", addStateBytes, addFactors+i-1, addFactors+i)
		}
		a.op("ADD", stateValues, addFactors+i, addSums+i)
	}
	a.op("LSR", 4, addDim, addGroups)
	more, narrow := a.newLabel("more"), a.newLabel("narrow")
	a.label(more)
	a.op("CMP", wide, addGroups)
	a.op("BLT", narrow)
	a.addValueColumns(kv, queries, wide)
	a.op("SUB", wide, addGroups, addGroups)
	a.op("JMP", more)
	a.label(narrow)
	a.times(addGroups, func() { a.addValueColumns(kv, queries, 1) })
	a.op("SUB", addTokenBytes, addFrom, addFrom)
	const one = inner
	a.op("MOVD", "$0x3f800000", one)
	for i := range xreg(queries) {
		a.op("MOVW", one, at("("+(addFactors+i).String()+")", stateFactor))
	}
	a.op("ADD", addStateBytes, addFactors+xreg(queries-1), addStates)
	a.advance(addWeights, 64*queries)
}

func (a neon) addValueColumns(kv kvType, queries, n int) {
	sums := make([][]regs, queries)
	for i := range sums {
		sums[i] = values(i*n*4, n)
	}
	weights, loaded := between(queries*n*4, queries), between(queries*n*4+queries, 4)
	for i, factor := range weights {
		a.v("ldr.s", factor, slot{addFactors + xreg(i), stateFactor})
		for v, sum := range sums[i] {
			a.each("ldr.q", sum, slot{addSums + xreg(i), v * 64})
			a.each("fmul", sum, sum, lane{factor, 0})
		}
	}
	a.op("MOVD", addWeights, addWeight)
	a.op("MOVD", addFrom, addValue)
	a.op("MOVD", addTokens, counter)
	a.times(counter, func() {
		for i, w := range weights {
			a.v("ldr.s", w, slot{addWeight, i * 64})
		}
		for v := range n {
			a.widenKV(kv, slot{addValue, v * 16 * kv.bytes}, loaded)
			for i, w := range weights {
				a.each("fmla", sums[i][v], loaded, lane{w, 0})
			}
		}
		a.advance(addWeight, 4)
		a.op("ADD", addTokenBytes, addValue, addValue)
	})
	for i := range sums {
		for v, sum := range sums[i] {
			a.each("str.q", sum, slot{addSums + xreg(i), v * 64})
		}
		a.advance(addSums+xreg(i), 64*n)
	}
	a.advance(addFrom, 16*kv.bytes*n)
}
