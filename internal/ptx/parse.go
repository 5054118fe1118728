package ptx

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// bytesMax bounds the size of one variable, so that a damaged file cannot make
// Parse take all memory.
const bytesMax = 1 << 26

// nestingMax bounds lists inside lists, so that a damaged file cannot exhaust the stack.
const nestingMax = 64

// registersMax bounds the registers of one declaration.
const registersMax = 1 << 14

// A parser turns tokens into functions and variables.
type parser struct {
	tokens    []token
	at        int
	depth     int
	functions map[string]*function
	order     []*function
	variables []variable
}

func (p *parser) peek() string {
	if p.at < len(p.tokens) {
		return p.tokens[p.at].text
	}
	return ""
}

func (p *parser) line() int {
	if len(p.tokens) == 0 {
		return 1
	}
	return p.tokens[min(p.at, len(p.tokens)-1)].line
}

func (p *parser) next() string {
	text := p.peek()
	p.at++
	return text
}

func (p *parser) accept(text string) bool {
	if p.at < len(p.tokens) && p.peek() == text {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(text string) error {
	if !p.accept(text) {
		return failAt(p.line(), "%q stands where %q must", p.peek(), text)
	}
	return nil
}

func (p *parser) done() bool { return p.at >= len(p.tokens) }

// skipStatement passes everything up to and including the next semicolon.
func (p *parser) skipStatement() {
	for !p.done() && p.next() != ";" {
	}
}

// module parses a whole file.
func (p *parser) module() error {
	for !p.done() {
		switch word := p.peek(); word {
		case ".version", ".address_size":
			p.at += 2
		case ".target":
			p.at += 2
			for p.accept(",") {
				p.at++
			}
		case ".file", ".section":
			p.skipDebug()
		case ".pragma":
			p.skipStatement()
		default:
			if err := p.declaration(); err != nil {
				return err
			}
		}
	}
	return nil
}

// skipDebug passes a .file line or a .section with its braces.
func (p *parser) skipDebug() {
	line := p.line()
	if p.peek() == ".section" {
		for !p.done() && p.next() != "}" {
		}
		return
	}
	for !p.done() && p.line() == line {
		p.at++
	}
}

// declaration parses a function or a variable with its linkage.
func (p *parser) declaration() error {
	extern := false
	for slices.Contains([]string{".visible", ".extern", ".weak", ".common"}, p.peek()) {
		extern = p.next() == ".extern" || extern
	}
	switch word := p.peek(); word {
	case ".entry", ".func":
		return p.function()
	case ".global", ".const", ".shared":
		v, err := p.variable()
		if err != nil {
			return err
		}
		v.extern = extern
		p.variables = append(p.variables, v)
		return nil
	default:
		return failAt(p.line(), "unknown directive %q", word)
	}
}

func (p *parser) function() error {
	f := &function{line: p.line(), entry: p.next() == ".entry"}
	var err error
	if p.peek() == "(" {
		if f.results, err = p.parameters(); err != nil {
			return err
		}
	}
	f.name = p.next()
	if p.peek() == "(" {
		if f.params, err = p.parameters(); err != nil {
			return err
		}
	}
	if err := p.performance(f); err != nil {
		return err
	}
	if !p.accept(";") {
		f.defined = true
		if err := p.body(f); err != nil {
			return err
		}
	}
	if old := p.functions[f.name]; old == nil || !old.defined {
		p.functions[f.name] = f
		p.order = append(p.order, f)
	}
	return nil
}

// performance parses the directives between a function's head and its body.
func (p *parser) performance(f *function) error {
	for strings.HasPrefix(p.peek(), ".") {
		switch word := p.next(); word {
		case ".noreturn", ".explicitcluster":
		case ".maxntid", ".reqntid", ".reqnctapercluster", ".minnctapersm", ".maxnreg", ".maxclusterrank",
			".maxnctapersm":
			dim := [3]int{1, 1, 1}
			for i := range dim {
				n, err := p.integer()
				if err != nil {
					return err
				}
				dim[i] = int(n)
				if !p.accept(",") {
					break
				}
			}
			switch word {
			case ".maxntid":
				f.maxntid = dim
			case ".reqntid":
				f.reqntid = dim
			}
		case ".pragma":
			p.skipStatement()
		default:
			return failAt(p.line(), "unknown directive %q", word)
		}
	}
	return nil
}

func (p *parser) parameters() ([]variable, error) {
	var out []variable
	p.next()
	for !p.accept(")") {
		v, err := p.variableHead()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		if !p.accept(",") && p.peek() != ")" {
			return nil, failAt(p.line(), "%q in a list of parameters", p.peek())
		}
	}
	return out, nil
}

// variableHead parses space, alignment, type, name and dimensions.
func (p *parser) variableHead() (v variable, err error) {
	v = variable{line: p.line(), space: strings.TrimPrefix(p.next(), "."), align: 0}
	for {
		word := p.next()
		t, isType := types[strings.TrimPrefix(word, ".")]
		switch {
		case word == ".align":
			n, err := p.integer()
			if err != nil || n <= 0 || n > 1<<16 || n&(n-1) != 0 {
				return v, failAt(v.line, "an alignment must be a power of two")
			}
			v.align = int(n)
		case word == ".ptr" || word == ".global" || word == ".shared" || word == ".const" || word == ".local":
		case isType:
			v.typ = t
		case strings.HasPrefix(word, ".") || word == "":
			return v, failAt(v.line, "unknown type %q", word)
		default:
			v.name = word
			return v, p.dimensions(&v)
		}
	}
}

func (p *parser) dimensions(v *variable) error {
	if v.typ.bits < 8 {
		return failAt(v.line, "variable %s has no type with a size", v.name)
	}
	v.size = v.typ.size()
	if v.align == 0 {
		v.align = v.size
	}
	for p.accept("[") {
		if p.accept("]") {
			v.size = 0
			continue
		}
		n, err := p.integer()
		if err != nil {
			return err
		}
		if n < 0 || n*int64(max(v.size, 1)) > bytesMax {
			return failAt(v.line, "variable %s is larger than %d bytes", v.name, bytesMax)
		}
		v.size *= int(n)
		if err := p.expect("]"); err != nil {
			return err
		}
	}
	return nil
}

// variable parses a declaration with its initialiser.
func (p *parser) variable() (variable, error) {
	v, err := p.variableHead()
	if err != nil {
		return v, err
	}
	if p.accept("=") {
		if err := p.initialiser(&v); err != nil {
			return v, err
		}
	}
	if len(v.init) > v.size {
		return v, failAt(v.line, "the initialiser of %s has %d bytes, the variable %d", v.name, len(v.init), v.size)
	}
	return v, p.expect(";")
}

func (p *parser) initialiser(v *variable) error {
	depth := 0
	for {
		switch {
		case p.accept("{"):
			depth++
			continue
		case p.accept("}"):
			depth--
		case p.accept(","):
			continue
		default:
			if err := p.element(v); err != nil {
				return err
			}
		}
		if depth <= 0 {
			return nil
		}
	}
}

// element appends one value of an initialiser: a number or the address of a symbol.
func (p *parser) element(v *variable) error {
	width := v.typ.size()
	op, err := p.operand()
	if err != nil {
		return err
	}
	bits := op.value
	switch op.kind {
	case opInt:
	case opFloat:
		bits = floatBits(op, v.typ)
	case opName:
		name := op.name
		if name == "generic" && p.peek() == "(" {
			p.next()
			name = p.next()
			if err := p.expect(")"); err != nil {
				return err
			}
		}
		v.refs = append(v.refs, reference{at: len(v.init), symbol: name, add: op.offset})
	default:
		return failAt(v.line, "the initialiser of %s is not a list of numbers", v.name)
	}
	for i := range width {
		v.init = append(v.init, byte(bits>>(8*min(i, 7))))
	}
	if len(v.init) > bytesMax {
		return failAt(v.line, "the initialiser of %s has more than %d bytes", v.name, bytesMax)
	}
	return nil
}

// floatBits returns the literal's bits in t.
func floatBits(op operand, t typ) uint64 {
	value := float64(math.Float32frombits(uint32(op.value)))
	if op.wide {
		value = math.Float64frombits(op.value)
	}
	switch {
	case t.bits == 64:
		return math.Float64bits(value)
	case t.class == 'f' && t.bits == 16:
		return uint64(f16From(value, roundNearest))
	case t.class == 'h':
		return uint64(bf16From(value, roundNearest))
	}
	if !op.wide {
		return op.value
	}
	return uint64(math.Float32bits(float32(value)))
}

func (p *parser) integer() (int64, error) {
	minus := p.accept("-")
	line := p.line()
	n, err := strconv.ParseUint(strings.TrimSuffix(p.next(), "U"), 0, 64)
	if err != nil {
		return 0, failAt(line, "a number must stand here")
	}
	if minus {
		return -int64(n), nil
	}
	return int64(n), nil
}
