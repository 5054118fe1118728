package main

// A packedTile is how the registers are used for a number of quantized rows.
type packedTile struct {
	rows    int
	outputs int // of a pass over the panel, whose sums are kept
	chunk   int // of the outputs whose integers are summed together
}

// packedTiles has one pass for the few rows that wait for the panel to come
// from memory. With more rows it comes from the cache, and each vector of
// weights serves them all.
var packedTiles = []packedTile{{1, 32, 32}, {2, 32, 16}, {3, 16, 16}, {4, 16, 8}}

func (a neon) gemmPacked(q packing) {
	a.begin("gemm"+q.name, gemmPackedDoc, gemmPackedParams...)
	a.byRows(len(packedTiles), func(rows int) {
		t := packedTiles[rows-1]
		for first := 0; first < panelOutputs; first += t.outputs {
			a.packedOutputs(q, t, first)
		}
	})
}

// A packedPass is what the kernel for a packing keeps in registers.
type packedPass struct {
	packing
	first int    // output
	sums  []regs // of each row
	ints  []regs // of each row, for a chunk of outputs
	acts  regs   // sixteen columns of each row, or the facts about it
	temps regs   // at least two
	masks regs
}

func newPackedPass(q packing, t packedTile, first int) *packedPass {
	p := &packedPass{packing: q, first: first}
	next := 0
	take := func(n int) int { next += n; return next - n }
	p.sums = rowsOf(take(t.rows*t.outputs/4), t.rows, t.outputs/4)
	p.ints = rowsOf(take(t.rows*t.chunk/4), t.rows, t.chunk/4)
	p.acts = between(take(t.rows), t.rows)
	p.masks = between(take(len(q.neonMasks())), len(q.neonMasks()))
	p.temps = between(next, 32-next)
	return p
}

// neonMasks returns the bytes that are needed to get weights from a panel:
// what picks their low and their upper bits, or makes signed bytes of them.
func (q packing) neonMasks() []int {
	return map[int][]int{8: {0x80}, 4: {0x0f}, 6: {0x0f, 0x30}}[q.bits]
}

// packedOutputs computes some outputs of the panel.
func (a neon) packedOutputs(q packing, t packedTile, first int) {
	p := newPackedPass(q, t, first)
	a.loadOutputs(first)
	a.load("actStride", gemmStep)
	a.loadRows("act_base", gemmInputs, t.rows)
	a.loadRows("facts_base", gemmFacts, t.rows)
	for i, mask := range q.neonMasks() {
		a.v("movi.16b", p.masks[i], mask)
	}
	a.zero(p.sums...)
	a.overBlocks(q, func() {
		for v := 0; v < t.outputs/4; v += t.chunk / 4 {
			for sub := range q.subs {
				a.multiplyChunk(p, sub, v)
				a.absorbChunk(p, sub, v)
			}
		}
		for r := range t.rows {
			a.advance(gemmInputs+xreg(r), 32)
			a.advance(gemmFacts+xreg(r), factBytes)
		}
	})
	a.storeRows(p.sums)
}

// overBlocks writes a loop over the blocks of a panel, with gemmHead at the current head.
func (a neon) overBlocks(q packing, body func()) {
	a.load("blocks", counter)
	block := func() {
		body()
		a.advance(gemmPanel, q.block())
	}
	if q.head == 0 {
		a.times(counter, block)
		return
	}
	a.op("LSR", 3, counter, counter)
	a.times(counter, func() {
		a.op("MOVD", gemmPanel, gemmHead)
		a.advance(gemmPanel, q.head)
		a.op("MOVD", q.run, inner)
		a.times(inner, block)
	})
}

// multiplyChunk sums the integer products of one part of a block, for the
// outputs of a chunk that begins with the v-th register of the pass.
func (a neon) multiplyChunk(p *packedPass, sub, v int) {
	a.startInts(p, sub)
	loaded := -1
	for _, j := range p.groups(sub) {
		if half := j / 4; half != loaded {
			for r, act := range p.acts {
				a.v("ldr.q", act, slot{gemmInputs + xreg(r), 16 * half})
			}
			loaded = half
		}
		for i := range p.ints[0] {
			weight := a.weights(p, j, p.first+4*(v+i), i)
			for r, row := range p.ints {
				a.v("sdot", row[i], weight, lane{p.acts[r], j % 4})
			}
		}
	}
}

