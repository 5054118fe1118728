package syntax

import (
	"strings"

	"parley/internal/ptx/arith"
)

// OperandKind says how an operand is written.
type OperandKind byte

// The kinds of operands.
const (
	NameOperand    OperandKind = iota // register or symbol, perhaps with an offset
	IntOperand                        // integer literal
	FloatOperand                      // 0f, 0d or decimal literal
	AddressOperand                    // [ ... ]
	VectorOperand                     // { ... }
	SinkOperand                       // _
	ListOperand                       // ( ... ), as in call
)

// An Operand is one argument of an instruction as it was written.
type Operand struct {
	Kind   OperandKind
	Name   string
	Offset int64     // of a name in an address
	Not    bool      // !p
	Minus  bool      // -r, which no instruction that we know takes
	Value  uint64    // of an integer, or the bits of a float
	Wide   bool      // the float's bits are those of a float64
	List   []Operand // of a vector, an address or a list
	Second *Operand  // q of p|q
}

// StatementKind says what a statement is.
type StatementKind byte

// The kinds of statements.
const (
	Instruction StatementKind = iota
	Label
	Open
	Close
	Register
	Declaration
	Targets
)

// A Statement is one line of a function's body.
type Statement struct {
	Kind     StatementKind
	Line     int
	Guard    string
	GuardNot bool
	Opcode   string
	Operands []Operand
	Name     string     // of a label or a register
	Type     arith.Type // of registers
	Variable Variable   // of a declaration
	Targets  []string   // of .branchtargets
	Text     string
}

// A Variable is a declaration in a state space.
type Variable struct {
	Space   string
	Name    string
	Type    arith.Type
	Align   int
	Size    int
	Extern  bool
	Initial []byte
	Refs    []Reference // addresses inside init
	line    int
}

// A Reference asks for the address of a symbol at an offset of the initialiser.
type Reference struct {
	At     int
	Symbol string
	Add    int64
}

// A Function is an .entry or a .func.
type Function struct {
	Name       string
	Entry      bool
	Params     []Variable
	Results    []Variable
	Body       []Statement
	MaxThreads [3]int
	ReqThreads [3]int
	Line       int
	Defined    bool
}

// Modifiers are the parts of an opcode after its name; taking one marks it as
// understood, and what is left over at the end is an error.
type Modifiers struct {
	Name  string
	Parts []string
}

// NewModifiers splits an opcode.
func NewModifiers(opcode string) *Modifiers {
	parts := strings.Split(opcode, ".")
	return &Modifiers{Name: parts[0], Parts: parts[1:]}
}

// Take removes the first part that is one of names and returns it.
func (m *Modifiers) Take(names ...string) string {
	for i, part := range m.Parts {
		for _, name := range names {
			if part == name {
				m.Parts = append(m.Parts[:i:i], m.Parts[i+1:]...)
				return name
			}
		}
	}
	return ""
}

// Has takes a modifier and reports whether it was there.
func (m *Modifiers) Has(name string) bool { return m.Take(name) != "" }

// Drop removes all of names: modifiers without an effect here.
func (m *Modifiers) Drop(names ...string) {
	for m.Take(names...) != "" {
	}
}

// TakeType removes the first part that names a type.
func (m *Modifiers) TakeType() (arith.Type, bool) {
	for i, part := range m.Parts {
		if t, ok := arith.Types[part]; ok {
			m.Parts = append(m.Parts[:i:i], m.Parts[i+1:]...)
			return t, true
		}
	}
	return arith.Type{}, false
}

// VectorSize removes .v2 or .v4 and returns the number of elements.
func (m *Modifiers) VectorSize() int {
	switch m.Take("v2", "v4", "v8") {
	case "v2":
		return 2
	case "v4":
		return 4
	case "v8":
		return 8
	}
	return 1
}
