package main

import (
	"fmt"
	"strings"
)

// Go's assembler knows few of arm64's vector instructions, so all of them are
// written as words, with the usual text beside them. What is encoded here are
// the groups of the architecture's manual, "Data Processing, Scalar
// Floating-Point and Advanced SIMD" and "Loads and Stores", for registers of
// 128 bits: operands come as in the manual, the result first.

// A vreg is one of the 32 vector registers, an xreg a general register.
type (
	vreg int
	xreg int
)

// A lane is a 32-bit element of a register.
type lane struct {
	reg   vreg
	index int
}

// A slot is memory at a distance from where a register points.
type slot struct {
	base xreg
	disp int
}

// String names a general register as Go's assembler does.
func (r xreg) String() string { return fmt.Sprintf("R%d", int(r)) }

// scalar names a vector register's lowest lane as Go's assembler does.
func (r vreg) scalar() string { return fmt.Sprintf("F%d", int(r)) }

// A group is instructions whose fields lie at the same places.
type group uint8

const (
	threeSame group = iota // of registers of the same shape
	twoMisc                // one source
	acrossLanes
	byElement
	byShift
	structures // memory, after which the address moves on
)

// groupBits are the fixed bits of a group, and where its opcode is.
var groupBits = map[group]struct{ fixed, opcodeAt uint32 }{
	threeSame:   {0x0e200400, 11},
	twoMisc:     {0x0e200800, 12},
	acrossLanes: {0x0e300800, 12},
	byElement:   {0x0f000000, 12},
	byShift:     {0x0f000400, 11},
	structures:  {0x0c9f0000, 12},
}

// An instruction is the fields that tell it from others of its group. q says
// that all 128 bits take part, or the upper half of a source or result.
type instruction struct {
	group              group
	q, u, size, opcode uint32
	shapes             string // of its registers, the result first
}

// instructions are all that the kernels use, but those that [encodeOther]
// knows. Where one mnemonic has several shapes, the name has that of the result.
var instructions = map[string]instruction{
	"fadd":  {threeSame, 1, 0, 0, 0b11010, "4s 4s 4s"},
	"fsub":  {threeSame, 1, 0, 2, 0b11010, "4s 4s 4s"},
	"fmul":  {threeSame, 1, 1, 0, 0b11011, "4s 4s 4s"},
	"fdiv":  {threeSame, 1, 1, 0, 0b11111, "4s 4s 4s"},
	"fmla":  {threeSame, 1, 0, 0, 0b11001, "4s 4s 4s"},
	"fmls":  {threeSame, 1, 0, 2, 0b11001, "4s 4s 4s"},
	"fmax":  {threeSame, 1, 0, 0, 0b11110, "4s 4s 4s"},
	"fmin":  {threeSame, 1, 0, 2, 0b11110, "4s 4s 4s"},
	"fcmge": {threeSame, 1, 1, 0, 0b11100, "4s 4s 4s"},
	"fcmgt": {threeSame, 1, 1, 2, 0b11100, "4s 4s 4s"},
	"add":   {threeSame, 1, 0, 2, 0b10000, "4s 4s 4s"},
	"cmtst": {threeSame, 1, 0, 2, 0b10001, "4s 4s 4s"},
	"and":   {threeSame, 1, 0, 0, 0b00011, "16b 16b 16b"},
	"bic":   {threeSame, 1, 0, 1, 0b00011, "16b 16b 16b"},
	"orr":   {threeSame, 1, 0, 2, 0b00011, "16b 16b 16b"},
	"eor":   {threeSame, 1, 1, 0, 0b00011, "16b 16b 16b"},
	"bit":   {threeSame, 1, 1, 2, 0b00011, "16b 16b 16b"},

	"scvtf":   {twoMisc, 1, 0, 0, 0b11101, "4s 4s"},
	"fcvtns":  {twoMisc, 1, 0, 0, 0b11010, "4s 4s"},
	"fabs":    {twoMisc, 1, 0, 2, 0b01111, "4s 4s"},
	"fneg":    {twoMisc, 1, 1, 2, 0b01111, "4s 4s"},
	"neg":     {twoMisc, 1, 1, 2, 0b01011, "4s 4s"},
	"fcvtl":   {twoMisc, 0, 0, 0, 0b10111, "4s 4h"},
	"fcvtl2":  {twoMisc, 1, 0, 0, 0b10111, "4s 8h"},
	"shll":    {twoMisc, 0, 1, 1, 0b10011, "4s 4h #16"},
	"shll2":   {twoMisc, 1, 1, 1, 0b10011, "4s 8h #16"},
	"xtn.4h":  {twoMisc, 0, 0, 1, 0b10010, "4h 4s"},
	"xtn2.8h": {twoMisc, 1, 0, 1, 0b10010, "8h 4s"},
	"xtn.8b":  {twoMisc, 0, 0, 0, 0b10010, "8b 8h"},
	// The result is the upper half of sixteen bytes.
	"xtn2.16b": {twoMisc, 1, 0, 0, 0b10010, "16b 8h"},

	"addv":  {acrossLanes, 1, 0, 2, 0b11011, "s 4s"},
	"fmaxv": {acrossLanes, 1, 1, 0, 0b01111, "s 4s"},

	"fmla[]": {byElement, 1, 0, 2, 0b0001, "4s 4s s"},
	"fmls[]": {byElement, 1, 0, 2, 0b0101, "4s 4s s"},
	"fmul[]": {byElement, 1, 0, 2, 0b1001, "4s 4s s"},
	"sdot[]": {byElement, 1, 0, 2, 0b1110, "4s 16b 4b"},

	"shl.4s":   {byShift, 1, 0, 32, 0b01010, "4s 4s"},
	"shl.8h":   {byShift, 1, 0, 16, 0b01010, "8h 8h"},
	"shl.16b":  {byShift, 1, 0, 8, 0b01010, "16b 16b"},
	"sshr.4s":  {byShift, 1, 0, 32, 0b00000, "4s 4s"},
	"ushr.16b": {byShift, 1, 1, 8, 0b00000, "16b 16b"},
	"sxtl.8h":  {byShift, 0, 0, 8, 0b10100, "8h 8b"},
	"sxtl2.8h": {byShift, 1, 0, 8, 0b10100, "8h 16b"},
	"sxtl.4s":  {byShift, 0, 0, 16, 0b10100, "4s 4h"},
	"sxtl2.4s": {byShift, 1, 0, 16, 0b10100, "4s 8h"},
	"uxtl.8h":  {byShift, 0, 1, 8, 0b10100, "8h 8b"},
	"uxtl.4s":  {byShift, 0, 1, 16, 0b10100, "4s 4h"},

	"st2": {structures, 1, 0, 2, 0b1000, "4s"},
	"ld2": {structures, 1, 0, 2, 0b1000, "4s"},
}

