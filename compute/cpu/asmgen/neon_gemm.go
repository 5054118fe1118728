package main

import "fmt"

// Where kernels of matrices keep what. A pass over the panel begins by
// setting all of them.
const (
	gemmDst    xreg = 0
	gemmStride xreg = 1 // of dst, in bytes
	gemmPanel  xreg = 2
	gemmInputs xreg = 5  // and the following: a pointer to each row
	gemmFacts  xreg = 11 // and the following: a pointer to each row's facts
	gemmHead   xreg = 15
	gemmStep   xreg = 22 // from row to row of the inputs
)

// byRows writes body once for each row count up to limit, and the branch to
// the one that the parameter rows asks for.
func (a neon) byRows(limit int, body func(rows int)) {
	const rows xreg = 0
	a.load("rows", rows)
	labels := make([]string, limit+1)
	for r := limit; r > 1; r-- {
		labels[r] = a.newLabel("rows")
		a.op("CMP", r, rows)
		a.op("BEQ", labels[r])
	}
	for r := 1; r <= limit; r++ {
		if r > 1 {
			a.label(labels[r])
		}
		body(r)
		a.end()
	}
}

// loadOutputs sets where a pass that begins at the given output writes.
func (a neon) loadOutputs(first int) {
	a.load("dst_base", gemmDst)
	a.advance(gemmDst, 4*first)
	a.load("dstStride", gemmStride)
	a.op("LSL", 2, gemmStride, gemmStride)
	a.load("panel_base", gemmPanel)
}

// loadRows sets pointers to rows that are gemmStep apart.
func (a neon) loadRows(base string, first xreg, rows int) {
	a.load(base, first)
	for r := range rows - 1 {
		a.op("ADD", gemmStep, first+xreg(r), first+xreg(r+1))
	}
}

// overDst writes what body does with each row of results at gemmDst, which is used up.
func (a neon) overDst(sums []regs, body func(row regs)) {
	for r, row := range sums {
		body(row)
		if r < len(sums)-1 {
			a.op("ADD", gemmStride, gemmDst, gemmDst)
		}
	}
}

func (a neon) storeRows(sums []regs) {
	a.overDst(sums, func(row regs) { a.each("str.q", row, slot{gemmDst, 0}) })
}

// rowsOf returns n registers for each row, from the i-th on.
func rowsOf(i, rows, n int) []regs {
	g := make([]regs, rows)
	for r := range g {
		g[r] = between(i+r*n, n)
	}
	return g
}

func (a neon) gemmFloat(w weightType) {
	doc := fmt.Sprintf("multiplies up to floatRows rows with one %s panel. With more, it adds to what dst holds.",
		w.name)
	a.begin("gemm"+w.name, doc,
		"rows int", "dst []float32", "dstStride int", "x []float32", "xStride int", "panel []byte", "cols int",
		"more bool")
	a.byRows(6, func(rows int) {
		outputs := panelOutputs // of a pass: sums must leave registers for the rest
		if rows > 3 {
			outputs /= 2
		}
		for first := 0; first < panelOutputs; first += outputs {
			a.floatOutputs(w, rows, first, outputs)
		}
	})
}

// floatOutputs computes some outputs of the panel. It takes four columns at once,
// then the rest of them one by one.
func (a neon) floatOutputs(w weightType, rows, first, outputs int) {
	a.loadOutputs(first)
	a.load("xStride", gemmStep)
	a.op("LSL", 2, gemmStep, gemmStep)
	a.loadRows("x_base", gemmInputs, rows)
	sums := rowsOf(0, rows, outputs/4)
	inputs, spare := between(rows*outputs/4, rows), rows*outputs/4+rows
	weights := between(spare, min(32-spare, 4)/2*2)
	a.startSums(sums)
	columns := func(n int, load string) {
		for r, x := range inputs {
			a.v(load, x, slot{gemmInputs + xreg(r), 0})
			a.advance(gemmInputs+xreg(r), 4*n)
		}
		for c := range n {
			a.floatColumn(w, c, first, sums, inputs, weights)
		}
		a.advance(gemmPanel, n*panelOutputs*w.bytes)
	}
	a.load("cols", counter)
	a.op("AND", 3, counter, inner)
	a.op("LSR", 2, counter, counter)
	a.times(counter, func() { columns(4, "ldr.q") })
	a.times(inner, func() { columns(1, "ldr.s") })
	a.storeRows(sums)
}

// startSums sets the accumulators to zero, or to what dst holds. It leaves dst as it is.
func (a neon) startSums(sums []regs) {
	const more = gemmHead
	ready := a.newLabel("ready")
	a.zero(sums...)
	a.op("MOVBU", a.arg("more"), more)
	a.op("CBZ", more, ready)
	a.op("MOVD", gemmDst, inner)
	a.overDst(sums, func(row regs) { a.each("ldr.q", row, slot{gemmDst, 0}) })
	a.op("MOVD", inner, gemmDst)
	a.label(ready)
}

// floatColumn adds the products of column c of those that the inputs hold.
// Weights are loaded for eight outputs at a time.
func (a neon) floatColumn(w weightType, c, first int, sums []regs, inputs, weights regs) {
	for v := 0; v < len(sums[0]); v += 2 {
		pair := weights[v%len(weights):][:2]
		a.widen(w, slot{gemmPanel, (c*panelOutputs + first + 4*v) * w.bytes}, pair)
		for i, weight := range pair {
			for r, x := range inputs {
				a.v("fmla", sums[r][v+i], weight, lane{x, c})
			}
		}
	}
}

// widen loads eight weights as float32.
func (a neon) widen(w weightType, at slot, pair regs) {
	switch w {
	case f32:
		a.each("ldr.q", pair, at)
	case f16:
		a.v("ldr.q", pair[1], at)
		a.v("fcvtl", pair[0], pair[1])
		a.v("fcvtl2", pair[1], pair[1])
	case bf16:
		a.v("ldr.q", pair[1], at)
		a.widenBF16(pair)
	}
}

// widenBF16 widens eight numbers in the second register to both.
func (a neon) widenBF16(pair regs) {
	a.v("shll", pair[0], pair[1])
	a.v("shll2", pair[1], pair[1])
}
