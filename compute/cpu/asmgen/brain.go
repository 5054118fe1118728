package main

import "fmt"

// The kernels here multiply bfloat16 numbers with the matrix unit: "brain"
// floats, which are the upper halves of float32. An activation is rounded to one
// of them, or taken as the sum of two. Products of two such numbers are exact in
// float32.
//
// The matrix unit takes steps of 32 columns. A row of activations is
// [step][part][32]. A panel of weights is [step][16][32][2]: pairs of columns,
// side by side for each output.
const (
	stepColumns = 32
	actStep     = 2 * stepColumns // bytes of a part
	weightStep  = actStep * panelOutputs
)

// A brainClass says of how many parts activations are. Part 0 is the greatest;
// in each step the last one meets the weights first.
type brainClass struct {
	name  string
	parts int
}

var (
	brainRounded = brainClass{"Rounded", 1}
	brainSplit   = brainClass{"Split", 2}
)

// The tiles of these kernels: sums of 32 rows by 32 outputs in four, of which
// the outer index is that of the rows; then weights and activations.
const (
	brainSums    tile = 0
	brainWeights tile = 4
	brainActs    tile = 6
)

// brain writes the kernels for bfloat16.
func (a *assembler) brain() {
	for _, wide := range []bool{false, true} {
		a.splitRows("round", 1, wide)
		a.splitRows("split", 2, wide)
	}
	a.roundF16()
	for _, q := range packings {
		a.roundPacked(q)
	}
	a.brainFew(bf16, brainSplit)
	a.brainFew(bf16, brainRounded)
	a.brainFew(f16, brainRounded)
	for _, c := range []brainClass{brainSplit, brainRounded} {
		a.brainTiles(c, 1)
		a.brainTiles(c, 2)
	}
}

// tileDotBrain adds the products of pairs of bfloat16 to sum.
func (a *assembler) tileDotBrain(weights, act, sum tile) {
	a.vex(fmt.Sprintf("TDPBF16PS T%d, T%d, T%d", weights, act, sum), vexF3, int(weights), 0x5c, 0, 0,
		0xc0|int(sum)<<3|int(act))
}

// Registers that hold constants while numbers are rounded. Masks of quantized
// weights have others.
const (
	brainUpper = "Z29" // the upper half of each lane
	brainHalf  = "Z28" // half of what is cut off, or the next less
	brainLow   = "Z27" // one byte or one bit
)

// splitRows rounds floats to the nearest bfloat16, of two the even one, and
// what remains to a second one. wide writes the parts as float32.
func (a *assembler) splitRows(verb string, parts int, wide bool) {
	name, dst, form, size := verb+"RowsAVX512", "dst []byte", "bfloat16", actStep
	if wide {
		name, dst, form, size = verb+"FloatsAVX512", "dst []float32", "bfloat16, each in a float32", 2*actStep
	}
	a.begin(name, fmt.Sprintf("writes steps of 32 floats as parts of %s: %d.", form, parts), dst, "src []float32",
		"steps int")
	a.load("dst_base", "DI")
	a.load("src_base", "SI")
	a.load("steps", "CX")
	a.op("VMOVDQU32", a.bits(0xffff0000), brainUpper)
	a.op("VMOVDQU32", a.bits(0x7fff), brainHalf)
	a.op("VMOVDQU32", a.bits(1), brainLow)
	a.times("CX", func() {
		for h := range 2 {
			x, rounded, temp := fmt.Sprintf("Z%d", 3*h), fmt.Sprintf("Z%d", 3*h+1), fmt.Sprintf("Z%d", 3*h+2)
			a.op("VMOVUPS", at("(SI)", h*64), x)
			for part := range parts {
				a.op("VPSRLD", 16, x, temp)
				a.op("VPANDD", brainLow, temp, temp)
				a.op("VPADDD", x, temp, temp)
				a.op("VPADDD", brainHalf, temp, temp)
				a.op("VPANDD", brainUpper, temp, rounded)
				if wide {
					a.op("VMOVUPS", rounded, at("(DI)", part*size+h*64))
				} else {
					a.op("VPSRLD", 16, temp, temp)
					a.op("VPMOVDW", temp, at("(DI)", part*size+h*32))
				}
				a.op("VSUBPS", rounded, x, x)
			}
		}
		a.op("ADDQ", 4*stepColumns, "SI")
		a.op("ADDQ", parts*size, "DI")
	})
	a.end()
}