// encode returns an instruction and how it is usually written.
func encode(name string, operands ...any) (word uint32, text string) {
	if last, ok := operands[len(operands)-1].(lane); ok && name != "dup" {
		return instructions[name+"[]"].element(name, operands[0].(vreg), operands[1].(vreg), last)
	}
	in, ok := instructions[name]
	if !ok {
		return encodeOther(name, operands)
	}
	mnemonic, _, _ := strings.Cut(name, ".")
	switch in.group {
	case byShift:
		return in.shift(mnemonic, operands)
	case structures:
		return in.pairs(mnemonic, operands[0].(vreg), operands[1].(xreg))
	}
	shapes, words := strings.Fields(in.shapes), []string{}
	word = in.bits()
	for i, o := range operands {
		r := o.(vreg)
		word |= uint32(r) << [...]int{0, 5, 16}[i]
		words = append(words, r.shaped(shapes[i]))
	}
	return word, mnemonic + " " + strings.Join(append(words, shapes[len(operands):]...), ", ")
}

// bits returns all but the operands. With a shift, the place of the size is the operand's.
func (in instruction) bits() uint32 {
	g, size := groupBits[in.group], in.size<<22
	switch in.group {
	case byShift:
		size = 0
	case structures:
		size = in.size << 10
	}
	return g.fixed | in.q<<30 | in.u<<29 | size | in.opcode<<g.opcodeAt
}

// shaped returns a register and how it is divided: "s" is its lowest element.
func (r vreg) shaped(shape string) string {
	if shape == "s" {
		return fmt.Sprintf("s%d", int(r))
	}
	return fmt.Sprintf("v%d.%s", int(r), shape)
}

