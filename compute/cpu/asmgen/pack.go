package main

import "fmt"

// packBases hold the addresses of every fourth of a panel's 32 rows in a file. R8
// is the distance of two rows, and R9 three times that.
var packBases = [...]string{"SI", "AX", "BX", "DX", "R10", "R11", "R12", "R13"}

// fileRow returns the address of a row.
func fileRow(r int) string {
	steps := [...]string{"", "(R8*1)", "(R8*2)", "(R9*1)"}
	return "(" + packBases[r/4] + ")" + steps[r%4]
}

// pack copies rows as a file has them, a scale and then the weights of each block,
// into a panel, where the weights of all rows lie side by side in groups of four
// bytes. Bytes with a sign are counted up from zero there: their highest bit flips.
func (a *assembler) pack(q packing) {
	a.begin("pack"+q.name+avx512.suffix, "copies whole blocks of 32 rows, which lie rowBytes apart, into a panel.",
		"dst []byte", "src []byte", "rowBytes int", "blocks int")
	a.load("dst_base", "DI")
	a.load("src_base", packBases[0])
	a.load("rowBytes", "R8")
	a.load("blocks", "CX")
	a.op("LEAQ", "(R8)(R8*2)", "R9")
	for i, base := range packBases[1:] {
		a.op("LEAQ", "("+packBases[i]+")(R8*4)", base)
	}
	if q.bits == 8 {
		a.op("VMOVDQU32", a.bytewise(0x80), "Z31")
	}
	weightBytes := q.bits * 4 // of a row's block
	a.times("CX", func() {
		for r := range panelOutputs {
			a.op("MOVWLZX", fileRow(r), "R14")
			a.op("MOVW", "R14", at("(DI)", fileScale*r))
		}
		for quad := range weightBytes / 16 {
			a.transpose(q, quad, 0)
			a.transpose(q, quad, 16)
		}
		for _, base := range packBases {
			a.op("ADDQ", fileScale+weightBytes, base)
		}
		a.op("ADDQ", q.block(), "DI")
	})
	a.end()
}

// fileScale is the bytes of a block's scale in a file, which comes first.
const fileScale = 2

// transpose writes four groups of sixteen rows, the first of which is given.
func (a *assembler) transpose(q packing, quad, first int) {
	from := func(r int) mem { return at(fileRow(first+r), fileScale+16*quad) }
	for i := range 4 { // lane k of Zi has row 4k+i
		z := fmt.Sprintf("Z%d", i)
		a.op("VMOVDQU", from(i), fmt.Sprintf("X%d", i))
		for k := 1; k < 4; k++ {
			a.op("VINSERTI32X4", k, from(4*k+i), z, z)
		}
	}
	a.op("VPUNPCKLDQ", "Z1", "Z0", "Z4")
	a.op("VPUNPCKHDQ", "Z1", "Z0", "Z5")
	a.op("VPUNPCKLDQ", "Z3", "Z2", "Z6")
	a.op("VPUNPCKHDQ", "Z3", "Z2", "Z7")
	a.op("VPUNPCKLQDQ", "Z6", "Z4", "Z0")
	a.op("VPUNPCKHQDQ", "Z6", "Z4", "Z1")
	a.op("VPUNPCKLQDQ", "Z7", "Z5", "Z2")
	a.op("VPUNPCKHQDQ", "Z7", "Z5", "Z3")
	for j := range 4 {
		z := fmt.Sprintf("Z%d", j)
		if q.bits == 8 {
			a.op("VPXORD", "Z31", z, z)
		}
		a.op("VMOVDQU32", z, at("(DI)", q.scales+4*(panelOutputs*(4*quad+j)+first)))
	}
}
