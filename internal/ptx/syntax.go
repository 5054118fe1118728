package ptx

import "strings"

// A typ is a PTX type: class u, s, b, f, h (bfloat16), p (predicate), t (tf32)
// or e (eight-bit floats), its bits, and how many are packed together.
type typ struct {
	class byte
	bits  int
	pack  int
}

func (t typ) size() int    { return t.bits * t.pack / 8 }
func (t typ) signed() bool { return t.class == 's' }
func (t typ) float() bool  { return t.class == 'f' || t.class == 'h' }

var types = map[string]typ{
	"pred": {'p', 1, 1},
	"b8":   {'b', 8, 1}, "b16": {'b', 16, 1}, "b32": {'b', 32, 1}, "b64": {'b', 64, 1}, "b128": {'b', 128, 1},
	"u8": {'u', 8, 1}, "u16": {'u', 16, 1}, "u32": {'u', 32, 1}, "u64": {'u', 64, 1},
	"s8": {'s', 8, 1}, "s16": {'s', 16, 1}, "s32": {'s', 32, 1}, "s64": {'s', 64, 1},
	"f16": {'f', 16, 1}, "f32": {'f', 32, 1}, "f64": {'f', 64, 1},
	"f16x2": {'f', 16, 2}, "bf16": {'h', 16, 1}, "bf16x2": {'h', 16, 2}, "tf32": {'t', 32, 1},
	"e4m3": {'e', 8, 1}, "e5m2": {'E', 8, 1}, "e4m3x2": {'e', 8, 2}, "e5m2x2": {'E', 8, 2},
	"u16x2": {'u', 16, 2}, "s16x2": {'s', 16, 2},
}

type operandKind byte

const (
	opName    operandKind = iota // register or symbol, perhaps with an offset
	opInt                        // integer literal
	opFloat                      // 0f, 0d or decimal literal
	opAddress                    // [ ... ]
	opVector                     // { ... }
	opSink                       // _
	opList                       // ( ... ), as in call
)

// An operand is one argument of an instruction as it was written.
type operand struct {
	kind   operandKind
	name   string
	offset int64     // of a name in an address
	not    bool      // !p
	minus  bool      // -r, which no instruction that we know takes
	value  uint64    // of an integer, or the bits of a float
	wide   bool      // the float's bits are those of a float64
	list   []operand // of a vector, an address or a list
	second *operand  // q of p|q
}

type statementKind byte

const (
	stInstruction statementKind = iota
	stLabel
	stOpen
	stClose
	stRegister
	stVariable
	stTargets
)

// A statement is one line of a function's body.
type statement struct {
	kind     statementKind
	line     int
	guard    string
	guardNot bool
	opcode   string
	operands []operand
	name     string   // of a label or a register
	typ      typ      // of registers
	variable variable // of a declaration
	targets  []string // of .branchtargets
	text     string
}

// A variable is a declaration in a state space.
type variable struct {
	space  string
	name   string
	typ    typ
	align  int
	size   int
	extern bool
	init   []byte
	refs   []reference // addresses inside init
	line   int
}

// A reference asks for the address of a symbol at an offset of the initialiser.
type reference struct {
	at     int
	symbol string
	add    int64
}

// A function is an .entry or a .func.
type function struct {
	name    string
	entry   bool
	params  []variable
	results []variable
	body    []statement
	maxntid [3]int
	reqntid [3]int
	line    int
	defined bool
}

// modifiers are the parts of an opcode after its name; taking one marks it as
// understood, and what is left over at the end is an error.
type modifiers struct {
	name  string
	parts []string
}

func newModifiers(opcode string) *modifiers {
	parts := strings.Split(opcode, ".")
	return &modifiers{name: parts[0], parts: parts[1:]}
}

// take removes the first part that is one of names and returns it.
func (m *modifiers) take(names ...string) string {
	for i, part := range m.parts {
		for _, name := range names {
			if part == name {
				m.parts = append(m.parts[:i:i], m.parts[i+1:]...)
				return name
			}
		}
	}
	return ""
}

func (m *modifiers) has(name string) bool { return m.take(name) != "" }

// drop removes all of names: modifiers without an effect here.
func (m *modifiers) drop(names ...string) {
	for m.take(names...) != "" {
	}
}

// takeType removes the first part that names a type.
func (m *modifiers) takeType() (typ, bool) {
	for i, part := range m.parts {
		if t, ok := types[part]; ok {
			m.parts = append(m.parts[:i:i], m.parts[i+1:]...)
			return t, true
		}
	}
	return typ{}, false
}

// vector removes .v2 or .v4 and returns the number of elements.
func (m *modifiers) vector() int {
	switch m.take("v2", "v4", "v8") {
	case "v2":
		return 2
	case "v4":
		return 4
	case "v8":
		return 8
	}
	return 1
}
