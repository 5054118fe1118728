package main

// A packing is how a panel of quantized weights is stored: in blocks of 32
// columns and 32 outputs, some of which share a head. A block has its scales,
// then its weights. Weights are counted up from zero, whatever number stands for it.
//
// Column group j are the columns 4j to 4j+3. A vector of weights is one group
// for sixteen outputs, four bytes for each.
type packing struct {
	name   string
	head   int // bytes before each run of blocks
	run    int // blocks under one head
	scales int // bytes of a block's scales
	bits   int // of a weight
	subs   int // parts of a block that have scales of their own
	mins   bool
	zero   int // what stands for zero, if there are no mins
}

// The packings. Without a head, scales are half floats. With one, it has half
// floats by which to multiply the block's bytes.
var (
	q80 = packing{
		name:   "Q8",
		run:    1,
		scales: 64,
		bits:   8,
		subs:   1,
		zero:   128,
	}
	q40 = packing{
		name:   "Q4",
		run:    1,
		scales: 64,
		bits:   4,
		subs:   1,
		zero:   8,
	}
	q4k = packing{
		name:   "Q4K",
		head:   128,
		run:    8,
		scales: 64,
		bits:   4,
		subs:   1,
		mins:   true,
	}
	q6k = packing{
		name:   "Q6K",
		head:   64,
		run:    8,
		scales: 64,
		bits:   6,
		subs:   2,
		zero:   32,
	}
)

var packings = []packing{q80, q40, q4k, q6k}

// block returns the bytes of a block.
func (q packing) block() int { return q.scales + q.bits*panelOutputs*4 }

// groups returns the column groups of one part of a block.
func (q packing) groups(sub int) []int {
	n := 8 / q.subs
	js := make([]int, n)
	for i := range js {
		js[i] = sub*n + i
	}
	return js
}

// bytewise broadcasts a byte to all others.
func (a *assembler) bytewise(b byte) mem { return a.bits(uint32(b) * 0x01010101) }

// logic returns the name of a bitwise instruction.
func (m isa) logic(op string) string {
	if m.parts == 1 {
		return op + "D"
	}
	return op
}

// weights loads the weights of column group j for one register's outputs, the
// first of which is output o. temp is used up.
func (a *assembler) weights(m isa, q packing, j, o int, dst, temp string) {
	low := at("(DX)", q.scales+(j%4)*128+o*4)
	switch {
	case q.bits == 8:
		a.op(m.move(), at("(DX)", q.scales+j*128+o*4), dst)
		return
	case j < 4 && m.parts == 1:
		a.op("VPANDD", low, m.mask(0), dst)
	case j < 4:
		a.op("VMOVDQU", low, dst)
		a.op("VPAND", a.bytewise(0x0f), dst, dst)
	default:
		a.shift(m, "VPSRLW", 4, low, dst)
		a.op(m.logic("VPAND"), a.maskOf(m, 0, 0x0f), dst, dst)
	}
	if q.bits == 6 {
		a.upperBits(m, q, j, o, dst, temp)
	}
}

// shift shifts the words at src.
func (a *assembler) shift(m isa, op string, n int, src mem, dst string) {
	if m.parts == 1 {
		a.op(op, n, src, dst)
		return
	}
	a.op("VMOVDQU", src, dst)
	a.op(op, n, dst, dst)
}

// upperBits adds bits 4 and 5 of six-bit weights. A byte of the vector that
// has them serves groups j, j+4, j+1 and j+5, from its low bits on.
func (a *assembler) upperBits(m isa, q packing, j, o int, dst, temp string) {
	src := at("(DX)", q.scales+4*128+(j%4)/2*128+o*4)
	switch 2*(j%2) + j/4 {
	case 0:
		a.shift(m, "VPSLLW", 4, src, temp)
	case 1:
		a.shift(m, "VPSLLW", 2, src, temp)
	case 2:
		a.op(m.move(), src, temp)
	case 3:
		a.shift(m, "VPSRLW", 2, src, temp)
	}
	a.op(m.logic("VPAND"), a.maskOf(m, 1, 0x30), temp, temp)
	a.op(m.logic("VPOR"), temp, dst, dst)
}

func (m isa) move() string {
	if m.parts == 1 {
		return "VMOVDQU32"
	}
	return "VMOVDQU"
}

// mask names the registers in which AVX-512 kernels keep masks.
func (m isa) mask(i int) string { return []string{"Z30", "Z31"}[i] }

// maskOf returns a mask: AVX-512 has room for it in a register.
func (a *assembler) maskOf(m isa, i int, b byte) any {
	if m.parts == 1 {
		return m.mask(i)
	}
	return a.bytewise(b)
}

// loadMasks fills the registers of masks.
func (a *assembler) loadMasks(m isa, q packing) {
	if m.parts == 1 && q.bits < 8 {
		a.op("VMOVDQU32", a.bytewise(0x0f), m.mask(0))
		a.op("VMOVDQU32", a.bytewise(0x30), m.mask(1))
	}
}

