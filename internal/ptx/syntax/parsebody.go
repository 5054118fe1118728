package syntax

import (
	"math"
	"strconv"
	"strings"

	"parley/internal/ptx/arith"
)

// body parses a function's statements up to its closing brace.
func (p *parser) body(f *Function) error {
	if err := p.expect("{"); err != nil {
		return err
	}
	for depth := 1; depth > 0; {
		if p.done() {
			return Errorf(p.line(), "function %s has no end", f.Name)
		}
		st, keep, err := p.statement()
		if err != nil {
			return err
		}
		switch st.Kind {
		case Open:
			depth++
		case Close:
			depth--
		}
		if keep && depth > 0 {
			f.Body = append(f.Body, st)
		}
	}
	return nil
}

// statement parses one statement; keep says whether it means anything here.
func (p *parser) statement() (st Statement, keep bool, err error) {
	st.Line = p.line()
	word := p.peek()
	switch {
	case p.accept(";"):
		return st, false, nil
	case p.accept("{"):
		st.Kind = Open
		return st, true, nil
	case p.accept("}"):
		st.Kind = Close
		return st, true, nil
	case word == ".reg":
		return p.registers()
	case word == ".local" || word == ".shared" || word == ".param" || word == ".const" || word == ".global":
		st.Kind = Declaration
		st.Variable, err = p.variable()
		return st, true, err
	case word == ".loc":
		p.skipDebug()
		return st, false, nil
	case word == ".pragma" || word == ".callprototype":
		p.skipStatement()
		return st, false, nil
	case p.at+1 < len(p.tokens) && p.tokens[p.at+1].text == ":":
		return p.label()
	case strings.HasPrefix(word, "."):
		return st, false, Errorf(st.Line, "unknown directive %q", word)
	}
	st, err = p.instruction()
	return st, true, err
}

// label parses a label, and the table of targets that may follow it.
func (p *parser) label() (Statement, bool, error) {
	st := Statement{Kind: Label, Line: p.line(), Name: p.next()}
	p.next()
	if !p.accept(".branchtargets") {
		return st, true, nil
	}
	st.Kind = Targets
	for !p.accept(";") {
		if p.done() {
			return st, false, Errorf(st.Line, ".branchtargets has no end")
		}
		st.Targets = append(st.Targets, p.next())
		p.accept(",")
	}
	return st, true, nil
}

// registers parses .reg .b32 %r<8>, a, b; into one statement per name: all but
// the last are pushed back as declarations of their own.
func (p *parser) registers() (Statement, bool, error) {
	st := Statement{Kind: Register, Line: p.line()}
	p.next()
	word := p.next()
	t, ok := arith.Types[strings.TrimPrefix(word, ".")]
	if !ok {
		return st, false, Errorf(st.Line, "unknown register type %q", word)
	}
	st.Type = t
	for {
		name := p.next()
		if name == "" || !wordByte(name[0]) {
			return st, false, Errorf(st.Line, "a register needs a name")
		}
		count := 0
		if p.accept("<") {
			n, err := p.integer()
			if err != nil {
				return st, false, err
			}
			if n < 1 || n > registersMax {
				return st, false, Errorf(st.Line, "%d registers; at most %d can be declared at once", n, registersMax)
			}
			count = int(n)
			if err := p.expect(">"); err != nil {
				return st, false, err
			}
		}
		st.Targets = append(st.Targets, name)
		st.Operands = append(st.Operands, Operand{Kind: IntOperand, Value: uint64(count)})
		if !p.accept(",") {
			return st, true, p.expect(";")
		}
	}
}

// instruction parses guard, opcode and operands.
func (p *parser) instruction() (Statement, error) {
	st := Statement{Kind: Instruction, Line: p.line()}
	start := p.at
	if p.accept("@") {
		st.GuardNot = p.accept("!")
		st.Guard = p.next()
	}
	st.Opcode = p.next()
	if st.Opcode == "" || !wordByte(st.Opcode[0]) {
		return st, Errorf(st.Line, "%q is not an instruction", st.Opcode)
	}
	for !p.accept(";") {
		if p.done() {
			return st, Errorf(st.Line, "instruction %s has no end", st.Opcode)
		}
		op, err := p.operand()
		if err != nil {
			return st, err
		}
		st.Operands = append(st.Operands, op)
		if !p.accept(",") && p.peek() != ";" {
			return st, Errorf(p.line(), "%q after an operand of %s", p.peek(), st.Opcode)
		}
	}
	st.Text = p.spell(start, p.at-1)
	return st, nil
}