// element encodes an operation of vectors with one element of a register.
func (in instruction) element(name string, d, n vreg, m lane) (uint32, string) {
	if in.shapes == "" {
		panic("no instruction by element: " + name)
	}
	low, high := uint32(m.index)&1, uint32(m.index)>>1
	shapes := strings.Fields(in.shapes)
	return in.bits() | low<<21 | uint32(m.reg)<<16 | high<<11 | uint32(n)<<5 | uint32(d),
		fmt.Sprintf("%s %s, %s, v%d.%s[%d]", name, d.shaped(shapes[0]), n.shaped(shapes[1]), int(m.reg), shapes[2],
			m.index)
}

// shift encodes a shift by a constant. The field has the sum of the element's
// bits and a shift to the left, or twice these bits less a shift to the right.
// Instructions that extend elements are shifts by none.
func (in instruction) shift(mnemonic string, operands []any) (uint32, string) {
	d, n := operands[0].(vreg), operands[1].(vreg)
	shapes := strings.Fields(in.shapes)
	text := fmt.Sprintf("%s %s, %s", mnemonic, d.shaped(shapes[0]), n.shaped(shapes[1]))
	field := in.size
	if len(operands) > 2 {
		by := operands[2].(int)
		text += fmt.Sprintf(", #%d", by)
		if field += uint32(by); in.opcode == 0 {
			field = 2*in.size - uint32(by)
		}
	}
	return in.bits() | field<<16 | uint32(n)<<5 | uint32(d), text
}

// pairs encodes the exchange of two registers with eight words, of which the
// first takes those at even places.
func (in instruction) pairs(mnemonic string, t vreg, base xreg) (uint32, string) {
	const load = 1 << 22
	word := in.bits() | uint32(base)<<5 | uint32(t)
	if mnemonic == "ld2" {
		word |= load
	}
	return word, fmt.Sprintf("%s {v%d.4s, v%d.4s}, [x%d], #32", mnemonic, int(t), int(t)+1, int(base))
}

// transfers are loads and stores of a register's lowest bytes: the fields size and opc, and how many bytes.
var transfers = map[string]struct{ size, opc, bytes uint32 }{
	"ldr.q": {0, 3, 16}, "str.q": {0, 2, 16}, "ldr.d": {3, 1, 8}, "ldr.s": {2, 1, 4}, "str.s": {2, 0, 4},
}

// encodeOther encodes what stands alone in its group.
func encodeOther(name string, operands []any) (uint32, string) {
	d := operands[0].(vreg)
	if t, ok := transfers[name]; ok {
		at := operands[1].(slot)
		scaled := uint32(at.disp) / t.bytes
		if uint32(at.disp)%t.bytes != 0 || scaled >= 1<<12 {
			panic(fmt.Sprintf("%s cannot reach %d bytes", name, at.disp))
		}
		address := fmt.Sprintf("[x%d, #%d]", int(at.base), at.disp)
		if at.disp == 0 {
			address = fmt.Sprintf("[x%d]", int(at.base))
		}
		return t.size<<30 | 0x3d000000 | t.opc<<22 | scaled<<10 | uint32(at.base)<<5 | uint32(d),
			fmt.Sprintf("%s %s%d, %s", name[:3], name[4:], int(d), address)
	}
	switch name {
	case "mov":
		n := operands[1].(vreg)
		word, _ := encode("orr", d, n, n)
		return word, fmt.Sprintf("mov %s, %s", d.shaped("16b"), n.shaped("16b"))
	case "movi.16b":
		return 0x4f00e400 | immediate(operands[1].(int)) | uint32(d), fmt.Sprintf("movi %s, #%#x", d.shaped("16b"),
			operands[1])
	case "bic.8h": // clears bits of each upper byte
		return 0x6f00b400 | immediate(operands[1].(int)) | uint32(d), fmt.Sprintf("bic %s, #%#x, lsl #8",
			d.shaped("8h"), operands[1])
	case "dup":
		if r, ok := operands[1].(xreg); ok {
			return 0x4e040c00 | uint32(r)<<5 | uint32(d), fmt.Sprintf("dup %s, w%d", d.shaped("4s"), int(r))
		}
		from := operands[1].(lane)
		return 0x4e040400 | uint32(from.index)<<19 | uint32(from.reg)<<5 | uint32(d),
			fmt.Sprintf("dup %s, v%d.s[%d]", d.shaped("4s"), int(from.reg), from.index)
	}
	panic("no instruction " + name)
}

// immediate returns a byte in the two places where instructions have it.
func immediate(b int) uint32 { return uint32(b)>>5<<16 | uint32(b)&31<<5 }
