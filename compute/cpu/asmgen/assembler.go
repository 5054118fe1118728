package main

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

// An isa is an instruction set, seen as a machine of sixteen float32 lanes.
type isa struct {
	suffix string // of kernel names
	reg    string // of register names
	parts  int    // registers in a value of sixteen lanes
	regs   int    // registers in all
}

var (
	avx512 = isa{suffix: "AVX512", reg: "Z", parts: 1, regs: 32}
	avx2   = isa{suffix: "AVX2", reg: "Y", parts: 2, regs: 16}
)

// A vec names the registers of one value of sixteen lanes.
type vec []string

// vec returns the i-th value's registers.
func (m isa) vec(i int) vec {
	if (i+1)*m.parts > m.regs {
		panic(fmt.Sprintf("%s has no room for value %d", m.suffix, i))
	}
	v := make(vec, m.parts)
	for p := range v {
		v[p] = fmt.Sprintf("%s%d", m.reg, i*m.parts+p)
	}
	return v
}

// vecs returns n values, from the i-th on.
func (m isa) vecs(i, n int) []vec {
	vs := make([]vec, n)
	for j := range vs {
		vs[j] = m.vec(i + j)
	}
	return vs
}

// half returns the narrower register with the same number: Y of Z, X of Y.
func half(reg string) string {
	return map[byte]string{'Z': "Y", 'Y': "X"}[reg[0]] + reg[1:]
}

// xmm returns the 128-bit register with the same number.
func xmm(reg string) string { return "X" + reg[1:] }

// A mem is a memory operand, part p of which lies p registers further on.
type mem struct {
	disp int
	addr string // such as (SI) or (SI)(R8*2) or table<>(SB)
}

func (o mem) String() string {
	if o.disp == 0 {
		return o.addr
	}
	if before, ok := strings.CutSuffix(o.addr, "(SB)"); ok {
		return before + fmt.Sprintf("+%d(SB)", o.disp)
	}
	return fmt.Sprintf("%d%s", o.disp, o.addr)
}

func (o mem) plus(n int) mem { return mem{o.disp + n, o.addr} }

// at returns the memory at an address such as (SI).
func at(addr string, disp int) mem { return mem{disp, addr} }

// A function is the declaration of a kernel.
type function struct{ name, params, doc string }

// An assembler collects kernels.
type assembler struct {
	text      bytes.Buffer
	functions []function
	constants constantTable
	offsets   map[string]int // of the current function's parameters
	labels    int
}

// op writes one instruction.
func (a *assembler) op(name string, operands ...any) {
	words := make([]string, len(operands))
	for i, o := range operands {
		if n, ok := o.(int); ok {
			o = fmt.Sprintf("$%d", n)
		}
		words[i] = fmt.Sprint(o)
	}
	fmt.Fprintf(&a.text, "\t%s\n", strings.TrimSpace(name+" "+strings.Join(words, ", ")))
}

// each writes an instruction once for every part of its sixteen-lane operands.
func (a *assembler) each(m isa, name string, operands ...any) {
	for p := range m.parts {
		words := make([]any, len(operands))
		for i, o := range operands {
			switch o := o.(type) {
			case vec:
				words[i] = o[p]
			case mem:
				words[i] = o.plus(p * 64 / m.parts)
			default:
				words[i] = o
			}
		}
		a.op(name, words...)
	}
}

func (a *assembler) zero(m isa, vs ...vec) {
	for _, v := range vs {
		if m.parts == 1 {
			a.each(m, "VPXORD", v, v, v)
		} else {
			a.each(m, "VPXOR", v, v, v)
		}
	}
}

// newLabel returns a label that no other place uses.
func (a *assembler) newLabel(name string) string {
	a.labels++
	return fmt.Sprintf("%s%d", name, a.labels)
}

func (a *assembler) label(l string) { fmt.Fprintf(&a.text, "%s:\n", l) }