// spell writes tokens as one line, for messages.
func (p *parser) spell(from, to int) string {
	var b strings.Builder
	for i := from; i < to && b.Len() < 160; i++ {
		text := p.tokens[i].text
		if i > from && wordByte(text[0]) && (wordByte(p.tokens[i-1].text[0]) || p.tokens[i-1].text == ",") {
			b.WriteByte(' ')
		}
		b.WriteString(text)
	}
	return b.String()
}

// operand parses one operand, and the second half of p|q.
func (p *parser) operand() (Operand, error) {
	op, err := p.simpleOperand()
	if err != nil {
		return op, err
	}
	if p.accept("|") {
		second, err := p.simpleOperand()
		if err != nil {
			return op, err
		}
		op.Second = &second
	}
	return op, nil
}

func (p *parser) simpleOperand() (Operand, error) {
	if p.depth++; p.depth > nestingMax {
		return Operand{}, Errorf(p.line(), "lists are nested more than %d deep", nestingMax)
	}
	defer func() { p.depth-- }()
	switch {
	case p.accept("["):
		return p.operandList(AddressOperand, "]")
	case p.accept("{"):
		return p.operandList(VectorOperand, "}")
	case p.accept("("):
		return p.operandList(ListOperand, ")")
	case p.accept("!"):
		op, err := p.simpleOperand()
		op.Not = true
		return op, err
	case p.accept("_"):
		return Operand{Kind: SinkOperand}, nil
	case p.accept("-"):
		op, err := p.simpleOperand()
		return negate(op), err
	}
	word := p.next()
	if word == "" || !wordByte(word[0]) {
		return Operand{}, Errorf(p.line(), "%q is not an operand", word)
	}
	if word[0] >= '0' && word[0] <= '9' {
		return p.number(word)
	}
	op := Operand{Kind: NameOperand, Name: word}
	for p.peek() == "+" || p.peek() == "-" {
		minus := p.next() == "-"
		n, err := p.integer()
		if err != nil {
			return op, err
		}
		if minus {
			n = -n
		}
		op.Offset += n
	}
	return op, nil
}

func (p *parser) operandList(kind OperandKind, end string) (Operand, error) {
	op := Operand{Kind: kind}
	for !p.accept(end) {
		if p.done() {
			return op, Errorf(p.line(), "a list has no end")
		}
		item, err := p.operand()
		if err != nil {
			return op, err
		}
		op.List = append(op.List, item)
		if !p.accept(",") && p.peek() != end {
			return op, Errorf(p.line(), "%q in a list of operands", p.peek())
		}
	}
	return op, nil
}

func negate(op Operand) Operand {
	switch op.Kind {
	case IntOperand:
		op.Value = -op.Value
	case FloatOperand:
		if op.Wide {
			op.Value ^= 1 << 63
		} else {
			op.Value ^= 1 << 31
		}
	default:
		op.Minus = true
	}
	return op
}

// number parses an integer, 0fXXXXXXXX, 0dXXXXXXXXXXXXXXXX or a decimal.
func (p *parser) number(word string) (Operand, error) {
	lower := strings.ToLower(word)
	if bits, ok := strings.CutPrefix(lower, "0f"); ok && len(bits) == 8 {
		n, err := strconv.ParseUint(bits, 16, 32)
		if err != nil {
			return Operand{}, Errorf(p.line(), "%q is not a number", word)
		}
		return Operand{Kind: FloatOperand, Value: n}, nil
	}
	if bits, ok := strings.CutPrefix(lower, "0d"); ok && len(bits) == 16 {
		n, err := strconv.ParseUint(bits, 16, 64)
		if err != nil {
			return Operand{}, Errorf(p.line(), "%q is not a number", word)
		}
		return Operand{Kind: FloatOperand, Value: n, Wide: true}, nil
	}
	if n, err := strconv.ParseUint(strings.TrimRight(lower, "u"), 0, 64); err == nil {
		return Operand{Kind: IntOperand, Value: n}, nil
	}
	f, err := strconv.ParseFloat(lower, 64)
	if err != nil {
		return Operand{}, Errorf(p.line(), "%q is not a number", word)
	}
	return Operand{Kind: FloatOperand, Value: math.Float64bits(f), Wide: true}, nil
}