// roundF16 writes the columns of a panel of half floats as bfloat16.
func (a *assembler) roundF16() {
	a.begin("roundF16AVX512", "writes steps of a panel of half floats as bfloat16.", "dst []byte", "panel []byte",
		"steps int")
	a.load("dst_base", "DI")
	a.load("panel_base", "DX")
	a.load("steps", "CX")
	a.loadRounding()
	a.times("CX", func() {
		a.fetchAhead(weightStep, 1)
		for pair := range stepColumns / 2 {
			for h := range 2 {
				v := [2]string{fmt.Sprintf("Z%d", 2*(pair%4)), fmt.Sprintf("Z%d", 2*(pair%4)+1)}
				for c := range v {
					a.op("VCVTPH2PS", at("(DX)", (2*pair+c)*2*panelOutputs+h*32), v[c])
					a.op("VPADDD", brainHalf, v[c], v[c])
				}
				a.storePair(v, pair*4*panelOutputs+h*64)
			}
		}
		a.op("ADDQ", weightStep, "DX")
		a.op("ADDQ", weightStep, "DI")
	})
	a.end()
}

// loadRounding sets the constants for rounding as weights are.
func (a *assembler) loadRounding() {
	a.op("VMOVDQU32", a.bits(0xffff0000), brainUpper)
	a.op("VMOVDQU32", a.bits(0x8000), brainHalf)
}

// storePair writes the upper halves of two vectors side by side.
func (a *assembler) storePair(v [2]string, disp int) {
	const firstOrUpperSecond = 0xf8
	a.op("VPSRLD", 16, v[0], v[0])
	a.op("VPTERNLOGD", firstOrUpperSecond, brainUpper, v[1], v[0])
	a.op("VMOVDQU32", v[0], at("(DI)", disp))
}

// roundPacked writes quantized weights as bfloat16: a product with the scale
// and a sum, rounded once.
func (a *assembler) roundPacked(q packing) {
	m := avx512
	a.begin("round"+q.name+m.suffix, "writes blocks of a panel as bfloat16.", "dst []byte", "panel []byte",
		"blocks int")
	a.load("dst_base", "DI")
	a.load("panel_base", "DX")
	a.load("blocks", "CX")
	a.loadRounding()
	a.op("VMOVDQU32", a.bits(0xff), brainLow)
	a.loadMasks(m, q)
	a.overBlocks(q, func() {
		a.fetchAhead(q.block(), 1)
		for p := range 2 {
			for sub := range q.subs {
				const scale, offset, v, temp = "Z0", "Z1", "Z2", "Z3"
				a.scale(m, q, sub, p*16, scale, temp)
				a.op("VMULPS", a.float(-float64(q.zero)), scale, offset)
				if q.mins {
					a.minimum(p*16, offset, temp)
					a.op("VPXORD", a.bits(1<<31), offset, offset)
				}
				for _, j := range q.groups(sub) {
					a.weights(m, q, j, p*16, v, temp)
					a.roundGroup(v, j*8*panelOutputs+p*64)
				}
			}
		}
		a.op("ADDQ", weightStep, "DI")
	})
	a.end()
}

// roundGroup writes the four columns whose weights are the bytes of v, as two pairs.
func (a *assembler) roundGroup(v string, disp int) {
	const scale, offset = "Z0", "Z1"
	for pair := range 2 {
		var c [2]string
		for i := range c {
			c[i] = fmt.Sprintf("Z%d", 4+2*pair+i)
			column := 2*pair + i
			switch column {
			case 0:
				a.op("VPANDD", brainLow, v, c[i])
			case 3:
				a.op("VPSRLD", 24, v, c[i])
			default:
				a.op("VPSRLD", 8*column, v, c[i])
				a.op("VPANDD", brainLow, c[i], c[i])
			}
			a.op("VCVTDQ2PS", c[i], c[i])
			a.op("VFMADD213PS", offset, scale, c[i])
			a.op("VPADDD", brainHalf, c[i], c[i])
		}
		a.storePair(c, disp+pair*4*panelOutputs)
	}
}

