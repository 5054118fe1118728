package main

import "fmt"

// neon writes kernels for arm64 with its vector instructions and those for
// sums of four products of bytes (FEAT_DotProd). It keeps functions,
// parameters, labels and constants as the assembler does, and nothing else of it.
//
// A value of sixteen lanes is four registers. For each row, output and query
// the kernels compute what those for amd64 do, in the same order.
type neon struct{ *assembler }

// Kernels leave R16 to R18 and R27 to R30 alone, which are the linker's, the
// system's, the assembler's and the runtime's.
const (
	counter     xreg = 19
	inner       xreg = 20
	constantsAt xreg = 21
)

// A regs is the registers of one value.
type regs []vreg

// between returns n registers, from the i-th on.
func between(i, n int) regs {
	if i+n > 32 {
		panic(fmt.Sprintf("arm64 has no register %d", i+n-1))
	}
	rs := make(regs, n)
	for j := range rs {
		rs[j] = vreg(i + j)
	}
	return rs
}

// value returns the registers of the i-th value of sixteen lanes.
func value(i int) regs { return between(4*i, 4) }

// values returns n values, the first of which is in the i-th register and the following.
func values(i, n int) []regs {
	vs := make([]regs, n)
	for j := range vs {
		vs[j] = between(i+4*j, 4)
	}
	return vs
}

// v writes one vector instruction.
func (a neon) v(name string, operands ...any) {
	word, text := encode(name, operands...)
	fmt.Fprintf(&a.text, "\tWORD $0x%08x // %s\n", word, text)
}

// each writes an instruction for every register of its first operand.
func (a neon) each(name string, operands ...any) {
	for p := range operands[0].(regs) {
		one := make([]any, len(operands))
		for i, o := range operands {
			switch o := o.(type) {
			case regs:
				one[i] = o[p]
			case slot:
				one[i] = slot{o.base, o.disp + 16*p}
			default:
				one[i] = o
			}
		}
		a.v(name, one...)
	}
}

func (a neon) zero(vs ...regs) {
	for _, v := range vs {
		a.each("movi.16b", v, 0)
	}
}

// begin starts a function that is named for the instruction set.
func (a neon) begin(name, doc string, params ...string) {
	a.assembler.begin(name+"NEON", doc, params...)
}

// load reads an eight-byte parameter.
func (a neon) load(name string, r xreg) { a.op("MOVD", a.arg(name), r) }

// loads reads eight-byte parameters into registers from the first on.
func (a neon) loads(first xreg, names ...string) {
	for i, name := range names {
		a.load(name, first+xreg(i))
	}
}

// spread reads a float32 parameter into all lanes.
func (a neon) spread(name string, r vreg) {
	a.op("FMOVS", a.arg(name), r.scalar())
	a.v("dup", r, lane{r, 0})
}

// useConstants must come before the first use of one.
func (a neon) useConstants() { a.op("MOVD", "$constants<>(SB)", constantsAt) }

// float returns where a constant is, four times as often as a register has lanes.
func (a neon) float(f float64) slot { return slot{constantsAt, a.assembler.float(f).disp} }

// times writes body as a loop of n rounds; no round if it is not positive. n is used up.
func (a neon) times(n xreg, body func()) {
	loop, done := a.newLabel("loop"), a.newLabel("done")
	a.op("CMP", 0, n)
	a.op("BLE", done)
	a.label(loop)
	body()
	a.op("SUBS", 1, n, n)
	a.op("BNE", loop)
	a.label(done)
}

// advance moves a pointer.
func (a neon) advance(r xreg, by int) { a.op("ADD", by, r, r) }

func (a neon) end() { a.op("RET") }

// pause waits for the instructions before it, which takes about as long as a
// pause does elsewhere; the hint to yield takes no time at all on most processors.
func (a neon) pause() {
	a.assembler.begin("pause", "waits for n times as long as it takes to empty the processor's pipeline.", "n int")
	a.load("n", counter)
	a.times(counter, func() { a.op("ISB", 15) })
	a.end()
}

func (a neon) prefetch() {
	const line = 64
	a.assembler.begin("prefetch", "asks for x to be brought into the cache.", "x []byte")
	a.loads(0, "x_base", "x_len")
	a.op("ADD", line-1, xreg(1), xreg(1))
	a.op("LSR", 6, xreg(1), counter)
	a.times(counter, func() {
		a.op("PRFM", "(R0)", "PLDL1KEEP")
		a.advance(0, line)
	})
	a.end()
}
