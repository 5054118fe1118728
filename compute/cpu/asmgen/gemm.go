package main

import "fmt"

// panelOutputs is how many outputs a panel of weights has.
const panelOutputs = 32

// rowAddress returns the address of row r of up to six, when SI holds the
// first one, R9 the stride and R10 the address of row 3.
func rowAddress(r int) string {
	bases := [...]string{"(SI)", "(SI)(R9*1)", "(SI)(R9*2)", "(R10)", "(R10)(R9*1)", "(R10)(R9*2)"}
	return bases[r]
}

// loadRows reads the parameters that all matrix kernels share.
func (a *assembler) loadRows(input, stride string, scale int) {
	a.load("dst_base", "DI")
	a.load("dstStride", "R8")
	a.op("SHLQ", 2, "R8")
	a.load(input, "SI")
	a.load(stride, "R9")
	if scale != 0 {
		a.op("SHLQ", scale, "R9")
	}
	a.op("LEAQ", "(R9)(R9*2)", "R10")
	a.op("ADDQ", "SI", "R10")
	a.load("panel_base", "DX")
}

// byRows writes body once for each row count from limit down to 1, and the
// branch to the one that the parameter rows asks for.
func (a *assembler) byRows(limit int, body func(rows int)) {
	a.load("rows", "AX")
	labels := make([]string, limit+1)
	for r := limit; r > 1; r-- {
		labels[r] = a.newLabel("rows")
		a.op("CMPQ", "AX", r)
		a.op("JEQ", labels[r])
	}
	body(1)
	a.end()
	for r := 2; r <= limit; r++ {
		a.label(labels[r])
		body(r)
		a.end()
	}
}

// storeRows writes the accumulators, two values of sixteen lanes per row.
func (a *assembler) storeRows(m isa, acc [][]vec) {
	for r, row := range acc {
		for p, v := range row {
			a.each(m, "VMOVUPS", v, at("(DI)", p*64))
		}
		if r < len(acc)-1 {
			a.op("ADDQ", "R8", "DI")
		}
	}
}

// grid returns rows × 2 values, from the i-th on.
func grid(m isa, i, rows int) [][]vec {
	g := make([][]vec, rows)
	for r := range g {
		g[r] = m.vecs(i+2*r, 2)
	}
	return g
}

// A weightType is how a panel of floats is stored.
type weightType struct {
	name  string
	bytes int
}

var (
	f32  = weightType{"F32", 4}
	f16  = weightType{"F16", 2}
	bf16 = weightType{"BF16", 2}
)

// widen loads part p of half h of a panel's column as float32.
func (a *assembler) widen(m isa, w weightType, h, p int, dst string) {
	src := at("(DX)", (h*16+p*16/m.parts)*w.bytes)
	switch w {
	case f32:
		a.op("VMOVUPS", src, dst)
	case f16:
		a.op("VCVTPH2PS", src, dst)
	case bf16:
		a.widenBF16(src, dst)
	}
}

// widenBF16 loads numbers that are the upper halves of float32.
func (a *assembler) widenBF16(src mem, dst string) {
	a.op("VPMOVZXWD", src, dst)
	a.op("VPSLLD", 16, dst, dst)
}

func (a *assembler) gemmFloat(m isa, w weightType) {
	doc := fmt.Sprintf("multiplies up to floatRows rows with one %s panel. With more, it adds to what dst holds.",
		w.name)
	a.begin("gemm"+w.name+m.suffix, doc,
		"rows int", "dst []float32", "dstStride int", "x []float32", "xStride int", "panel []byte", "cols int",
		"more bool")
	a.loadRows("x_base", "xStride", 2)
	a.load("cols", "CX")
	limit := map[int]int{1: 6, 2: 3}[m.parts]
	a.byRows(limit, func(rows int) { a.floatRows(m, w, rows) })
}

func (a *assembler) floatRows(m isa, w weightType, rows int) {
	sums := grid(m, 0, rows)
	first := 2 * rows * m.parts // single registers after the accumulators
	inputs := make([]string, rows)
	for r := range inputs {
		inputs[r] = fmt.Sprintf("%s%d", m.reg, first+r)
	}
	weight := fmt.Sprintf("%s%d", m.reg, first+rows)
	a.startSums(m, sums)
	a.times("CX", func() {
		a.fetchAhead(panelOutputs*w.bytes, rows)
		for r, x := range inputs {
			a.op("VBROADCASTSS", rowAddress(r), x)
		}
		for h := range 2 {
			for p := range m.parts {
				a.widen(m, w, h, p, weight)
				for r, x := range inputs {
					a.op("VFMADD231PS", weight, x, sums[r][h][p])
				}
			}
		}
		a.op("ADDQ", 4, "SI")
		a.op("ADDQ", 4, "R10")
		a.op("ADDQ", panelOutputs*w.bytes, "DX")
	})
	a.storeRows(m, sums)
}

// gemmWide takes twelve rows whose inputs lie side by side, column after
// column: with rows far apart, twelve would compete for the same few cache sets.
func (a *assembler) gemmWide(w weightType) {
	m := avx512
	doc := fmt.Sprintf("multiplies 12 rows with one %s panel. x is [cols][12]. With more, it adds to what dst holds.",
		w.name)
	a.begin("wide"+w.name+m.suffix, doc,
		"dst []float32", "dstStride int", "x []float32", "panel []byte", "cols int", "more bool")
	a.load("dst_base", "DI")
	a.load("dstStride", "R8")
	a.op("SHLQ", 2, "R8")
	a.load("x_base", "SI")
	a.load("panel_base", "DX")
	a.load("cols", "CX")
	sums, weights := grid(m, 0, tileRows), []string{"Z24", "Z25"}
	a.startSums(m, sums)
	a.times("CX", func() {
		for h, reg := range weights {
			a.widen(m, w, h, 0, reg)
		}
		for r, row := range sums {
			x := fmt.Sprintf("Z%d", 26+r%6)
			a.op("VBROADCASTSS", at("(SI)", 4*r), x)
			for h, reg := range weights {
				a.op("VFMADD231PS", reg, x, row[h][0])
			}
		}
		a.op("ADDQ", 4*tileRows, "SI")
		a.op("ADDQ", panelOutputs*w.bytes, "DX")
	})
	a.storeRows(m, sums)
	a.end()
}

// startSums sets the accumulators to zero, or to what dst holds.
func (a *assembler) startSums(m isa, sums [][]vec) {
	add, ready := a.newLabel("add"), a.newLabel("ready")
	a.op("CMPB", a.arg("more"), 0)
	a.op("JNE", add)
	for _, row := range sums {
		a.zero(m, row...)
	}
	a.op("JMP", ready)
	a.label(add)
	a.op("MOVQ", "DI", "BX")
	for r, row := range sums {
		for h, v := range row {
			a.each(m, "VMOVUPS", at("(BX)", h*64), v)
		}
		if r < len(sums)-1 {
			a.op("ADDQ", "R8", "BX")
		}
	}
	a.label(ready)
}
