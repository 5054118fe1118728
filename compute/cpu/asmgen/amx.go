package main

import "fmt"

// A tile is the number of a matrix register.
type tile int

// The tiles of the AMX kernels.
const (
	tileAct   tile = 0
	tileLeft  tile = 1 // weights of outputs 0 to 15
	tileRight tile = 2
	tileSums  tile = 3 // of outputs 0 to 15; the next one has the others
)

// tileRows is how many rows of activations a tile has. Twelve rows of 32
// outputs leave eight registers beside their accumulators.
const tileRows = 12

// numbers of general registers in instructions.
var registers = map[string]int{
	"AX": 0, "CX": 1, "DX": 2, "BX": 3, "SP": 4, "BP": 5, "SI": 6, "DI": 7,
	"R8": 8, "R9": 9, "R10": 10, "R11": 11, "R12": 12, "R13": 13, "R14": 14, "R15": 15,
}

// The prefixes of VEX instructions.
const (
	vexNone = 0
	vexF3   = 2
	vexF2   = 3
)

// vex writes an instruction that Go's assembler does not know: three bytes of
// VEX for map 0F38, the opcode and what follows.
func (a *assembler) vex(comment string, prefix, vvvv, opcode, index, base int, rest ...int) {
	bytes := []int{0xc4, 0xe2 &^ (index >> 3 << 6) &^ (base >> 3 << 5), (^vvvv&15)<<3 | prefix, opcode}
	for _, b := range append(bytes, rest...) {
		fmt.Fprintf(&a.text, "\tBYTE $0x%02x;", b&0xff)
	}
	fmt.Fprintf(&a.text, " // %s\n", comment)
}

// tileMemory writes an instruction on a tile and memory with rows at base + disp + n·stride.
func (a *assembler) tileMemory(name string, prefix int, t tile, base string, disp int, stride string) {
	b, s := registers[base], registers[stride]
	comment := fmt.Sprintf("%s %d(%s)(%s*1), T%d", name, disp, base, stride, t)
	a.vex(comment, prefix, 0, 0x4b, s, b, 0x84|int(t)<<3, (s&7)<<3|b&7, disp, disp>>8, disp>>16, disp>>24)
}

func (a *assembler) tileLoad(t tile, base string, disp int, stride string) {
	a.tileMemory("TILELOADD", vexF2, t, base, disp, stride)
}

func (a *assembler) tileStore(t tile, base string, disp int, stride string) {
	a.tileMemory("TILESTORED", vexF3, t, base, disp, stride)
}

func (a *assembler) tileZero(t tile) {
	a.vex(fmt.Sprintf("TILEZERO T%d", t), vexF2, 0, 0x49, 0, 0, 0xc0|int(t)<<3)
}

// tileDot adds the products of signed bytes to sum.
func (a *assembler) tileDot(weights, act, sum tile) {
	a.vex(fmt.Sprintf("TDPBSSD T%d, T%d, T%d", weights, act, sum), vexF2, int(weights), 0x5e, 0, 0,
		0xc0|int(sum)<<3|int(act))
}

// tileShape is the rows and bytes per row of a tile.
type tileShape struct{ rows, bytes int }

// tileConfigure loads the shapes of all tiles. AX is used up.
func (a *assembler) tileConfigure(shapes map[tile]tileShape) {
	var config [64]byte
	config[0] = 1
	for t, s := range shapes {
		config[16+2*t] = byte(s.bytes)
		config[48+t] = byte(s.rows)
	}
	var words [16]uint32
	for i, b := range config {
		words[i/4] |= uint32(b) << (i % 4 * 8)
	}
	a.op("LEAQ", a.lanes(words), "AX")
	a.vex("LDTILECFG (AX)", vexNone, 0, 0x49, 0, 0, 0x00)
}

func (a *assembler) tileRelease() { a.vex("TILERELEASE", vexNone, 0, 0x49, 0, 0, 0xc0) }

// opened returns the bytes of a block that unpack has written: weights as
// signed bytes, float scales of each part, and minima.
func (q packing) opened() int {
	n := panelOutputs * 32
	n += q.subs * panelOutputs * 4
	if q.mins {
		n += panelOutputs * 4
	}
	return n
}

// openScales is where a block's scales begin.
const openScales = panelOutputs * 32

// unpack writes blocks of a panel as matrix registers and AVX-512 take them.
func (a *assembler) unpack(q packing) {
	m := avx512
	a.begin("unpack"+q.name+m.suffix, "writes blocks of a panel as signed bytes and float scales.",
		"dst []byte", "panel []byte", "blocks int")
	a.load("dst_base", "DI")
	a.load("panel_base", "DX")
	a.load("blocks", "CX")
	a.loadMasks(m, q)
	const v, temp, zero = "Z0", "Z1", "Z2"
	a.op("VMOVDQU32", a.bytewise(byte(q.zero)), zero)
	a.overBlocks(q, func() {
		for j := range 8 {
			for p := range 2 {
				a.weights(m, q, j, p*16, v, temp)
				if q.zero != 0 {
					a.op("VPSUBB", zero, v, v)
				}
				a.op("VMOVDQU32", v, at("(DI)", j*128+p*64))
			}
		}
		for p := range 2 {
			for sub := range q.subs {
				a.scale(m, q, sub, p*16, v, temp)
				a.op("VMOVUPS", v, at("(DI)", openScales+sub*128+p*64))
			}
			if q.mins {
				a.minimum(p*16, v, temp)
				a.op("VMOVUPS", v, at("(DI)", openScales+128+p*64))
			}
		}
		a.op("ADDQ", q.opened(), "DI")
	})
	a.end()
}