// scale loads the scales of one register's outputs. temp is used up.
func (a *assembler) scale(m isa, q packing, sub, o int, dst, temp string) {
	if q.head == 0 {
		a.op("VCVTPH2PS", at("(DX)", o*2), dst)
		return
	}
	widen := "VPMOVZXBD"
	if !q.mins {
		widen = "VPMOVSXBD"
	}
	a.headed(widen, at("(DX)", sub*32+o), at("(BX)", o*2), dst, temp)
}

// minimum loads the minima of one register's outputs.
func (a *assembler) minimum(o int, dst, temp string) {
	a.headed("VPMOVZXBD", at("(DX)", 32+o), at("(BX)", 64+o*2), dst, temp)
}

// headed multiplies bytes with the half floats of the head.
func (a *assembler) headed(widen string, bytes, head mem, dst, temp string) {
	a.op(widen, bytes, dst)
	a.op("VCVTDQ2PS", dst, dst)
	a.op("VCVTPH2PS", head, temp)
	a.op("VMULPS", temp, dst, dst)
}

// overBlocks writes a loop over the CX blocks of a panel at DX. BX holds the
// current head.
func (a *assembler) overBlocks(q packing, body func()) {
	if q.head == 0 {
		a.times("CX", func() {
			body()
			a.op("ADDQ", q.block(), "DX")
		})
		return
	}
	a.op("SHRQ", 3, "CX")
	a.times("CX", func() {
		a.op("MOVQ", "DX", "BX")
		a.op("ADDQ", q.head, "DX")
		a.op("MOVQ", q.run, "AX")
		a.times("AX", func() {
			body()
			a.op("ADDQ", q.block(), "DX")
		})
	})
}

// factAddress returns the address of row r's facts, as rowAddress does, with
// R11 for row 0 and R12 for row 3.
func factAddress(r int) string {
	bases := [...]string{"(R11)", "(R11)(R9*1)", "(R11)(R9*2)", "(R12)", "(R12)(R9*1)", "(R12)(R9*2)"}
	return bases[r]
}

const gemmPackedDoc = "multiplies up to packedRows quantized rows with one panel. Where that helps, it asks for so " +
	"many lines of what is needed next with every block."

var gemmPackedParams = []string{"rows int", "dst []float32", "dstStride int", "act []byte", "facts []byte",
	"actStride int", "panel []byte", "blocks int", "next []byte", "lines int"}

func (a *assembler) gemmPacked(m isa, q packing) {
	a.begin("gemm"+q.name+m.suffix, gemmPackedDoc, gemmPackedParams...)
	a.loadRows("act_base", "actStride", 0)
	a.load("facts_base", "R11")
	a.op("LEAQ", "(R9)(R9*2)", "R12")
	a.op("ADDQ", "R11", "R12")
	a.load("blocks", "CX")
	if m.parts == 1 {
		a.loadMasks(m, q)
		a.byRows(6, func(rows int) { a.packedVNNI(q, rows) })
		return
	}
	a.op("VPCMPEQW", "Y15", "Y15", "Y15")
	a.op("VPSRLW", 15, "Y15", "Y15")
	a.byRows(2, func(rows int) { a.packedAVX2(q, rows) })
}

// nextActivations moves on by one block.
func (a *assembler) nextActivations() {
	a.op("ADDQ", 32, "SI")
	a.op("ADDQ", 32, "R10")
	a.op("ADDQ", factBytes, "R11")
	a.op("ADDQ", factBytes, "R12")
}

// correction loads what the products of row r have too little because of how
// zero is stored. The fact is for 128, or for 32 in each half.
func (a *assembler) correction(q packing, r, sub int, dst string) {
	switch q.zero {
	case 128:
		a.op("VPBROADCASTD", at(factAddress(r), factCorrection), dst)
	case 8:
		a.op("VPBROADCASTD", at(factAddress(r), factCorrection), dst)
		a.op("VPSRAD", 4, dst, dst)
	case 32:
		a.op("VPBROADCASTD", at(factAddress(r), factHalves+4*sub), dst)
	}
}

// packedVNNI keeps one integer and one float accumulator per row and half
// panel.
func (a *assembler) packedVNNI(q packing, rows int) {
	m := avx512
	sums, ints := grid(m, 0, rows), grid(m, 12, rows)
	const act, temp = "Z28", "Z29"
	pair := []string{"Z24", "Z25"}
	mins := []string{"Z26", "Z27"}
	for _, row := range sums {
		a.zero(m, row...)
	}
	if rows > fewRows {
		a.load("next_base", "R13")
	}
	a.overBlocks(q, func() {
		if rows > fewRows {
			a.fetchNext()
		} else {
			a.fetchAhead(q.block(), rows)
		}
		for sub := range q.subs {
			a.startInts(q, sub, ints)
			for _, j := range q.groups(sub) {
				for p, w := range pair {
					a.weights(m, q, j, p*16, w, temp)
				}
				for r, row := range ints {
					a.op("VPBROADCASTD", at(rowAddress(r), j*4), act)
					for p, v := range row {
						a.op("VPDPBUSD", act, pair[p], v[0])
					}
				}
			}
			for p := range 2 {
				a.scale(m, q, sub, p*16, pair[p], temp)
				if q.mins {
					a.minimum(p*16, mins[p], temp)
				}
			}
			for r, row := range ints {
				for p, v := range row {
					a.op("VCVTDQ2PS", v[0], v[0])
					a.op("VMULPS.BCST", at(factAddress(r), factScale), pair[p], temp)
					a.op("VFMADD231PS", temp, v[0], sums[r][p][0])
					if q.mins {
						a.op("VFNMADD231PS.BCST", at(factAddress(r), factSum), mins[p], sums[r][p][0])
					}
				}
			}
		}
		a.nextActivations()
	})
	a.storeRows(m, sums)
}

