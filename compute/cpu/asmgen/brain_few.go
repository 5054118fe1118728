package main

import "fmt"

// fewLimit is the most rows of a kernel that computes with vectors what the
// matrix unit does.
const fewLimit = 4

// fewAhead is how many bytes ahead weights are asked for.
const fewAhead = 4096

// The words of the register that controls floats: as Go leaves it, and such that
// numbers too small to be normal are zero, as the matrix unit has it.
const (
	controlUsual = 0x1f80
	controlFlush = 0x9fc0
)

// brainFew writes the kernel that does for few rows what brainTiles does, bit
// by bit, with vectors: the matrix unit would wait for memory in vain. The parts of the
// activations are float32 each, the panel is stored as it is for w.
//
// For each part there are two sums for sixteen outputs, of even and of odd
// columns, which are added to the result after each step.
func (a *assembler) brainFew(w weightType, c brainClass) {
	a.begin("few"+w.name+c.name+"AVX512", fmt.Sprintf(
		"multiplies up to %d rows with steps of a panel of %s, as brain%sAMX does.", fewLimit, w.name, c.name),
		"rows int", "dst []float32", "dstStride int", "x []float32", "xStride int", "panel []byte", "steps int",
		"more bool")
	a.loadRows("x_base", "xStride", 2)
	a.load("steps", "CX")
	a.loadRounding()
	a.op("VLDMXCSR", a.bits(controlFlush))
	a.byRows(fewLimit, func(rows int) {
		a.clearUnlessMore(rows)
		a.times("CX", func() {
			for h := range 2 {
				a.fewStep(w, c, rows, h)
			}
			for _, base := range []string{"SI", "R10"} {
				a.op("ADDQ", c.parts*4*stepColumns, base)
			}
			a.op("ADDQ", weightStep, "DX")
		})
		a.op("VLDMXCSR", a.bits(controlUsual))
	})
}

// clearUnlessMore sets the results to zero, unless they are to be added to.
func (a *assembler) clearUnlessMore(rows int) {
	ready := a.newLabel("ready")
	a.op("CMPB", a.arg("more"), 0)
	a.op("JNE", ready)
	a.op("VPXORD", "Z0", "Z0", "Z0")
	a.op("MOVQ", "DI", "BX")
	for r := range rows {
		for h := range 2 {
			a.op("VMOVUPS", "Z0", at("(BX)", h*64))
		}
		if r < rows-1 {
			a.op("ADDQ", "R8", "BX")
		}
	}
	a.label(ready)
}

// fewStep adds a step of sixteen outputs. Cache lines ahead are asked for one
// after the other: there is no room for all of a step's at once.
func (a *assembler) fewStep(w weightType, c brainClass, rows, h int) {
	sum := func(part, odd, row int) string { return fmt.Sprintf("Z%d", (part*2+odd)*rows+row) }
	for i := range 2 * rows * c.parts {
		z := fmt.Sprintf("Z%d", i)
		a.op("VPXORD", z, z, z)
	}
	for col := range stepColumns {
		pair, odd := col/2, col%2
		if odd == 0 {
			a.op("PREFETCHT0", at("(DX)", fewAhead+(16*h+pair)*64))
		}
		weight := fmt.Sprintf("Z%d", 24+col%3)
		a.fewWeight(w, pair, odd, h, weight)
		for part := range c.parts {
			for r := range rows {
				a.op("VFMADD231PS.BCST", at(rowAddress(r), part*4*stepColumns+4*col), weight, sum(part, odd, r))
			}
		}
	}
	a.op("MOVQ", "DI", "BX")
	const total = "Z24"
	for r := range rows {
		a.op("VMOVUPS", at("(BX)", h*64), total)
		for part := c.parts - 1; part >= 0; part-- {
			a.op("VADDPS", sum(part, 1, r), sum(part, 0, r), sum(part, 0, r))
			a.op("VADDPS", sum(part, 0, r), total, total)
		}
		a.op("VMOVUPS", total, at("(BX)", h*64))
		if r < rows-1 {
			a.op("ADDQ", "R8", "BX")
		}
	}
}

// fewWeight loads one column's weights as float32.
func (a *assembler) fewWeight(w weightType, pair, odd, h int, dst string) {
	switch {
	case w == f16:
		a.op("VCVTPH2PS", at("(DX)", (2*pair+odd)*2*panelOutputs+h*32), dst)
		a.op("VPADDD", brainHalf, dst, dst)
		a.op("VPANDD", brainUpper, dst, dst)
	case odd == 1:
		a.op("VPANDD", at("(DX)", pair*4*panelOutputs+h*64), brainUpper, dst)
	default:
		a.op("VPSLLD", 16, at("(DX)", pair*4*panelOutputs+h*64), dst)
	}
}