// brainTiles multiplies one or two tiles of rows with a panel. How many rows a
// tile has is said by the configuration, so that results go where they belong.
func (a *assembler) brainTiles(c brainClass, tiles int) {
	name, rows := "brain"+c.name+"AMX", "up to 16 rows"
	if tiles == 2 {
		name, rows = "brain"+c.name+"PairAMX", "n times 32 rows, or once 17 to 32,"
	}
	a.begin(name, "multiplies "+rows+" with steps of a panel. With more, it adds to what dst holds.",
		"n int", "dst []float32", "dstStride int", "act []byte", "actStride int", "panel []byte", "steps int",
		"config []byte", "more bool")
	a.load("config_base", "AX")
	a.vex("LDTILECFG (AX)", vexNone, 0, 0x49, 0, 0, 0x00)
	a.load("dst_base", "DI")
	a.load("dstStride", "R8")
	a.op("SHLQ", 2, "R8")
	a.load("actStride", "R9")
	a.load("act_base", "SI")
	a.load("n", "BX")
	a.op("MOVQ", 4*panelOutputs, "R15")
	a.times("BX", func() {
		a.op("MOVQ", "SI", "R10")
		a.op("MOVQ", "R9", "AX")
		a.op("SHLQ", 4, "AX")
		a.op("LEAQ", "(SI)(AX*1)", "R11")
		a.op("LEAQ", "(R11)(AX*1)", "SI")
		a.op("MOVQ", "R8", "AX")
		a.op("SHLQ", 4, "AX")
		a.op("LEAQ", "(DI)(AX*1)", "R12")
		a.load("panel_base", "DX")
		a.load("steps", "CX")
		a.startBrainSums(tiles)
		a.times("CX", func() { a.brainStep(c, tiles) })
		a.overBrainSums(tiles, func(sum tile, base string, disp int) { a.tileStore(sum, base, disp, "R8") })
		a.op("LEAQ", "(R12)(AX*1)", "DI")
	})
	a.tileRelease()
	a.end()
}

// overBrainSums calls f for each tile of sums with where it lies in dst.
func (a *assembler) overBrainSums(tiles int, f func(sum tile, base string, disp int)) {
	for i := range tiles {
		for h := range 2 {
			f(brainSums+tile(2*i+h), []string{"DI", "R12"}[i], h*64)
		}
	}
}

// startBrainSums sets the sums to zero, or to what dst holds.
func (a *assembler) startBrainSums(tiles int) {
	add, ready := a.newLabel("add"), a.newLabel("ready")
	a.op("CMPB", a.arg("more"), 0)
	a.op("JNE", add)
	a.overBrainSums(tiles, func(sum tile, _ string, _ int) { a.tileZero(sum) })
	a.op("JMP", ready)
	a.label(add)
	a.overBrainSums(tiles, func(sum tile, base string, disp int) { a.tileLoad(sum, base, disp, "R8") })
	a.label(ready)
}

// brainStep adds the products of one step.
func (a *assembler) brainStep(c brainClass, tiles int) {
	if tiles == 1 {
		a.fetchAhead(weightStep, 1)
	}
	for part := c.parts - 1; part >= 0; part-- {
		for i := range tiles {
			a.tileLoad(brainActs+tile(i), []string{"R10", "R11"}[i], part*actStep, "R9")
		}
		for h := range 2 {
			w := brainWeights + tile(h)
			if part == c.parts-1 {
				a.tileLoad(w, "DX", h*64, "R15")
			}
			for i := range tiles {
				a.tileDotBrain(w, brainActs+tile(i), brainSums+tile(2*i+h))
			}
		}
	}
	for _, base := range []string{"R10", "R11"}[:tiles] {
		a.op("ADDQ", c.parts*actStep, base)
	}
	a.op("ADDQ", weightStep, "DX")
}