// fewRows is up to how many rows wait for their weights to come from memory.
const fewRows = 4

// fetchAhead asks for weights that will be needed soon, if few rows wait for
// them: processors do not look across the borders of pages by themselves.
func (a *assembler) fetchAhead(bytes, rows int) {
	const ahead = 4096
	for line := 0; line < bytes && rows <= fewRows; line += 64 {
		a.op("PREFETCHT0", at("(DX)", ahead+line))
	}
}

// fetchNext asks for some lines from R13 on: several groups of rows pass over
// a panel, so that each of them fetches a part of the next one meanwhile. R14 is
// used up.
func (a *assembler) fetchNext() {
	a.load("lines", "R14")
	a.times("R14", func() {
		a.op("PREFETCHT0", "(R13)")
		a.op("ADDQ", 64, "R13")
	})
}

// startInts sets the integer accumulators to the rows' corrections.
func (a *assembler) startInts(q packing, sub int, ints [][]vec) {
	for r, row := range ints {
		if q.zero == 0 {
			a.zero(avx512, row...)
			continue
		}
		a.correction(q, r, sub, row[0][0])
		a.op("VMOVDQA64", row[0][0], row[1][0])
	}
}

// packedAVX2 has no sum of four products of unsigned and signed bytes, only of
// two, which must fit sixteen bits. Weights of up to six bits do. Those
// of eight give their sign to the activation: |w| ≤ 128 times |a| ≤ 127, twice, fits.
func (a *assembler) packedAVX2(q packing, rows int) {
	m := avx2
	sums := grid(m, 0, rows)
	ints := m.vecs(4, rows)
	const weight, spare, temp, ones = "Y12", "Y13", "Y14", "Y15"
	for _, row := range sums {
		a.zero(m, row...)
	}
	a.overBlocks(q, func() {
		for h := range 2 {
			for sub := range q.subs {
				a.zero(m, ints...)
				for _, j := range q.groups(sub) {
					for p := range m.parts {
						a.weights(m, q, j, h*16+p*8, weight, temp)
						if q.bits == 8 {
							a.op("VPXOR", a.bytewise(0x80), weight, weight)
							a.op("VPABSB", weight, spare)
						}
						for r, v := range ints {
							a.addProducts(q, at(rowAddress(r), j*4), weight, spare, temp, ones, v[p])
						}
					}
				}
				for p := range m.parts {
					a.absorbAVX2(q, sub, h, p, ints, sums)
				}
			}
		}
		a.nextActivations()
	})
	a.storeRows(m, sums)
}

// addProducts adds the products of four columns to the integers of eight outputs.
func (a *assembler) addProducts(q packing, act mem, weight, magnitude, temp, ones, sum string) {
	a.op("VPBROADCASTD", act, temp)
	if q.bits == 8 {
		a.op("VPSIGNB", weight, temp, temp)
		a.op("VPMADDUBSW", temp, magnitude, temp)
	} else {
		a.op("VPMADDUBSW", temp, weight, temp)
	}
	a.op("VPMADDWD", ones, temp, temp)
	a.op("VPADDD", temp, sum, sum)
}

// absorbAVX2 scales the integers of eight outputs and adds them to the sums.
func (a *assembler) absorbAVX2(q packing, sub, h, p int, ints []vec, sums [][]vec) {
	const scales, mins, temp = "Y12", "Y13", "Y14"
	o := h*16 + p*8
	a.scale(avx2, q, sub, o, scales, temp)
	if q.mins {
		a.minimum(o, mins, temp)
	}
	for r, v := range ints {
		if q.zero != 0 && q.bits < 8 {
			a.correction(q, r, sub, temp)
			a.op("VPADDD", temp, v[p], v[p])
		}
		a.op("VBROADCASTSS", at(factAddress(r), factScale), temp)
		a.op("VMULPS", temp, scales, temp)
		a.op("VCVTDQ2PS", v[p], v[p])
		a.op("VFMADD231PS", temp, v[p], sums[r][h][p])
		if q.mins {
			a.op("VBROADCASTSS", at(factAddress(r), factSum), temp)
			a.op("VFNMADD231PS", temp, mins, sums[r][h][p])
		}
	}
}