// startInts sets the integers to what they must be for products with weights
// counted from zero. Those of eight bits are made signed instead.
func (a neon) startInts(p *packedPass, sub int) {
	for r, row := range p.ints {
		fact := factCorrection
		switch p.zero {
		case 0, 128:
			a.zero(row)
			continue
		case 32:
			fact = factHalves + 4*sub
		}
		a.v("ldr.s", row[0], slot{gemmFacts + xreg(r), fact})
		a.v("dup", row[0], lane{row[0], 0})
		if p.zero == 8 {
			a.v("sshr.4s", row[0], row[0], 4)
		}
		for _, other := range row[1:] {
			a.v("mov", other, row[0])
		}
	}
}

// weights loads the weights of column group j for four outputs, the first of
// which is o. Successive ones come in different registers where there are enough.
func (a neon) weights(p *packedPass, j, o, turn int) vreg {
	pair := p.temps[turn%(len(p.temps)/2)*2:][:2]
	weight, upper := pair[0], pair[1]
	if p.bits == 8 {
		a.v("ldr.q", weight, slot{gemmPanel, p.scales + j*128 + o*4})
		a.v("eor", weight, weight, p.masks[0])
		return weight
	}
	a.v("ldr.q", weight, slot{gemmPanel, p.scales + j%4*128 + o*4})
	if j < 4 {
		a.v("and", weight, weight, p.masks[0])
	} else {
		a.v("ushr.16b", weight, weight, 4)
	}
	if p.bits == 6 {
		a.upperBits(p, j, o, upper)
		a.v("orr", weight, weight, upper)
	}
	return weight
}

// upperBits loads bits 4 and 5 of six-bit weights. A byte that has them serves
// groups j, j+4, j+1 and j+5, from its low bits on.
func (a neon) upperBits(p *packedPass, j, o int, dst vreg) {
	a.v("ldr.q", dst, slot{gemmPanel, p.scales + 4*128 + j%4/2*128 + o*4})
	switch 2*(j%2) + j/4 {
	case 0:
		a.v("shl.16b", dst, dst, 4)
	case 1:
		a.v("shl.16b", dst, dst, 2)
	case 3:
		a.v("ushr.16b", dst, dst, 2)
	}
	a.v("and", dst, dst, p.masks[1])
}

// absorbChunk scales the integers of a chunk and adds them to the sums.
func (a neon) absorbChunk(p *packedPass, sub, v int) {
	scales, temp := p.temps[0], p.temps[1]
	facts := p.acts
	for r, fact := range facts {
		a.v("ldr.q", fact, slot{gemmFacts + xreg(r), 0})
	}
	for i := range p.ints[0] {
		o := p.first + 4*(v+i)
		a.scaleOf(p, sub, o, scales, temp)
		if p.mins {
			a.headed("uxtl", slot{gemmPanel, 32 + o}, slot{gemmHead, 64 + o*2}, p.temps[2], temp)
		}
		for r := range p.ints {
			sum, n := p.sums[r][v+i], p.ints[r][i]
			a.v("fmul", temp, scales, lane{facts[r], factScale / 4})
			a.v("scvtf", n, n)
			a.v("fmla", sum, n, temp)
			if p.mins {
				a.v("fmls", sum, p.temps[2], lane{facts[r], factSum / 4})
			}
		}
	}
}

// scaleOf loads the scales of four outputs. temp is used up.
func (a neon) scaleOf(p *packedPass, sub, o int, dst, temp vreg) {
	switch {
	case p.head == 0:
		a.v("ldr.d", dst, slot{gemmPanel, o * 2})
		a.v("fcvtl", dst, dst)
	case p.mins:
		a.headed("uxtl", slot{gemmPanel, o}, slot{gemmHead, o * 2}, dst, temp)
	default:
		a.headed("sxtl", slot{gemmPanel, sub*32 + o}, slot{gemmHead, o * 2}, dst, temp)
	}
}

// headed multiplies four bytes with half floats of the head.
func (a neon) headed(extend string, bytes, head slot, dst, temp vreg) {
	a.v("ldr.s", dst, bytes)
	a.v(extend+".8h", dst, dst)
	a.v(extend+".4s", dst, dst)
	a.v("scvtf", dst, dst)
	a.v("ldr.d", temp, head)
	a.v("fcvtl", temp, temp)
	a.v("fmul", dst, dst, temp)
}
