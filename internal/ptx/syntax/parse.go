package syntax

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"parley/internal/ptx/arith"
)

// BytesMax bounds the size of one variable, so that a damaged file cannot make
// Parse take all memory.
const BytesMax = 1 << 26

// nestingMax bounds lists inside lists, so that a damaged file cannot exhaust the stack.
const nestingMax = 64

// registersMax bounds the registers of one declaration.
const registersMax = 1 << 14

// A parser turns tokens into functions and variables.
type parser struct {
	tokens []token
	at     int
	depth  int
	file   File
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
		return Errorf(p.line(), "%q stands where %q must", p.peek(), text)
	}
	return nil
}

func (p *parser) done() bool { return p.at >= len(p.tokens) }

// skipStatement passes everything up to and including the next semicolon.
func (p *parser) skipStatement() {
	for !p.done() && p.next() != ";" {
	}
}

// A File is what a PTX file declares.
type File struct {
	Functions map[string]*Function
	Order     []*Function // in the order of the file
	Variables []Variable
}

// Parse reads a PTX file. An error names the line.
func Parse(source string) (*File, error) {
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens, file: File{Functions: map[string]*Function{}}}
	if err := p.module(); err != nil {
		return nil, err
	}
	return &p.file, nil
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
		v.Extern = extern
		p.file.Variables = append(p.file.Variables, v)
		return nil
	default:
		return Errorf(p.line(), "unknown directive %q", word)
	}
}

func (p *parser) function() error {
	f := &Function{Line: p.line(), Entry: p.next() == ".entry"}
	var err error
	if p.peek() == "(" {
		if f.Results, err = p.parameters(); err != nil {
			return err
		}
	}
	f.Name = p.next()
	if p.peek() == "(" {
		if f.Params, err = p.parameters(); err != nil {
			return err
		}
	}
	if err := p.performance(f); err != nil {
		return err
	}
	if !p.accept(";") {
		f.Defined = true
		if err := p.body(f); err != nil {
			return err
		}
	}
	if old := p.file.Functions[f.Name]; old == nil || !old.Defined {
		p.file.Functions[f.Name] = f
		p.file.Order = append(p.file.Order, f)
	}
	return nil
}

// performance parses the directives between a function's head and its body.
func (p *parser) performance(f *Function) error {
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
				f.MaxThreads = dim
			case ".reqntid":
				f.ReqThreads = dim
			}
		case ".pragma":
			p.skipStatement()
		default:
			return Errorf(p.line(), "unknown directive %q", word)
		}
	}
	return nil
}

func (p *parser) parameters() ([]Variable, error) {
	var out []Variable
	p.next()
	for !p.accept(")") {
		v, err := p.variableHead()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		if !p.accept(",") && p.peek() != ")" {
			return nil, Errorf(p.line(), "%q in a list of parameters", p.peek())
		}
	}
	return out, nil
}

// variableHead parses space, alignment, type, name and dimensions.
func (p *parser) variableHead() (v Variable, err error) {
	v = Variable{line: p.line(), Space: strings.TrimPrefix(p.next(), "."), Align: 0}
	for {
		word := p.next()
		t, isType := arith.Types[strings.TrimPrefix(word, ".")]
		switch {
		case word == ".align":
			n, err := p.integer()
			if err != nil || n <= 0 || n > 1<<16 || n&(n-1) != 0 {
				return v, Errorf(v.line, "an alignment must be a power of two")
			}
			v.Align = int(n)
		case word == ".ptr" || word == ".global" || word == ".shared" || word == ".const" || word == ".local":
		case isType:
			v.Type = t
		case strings.HasPrefix(word, ".") || word == "":
			return v, Errorf(v.line, "unknown type %q", word)
		default:
			v.Name = word
			return v, p.dimensions(&v)
		}
	}
}

func (p *parser) dimensions(v *Variable) error {
	if v.Type.Bits < 8 {
		return Errorf(v.line, "variable %s has no type with a size", v.Name)
	}
	v.Size = v.Type.Size()
	if v.Align == 0 {
		v.Align = v.Size
	}
	for p.accept("[") {
		if p.accept("]") {
			v.Size = 0
			continue
		}
		n, err := p.integer()
		if err != nil {
			return err
		}
		if n < 0 || n*int64(max(v.Size, 1)) > BytesMax {
			return Errorf(v.line, "variable %s is larger than %d bytes", v.Name, BytesMax)
		}
		v.Size *= int(n)
		if err := p.expect("]"); err != nil {
			return err
		}
	}
	return nil
}

// variable parses a declaration with its initialiser.
func (p *parser) variable() (Variable, error) {
	v, err := p.variableHead()
	if err != nil {
		return v, err
	}
	if p.accept("=") {
		if err := p.initialiser(&v); err != nil {
			return v, err
		}
	}
	if len(v.Initial) > v.Size {
		return v, Errorf(v.line, "the initialiser of %s has %d bytes, the variable %d", v.Name, len(v.Initial), v.Size)
	}
	return v, p.expect(";")
}

func (p *parser) initialiser(v *Variable) error {
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
func (p *parser) element(v *Variable) error {
	width := v.Type.Size()
	op, err := p.operand()
	if err != nil {
		return err
	}
	bits := op.Value
	switch op.Kind {
	case IntOperand:
	case FloatOperand:
		bits = FloatBits(op, v.Type)
	case NameOperand:
		name := op.Name
		if name == "generic" && p.peek() == "(" {
			p.next()
			name = p.next()
			if err := p.expect(")"); err != nil {
				return err
			}
		}
		v.Refs = append(v.Refs, Reference{At: len(v.Initial), Symbol: name, Add: op.Offset})
	default:
		return Errorf(v.line, "the initialiser of %s is not a list of numbers", v.Name)
	}
	for i := range width {
		v.Initial = append(v.Initial, byte(bits>>(8*min(i, 7))))
	}
	if len(v.Initial) > BytesMax {
		return Errorf(v.line, "the initialiser of %s has more than %d bytes", v.Name, BytesMax)
	}
	return nil
}

// FloatBits returns the literal's bits in t.
func FloatBits(op Operand, t arith.Type) uint64 {
	value := float64(math.Float32frombits(uint32(op.Value)))
	if op.Wide {
		value = math.Float64frombits(op.Value)
	}
	switch {
	case t.Bits == 64:
		return math.Float64bits(value)
	case t.Class == 'f' && t.Bits == 16:
		return uint64(arith.F16From(value, arith.RoundNearest))
	case t.Class == 'h':
		return uint64(arith.BF16From(value, arith.RoundNearest))
	}
	if !op.Wide {
		return op.Value
	}
	return uint64(math.Float32bits(float32(value)))
}

func (p *parser) integer() (int64, error) {
	minus := p.accept("-")
	line := p.line()
	n, err := strconv.ParseUint(strings.TrimSuffix(p.next(), "U"), 0, 64)
	if err != nil {
		return 0, Errorf(line, "a number must stand here")
	}
	if minus {
		return -int64(n), nil
	}
	return int64(n), nil
}