// tileFact returns the address of the facts about row r of a tile.
func tileFact(r int) string {
	base := []string{"R10", "R11", "R12", "R13"}[r/3]
	return fmt.Sprintf("(%s)", base) + []string{"", "(R9*1)", "(R9*2)"}[r%3]
}

// gemmTiles multiplies activations with unpacked blocks. For each block the
// matrix unit multiplies integers, and vectors scale and add the products:
// the same operations in the same order as in gemmPacked. While vectors work
// on one block, the matrix unit works on the next, so it reads a block
// beyond the last; what it finds there does not matter.
func (a *assembler) gemmTiles(q packing) {
	a.begin("tiles"+q.opening()+"AMX",
		"multiplies n tiles of 12 quantized rows with unpacked blocks. products is room for 1536 bytes.",
		"n int", "dst []float32", "dstStride int", "act []byte", "facts []byte", "actStride int", "open []byte",
		"blocks int", "products []byte")
	bytes := 32 / q.subs
	sums := tileShape{tileRows, 64}
	a.tileConfigure(map[tile]tileShape{
		tileAct:      {tileRows, bytes},
		tileLeft:     {bytes / 4, 64},
		tileRight:    {bytes / 4, 64},
		tileSums:     sums,
		tileSums + 1: sums,
	})
	a.load("dst_base", "DI")
	a.load("dstStride", "R8")
	a.op("SHLQ", 2, "R8")
	a.load("actStride", "R9")
	a.op("MOVQ", 64, "R14")
	a.op("MOVQ", 128, "R15")
	loop, done := a.newLabel("tile"), a.newLabel("last")
	acc := grid(avx512, 0, tileRows)
	a.label(loop)
	a.op("CMPQ", a.arg("n"), 0)
	a.op("JLE", done)
	for _, row := range acc {
		a.zero(avx512, row...)
	}
	a.startTile()
	a.startProducts(q, 0)
	a.times("CX", func() {
		for sub := range q.subs {
			a.tileStore(tileSums, "BX", 0, "R14")
			a.tileStore(tileSums+1, "BX", tileRows*64, "R14")
			a.startProducts(q, sub+1)
			a.absorbProducts(q, sub, acc)
		}
		a.op("ADDQ", 32, "SI")
		a.op("ADDQ", q.opened(), "DX")
		for _, facts := range []string{"R10", "R11", "R12", "R13"} {
			a.op("ADDQ", factBytes, facts)
		}
	})
	a.storeRows(avx512, acc)
	a.op("ADDQ", "R8", "DI")
	a.nextTile()
	a.op("JMP", loop)
	a.label(done)
	a.tileRelease()
	a.end()
}

// opening names the form of unpacked blocks.
func (q packing) opening() string {
	switch {
	case q.mins:
		return "Mins"
	case q.subs == 2:
		return "Halves"
	}
	return "Whole"
}

// startTile points at the first block of a tile.
func (a *assembler) startTile() {
	a.load("act_base", "SI")
	a.load("facts_base", "R10")
	a.op("LEAQ", "(R9)(R9*2)", "AX")
	a.op("LEAQ", "(R10)(AX*1)", "R11")
	a.op("LEAQ", "(R11)(AX*1)", "R12")
	a.op("LEAQ", "(R12)(AX*1)", "R13")
	a.load("open_base", "DX")
	a.load("blocks", "CX")
	a.load("products_base", "BX")
}

// nextTile moves the parameters on to the next tile.
func (a *assembler) nextTile() {
	a.op("LEAQ", "(R9)(R9*2)", "AX")
	a.op("SHLQ", 2, "AX")
	a.op("ADDQ", "AX", a.arg("act_base"))
	a.op("ADDQ", "AX", a.arg("facts_base"))
	a.op("DECQ", a.arg("n"))
}

// startProducts multiplies the activations and weights of one part of a
// block; part subs is the first of the next block.
func (a *assembler) startProducts(q packing, sub int) {
	act, weights := sub*16, sub*512
	if sub == q.subs {
		act, weights = 32, q.opened()
	}
	a.tileZero(tileSums)
	a.tileZero(tileSums + 1)
	a.tileLoad(tileAct, "SI", act, "R9")
	a.tileLoad(tileLeft, "DX", weights, "R15")
	a.tileDot(tileLeft, tileAct, tileSums)
	a.tileLoad(tileRight, "DX", weights+64, "R15")
	a.tileDot(tileRight, tileAct, tileSums+1)
}

// absorbProducts scales the products at BX and adds them to the sums.
func (a *assembler) absorbProducts(q packing, sub int, acc [][]vec) {
	scales := []string{"Z24", "Z25"}
	mins := []string{"Z26", "Z27"}
	for p := range 2 {
		a.op("VMOVUPS", at("(DX)", openScales+sub*128+p*64), scales[p])
		if q.mins {
			a.op("VMOVUPS", at("(DX)", openScales+128+p*64), mins[p])
		}
	}
	for r, row := range acc {
		for p, sum := range row {
			product, scale := fmt.Sprintf("Z%d", 28+p), fmt.Sprintf("Z%d", 30+p)
			a.op("VCVTDQ2PS", at("(BX)", p*tileRows*64+r*64), product)
			a.op("VMULPS.BCST", at(tileFact(r), factScale), scales[p], scale)
			a.op("VFMADD231PS", scale, product, sum[0])
			if q.mins {
				a.op("VFNMADD231PS.BCST", at(tileFact(r), factSum), mins[p], sum[0])
			}
		}
	}
}