// times writes body as a loop of counter rounds; no round if it is not
// positive. The counter is used up.
func (a *assembler) times(counter string, body func()) {
	loop, done := a.newLabel("loop"), a.newLabel("done")
	a.op("TESTQ", counter, counter)
	a.op("JLE", done)
	a.label(loop)
	body()
	a.op("DECQ", counter)
	a.op("JNZ", loop)
	a.label(done)
}

// begin starts a function. Parameters are written as in Go, one type each.
func (a *assembler) begin(name, doc string, params ...string) {
	a.offsets = map[string]int{}
	size := 0
	place := func(name string, bytes int) {
		size = (size + bytes - 1) / bytes * bytes
		a.offsets[name] = size
		size += bytes
	}
	for _, p := range params {
		name, typ, _ := strings.Cut(p, " ")
		switch {
		case strings.HasPrefix(typ, "[]"):
			place(name+"_base", 8)
			place(name+"_len", 8)
			place(name+"_cap", 8)
		case typ == "int":
			place(name, 8)
		case typ == "float32" || typ == "uint32":
			place(name, 4)
		case typ == "bool":
			place(name, 1)
		default:
			panic("no size for " + p)
		}
	}
	list := strings.Join(params, ", ")
	a.functions = append(a.functions, function{name, list, "// " + name + " " + doc})
	fmt.Fprintf(&a.text, "\n// func %s(%s)\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", name, list, name, size)
}

// arg returns the operand of a parameter: its name, for slices with _base.
func (a *assembler) arg(name string) string {
	offset, ok := a.offsets[name]
	if !ok {
		panic("no parameter " + name)
	}
	return fmt.Sprintf("%s+%d(FP)", name, offset)
}

// load reads an eight-byte parameter into a general register.
func (a *assembler) load(name, reg string) { a.op("MOVQ", a.arg(name), reg) }

// end leaves the vector unit clean and returns.
func (a *assembler) end() {
	a.op("VZEROUPPER")
	a.op("RET")
}

// pause writes the instruction that makes a spinning thread cheap.
func (a *assembler) pause() {
	a.begin("pause", "hints n times to the processor that this thread only waits.", "n int")
	a.load("n", "CX")
	a.times("CX", func() { a.op("PAUSE") })
	a.op("RET")
}

// prefetch writes the loop that asks for cache lines ahead of their use.
func (a *assembler) prefetch() {
	a.begin("prefetch", "asks for x to be brought into the cache.", "x []byte")
	a.load("x_base", "SI")
	a.load("x_len", "CX")
	a.op("ADDQ", 63, "CX")
	a.op("SHRQ", 6, "CX")
	a.times("CX", func() {
		a.op("PREFETCHT0", "(SI)")
		a.op("ADDQ", 64, "SI")
	})
	a.op("RET")
}

// A constantTable holds 64-byte constants, one per distinct content.
type constantTable struct {
	index map[[16]uint32]int
	rows  [][16]uint32
}

// lanes returns a constant with the given lanes.
func (a *assembler) lanes(bits [16]uint32) mem {
	t := &a.constants
	if t.index == nil {
		t.index = map[[16]uint32]int{}
	}
	i, ok := t.index[bits]
	if !ok {
		i = len(t.rows)
		t.index[bits] = i
		t.rows = append(t.rows, bits)
	}
	return mem{i * 64, "constants<>(SB)"}
}

// bits returns a constant with the same 32 bits in each lane.
func (a *assembler) bits(u uint32) mem {
	var row [16]uint32
	for i := range row {
		row[i] = u
	}
	return a.lanes(row)
}

// float returns a constant with the same number in each lane.
func (a *assembler) float(f float64) mem { return a.bits(math.Float32bits(float32(f))) }

func (t *constantTable) write(b *bytes.Buffer) {
	for i, row := range t.rows {
		for j := 0; j < 16; j += 2 {
			fmt.Fprintf(b, "DATA constants<>+%d(SB)/8, $0x%08x%08x\n", i*64+j*4, row[j+1], row[j])
		}
	}
	fmt.Fprintf(b, "GLOBL constants<>(SB), RODATA|NOPTR, $%d\n", len(t.rows)*64)
}
