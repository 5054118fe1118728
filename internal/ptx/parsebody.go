package ptx

import (
	"math"
	"strconv"
	"strings"
)

// body parses a function's statements up to its closing brace.
func (p *parser) body(f *function) error {
	if err := p.expect("{"); err != nil {
		return err
	}
	for depth := 1; depth > 0; {
		if p.done() {
			return failAt(p.line(), "function %s has no end", f.name)
		}
		st, keep, err := p.statement()
		if err != nil {
			return err
		}
		switch st.kind {
		case stOpen:
			depth++
		case stClose:
			depth--
		}
		if keep && depth > 0 {
			f.body = append(f.body, st)
		}
	}
	return nil
}

// statement parses one statement; keep says whether it means anything here.
func (p *parser) statement() (st statement, keep bool, err error) {
	st.line = p.line()
	word := p.peek()
	switch {
	case p.accept(";"):
		return st, false, nil
	case p.accept("{"):
		st.kind = stOpen
		return st, true, nil
	case p.accept("}"):
		st.kind = stClose
		return st, true, nil
	case word == ".reg":
		return p.registers()
	case word == ".local" || word == ".shared" || word == ".param" || word == ".const" || word == ".global":
		st.kind = stVariable
		st.variable, err = p.variable()
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
		return st, false, failAt(st.line, "unknown directive %q", word)
	}
	st, err = p.instruction()
	return st, true, err
}

// label parses a label, and the table of targets that may follow it.
func (p *parser) label() (statement, bool, error) {
	st := statement{kind: stLabel, line: p.line(), name: p.next()}
	p.next()
	if !p.accept(".branchtargets") {
		return st, true, nil
	}
	st.kind = stTargets
	for !p.accept(";") {
		if p.done() {
			return st, false, failAt(st.line, ".branchtargets has no end")
		}
		st.targets = append(st.targets, p.next())
		p.accept(",")
	}
	return st, true, nil
}

// registers parses .reg .b32 %r<8>, a, b; into one statement per name: all but
// the last are pushed back as declarations of their own.
func (p *parser) registers() (statement, bool, error) {
	st := statement{kind: stRegister, line: p.line()}
	p.next()
	word := p.next()
	t, ok := types[strings.TrimPrefix(word, ".")]
	if !ok {
		return st, false, failAt(st.line, "unknown register type %q", word)
	}
	st.typ = t
	for {
		name := p.next()
		if name == "" || !wordByte(name[0]) {
			return st, false, failAt(st.line, "a register needs a name")
		}
		count := 0
		if p.accept("<") {
			n, err := p.integer()
			if err != nil {
				return st, false, err
			}
			if n < 1 || n > registersMax {
				return st, false, failAt(st.line, "%d registers; at most %d can be declared at once", n, registersMax)
			}
			count = int(n)
			if err := p.expect(">"); err != nil {
				return st, false, err
			}
		}
		st.targets = append(st.targets, name)
		st.operands = append(st.operands, operand{kind: opInt, value: uint64(count)})
		if !p.accept(",") {
			return st, true, p.expect(";")
		}
	}
}

// instruction parses guard, opcode and operands.
func (p *parser) instruction() (statement, error) {
	st := statement{kind: stInstruction, line: p.line()}
	start := p.at
	if p.accept("@") {
		st.guardNot = p.accept("!")
		st.guard = p.next()
	}
	st.opcode = p.next()
	if st.opcode == "" || !wordByte(st.opcode[0]) {
		return st, failAt(st.line, "%q is not an instruction", st.opcode)
	}
	for !p.accept(";") {
		if p.done() {
			return st, failAt(st.line, "instruction %s has no end", st.opcode)
		}
		op, err := p.operand()
		if err != nil {
			return st, err
		}
		st.operands = append(st.operands, op)
		if !p.accept(",") && p.peek() != ";" {
			return st, failAt(p.line(), "%q after an operand of %s", p.peek(), st.opcode)
		}
	}
	st.text = p.spell(start, p.at-1)
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
func (p *parser) operand() (operand, error) {
	op, err := p.simpleOperand()
	if err != nil {
		return op, err
	}
	if p.accept("|") {
		second, err := p.simpleOperand()
		if err != nil {
			return op, err
		}
		op.second = &second
	}
	return op, nil
}

func (p *parser) simpleOperand() (operand, error) {
	if p.depth++; p.depth > nestingMax {
		return operand{}, failAt(p.line(), "lists are nested more than %d deep", nestingMax)
	}
	defer func() { p.depth-- }()
	switch {
	case p.accept("["):
		return p.operandList(opAddress, "]")
	case p.accept("{"):
		return p.operandList(opVector, "}")
	case p.accept("("):
		return p.operandList(opList, ")")
	case p.accept("!"):
		op, err := p.simpleOperand()
		op.not = true
		return op, err
	case p.accept("_"):
		return operand{kind: opSink}, nil
	case p.accept("-"):
		op, err := p.simpleOperand()
		return negate(op), err
	}
	word := p.next()
	if word == "" || !wordByte(word[0]) {
		return operand{}, failAt(p.line(), "%q is not an operand", word)
	}
	if word[0] >= '0' && word[0] <= '9' {
		return p.number(word)
	}
	op := operand{kind: opName, name: word}
	for p.peek() == "+" || p.peek() == "-" {
		minus := p.next() == "-"
		n, err := p.integer()
		if err != nil {
			return op, err
		}
		if minus {
			n = -n
		}
		op.offset += n
	}
	return op, nil
}

func (p *parser) operandList(kind operandKind, end string) (operand, error) {
	op := operand{kind: kind}
	for !p.accept(end) {
		if p.done() {
			return op, failAt(p.line(), "a list has no end")
		}
		item, err := p.operand()
		if err != nil {
			return op, err
		}
		op.list = append(op.list, item)
		if !p.accept(",") && p.peek() != end {
			return op, failAt(p.line(), "%q in a list of operands", p.peek())
		}
	}
	return op, nil
}

func negate(op operand) operand {
	switch op.kind {
	case opInt:
		op.value = -op.value
	case opFloat:
		if op.wide {
			op.value ^= 1 << 63
		} else {
			op.value ^= 1 << 31
		}
	default:
		op.minus = true
	}
	return op
}

// number parses an integer, 0fXXXXXXXX, 0dXXXXXXXXXXXXXXXX or a decimal.
func (p *parser) number(word string) (operand, error) {
	lower := strings.ToLower(word)
	if bits, ok := strings.CutPrefix(lower, "0f"); ok && len(bits) == 8 {
		n, err := strconv.ParseUint(bits, 16, 32)
		if err != nil {
			return operand{}, failAt(p.line(), "%q is not a number", word)
		}
		return operand{kind: opFloat, value: n}, nil
	}
	if bits, ok := strings.CutPrefix(lower, "0d"); ok && len(bits) == 16 {
		n, err := strconv.ParseUint(bits, 16, 64)
		if err != nil {
			return operand{}, failAt(p.line(), "%q is not a number", word)
		}
		return operand{kind: opFloat, value: n, wide: true}, nil
	}
	if n, err := strconv.ParseUint(strings.TrimRight(lower, "u"), 0, 64); err == nil {
		return operand{kind: opInt, value: n}, nil
	}
	f, err := strconv.ParseFloat(lower, 64)
	if err != nil {
		return operand{}, failAt(p.line(), "%q is not a number", word)
	}
	return operand{kind: opFloat, value: math.Float64bits(f), wide: true}, nil
}
