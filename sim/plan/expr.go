package plan

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"parley/internal/exactmath"
)

// An Expr is a formula: a number, the name of a cell, or an operation on
// other formulas. As JSON it is the number, the name, or a list of the
// operation and its operands.
type Expr struct {
	number float64
	name   string
	op     string
	args   []*Expr
}

// MarshalJSON writes the formula as the page reads it.
func (e *Expr) MarshalJSON() ([]byte, error) {
	switch {
	case e.op != "":
		list := []any{e.op}
		for _, a := range e.args {
			list = append(list, a)
		}
		return json.Marshal(list)
	case e.name != "":
		return json.Marshal(e.name)
	}
	return json.Marshal(e.number)
}

// operations are the binary operators. Comparisons are 1 or 0.
var operations = map[string]func(a, b float64) float64{
	"+":   func(a, b float64) float64 { return a + b },
	"-":   func(a, b float64) float64 { return a - b },
	"*":   func(a, b float64) float64 { return a * b },
	"/":   func(a, b float64) float64 { return a / b },
	"<":   func(a, b float64) float64 { return truth(a < b) },
	">":   func(a, b float64) float64 { return truth(a > b) },
	">=":  func(a, b float64) float64 { return truth(a >= b) },
	"min": math.Min,
	"max": math.Max,
	"pow": exactmath.Pow,
}

// functions take one operand.
var functions = map[string]func(float64) float64{
	"floor": math.Floor, "ceil": math.Ceil, "ln": exactmath.Log, "exp": exactmath.Exp,
}

// busy returns the largest load, 0 to 1, at which at most share of the arrivals
// wait longer than slack, where the tail of the wait is exponential with the
// scale unit/(1-load) and load is the share of arrivals that wait at all.
func busy(slack, unit, share float64) float64 {
	switch {
	case !(slack > 0) || !(share > 0):
		return 0
	case unit == 0:
		return 1
	}
	low, high := 0.0, 1.0
	for range 60 {
		if x := float64((low + high) / 2); x*exactmath.Exp(-slack*(1-x)/unit) <= share {
			low = x
		} else {
			high = x
		}
	}
	return low
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// An exprParser reads a formula by precedence climbing. The language is small; Go's own
// parser would bring as much code as all of package plan.
type exprParser struct {
	text  string // what is left
	depth int
}

// depthMax bounds the nesting of a formula, and with it the stack that reading takes.
const depthMax = 100

// parseExpr reads a formula.
func parseExpr(text string) (*Expr, error) {
	p := &exprParser{text: text}
	e, err := p.binary(1)
	if err == nil && p.peek() != "" {
		err = fmt.Errorf("%q is not expected", p.peek())
	}
	if err != nil {
		return nil, fmt.Errorf("formula %q: %w", text, err)
	}
	return e, nil
}

// exprToken matches a number, a name, an operator or a bracket.
var exprToken = regexp.MustCompile(`^(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|[\pL_][\pL\d_]*|>=|.)`)

// peek returns the next token, "" at the end.
func (p *exprParser) peek() string {
	p.text = strings.TrimSpace(p.text)
	return exprToken.FindString(p.text)
}

func (p *exprParser) take() string {
	token := p.peek()
	p.text = p.text[len(token):]
	return token
}

func (p *exprParser) expect(token string) error {
	if got := p.take(); got != token {
		return fmt.Errorf("%q is not %q", got, token)
	}
	return nil
}

// binary reads operands joined by operators that bind at least as strongly as level.
func (p *exprParser) binary(level int) (*Expr, error) {
	if p.depth++; p.depth > depthMax {
		return nil, fmt.Errorf("more than %d levels", depthMax)
	}
	defer func() { p.depth-- }()
	left, err := p.operand()
	for err == nil && precedences[p.peek()] >= level {
		op := p.take()
		var right *Expr
		if right, err = p.binary(precedences[op] + 1); err == nil {
			left, err = operation(op, left, right)
		}
	}
	return left, err
}

// operand reads a number, a cell, a call or a formula in parentheses.
func (p *exprParser) operand() (*Expr, error) {
	token := p.take()
	switch {
	case token == "(":
		e, err := p.binary(1)
		if err != nil {
			return nil, err
		}
		return e, p.expect(")")
	case isWord(token) && p.peek() == "(":
		args, err := p.arguments()
		if err != nil {
			return nil, err
		}
		return operation(token, args...)
	case isWord(token):
		return &Expr{name: token}, nil
	}
	number, err := strconv.ParseFloat(token, 64)
	if err != nil {
		return nil, fmt.Errorf("%q is not a number or a name", token)
	}
	return &Expr{number: number}, nil
}

func (p *exprParser) arguments() (list []*Expr, err error) {
	for separator := "("; ; separator = "," {
		if err := p.expect(separator); err != nil {
			return nil, err
		}
		arg, err := p.binary(1)
		if err != nil {
			return nil, err
		}
		list = append(list, arg)
		if p.peek() == ")" {
			return list, p.expect(")")
		}
	}
}

// operation builds a node after checking that it has as many operands as it takes.
func operation(op string, operands ...*Expr) (*Expr, error) {
	want := 0
	switch {
	case operations[op] != nil:
		want = 2
	case functions[op] != nil:
		want = 1
	case op == "when" || op == "busy":
		want = 3
	}
	if want == 0 || want != len(operands) {
		return nil, fmt.Errorf("no operation %s of %d operands", op, len(operands))
	}
	return &Expr{op: op, args: operands}, nil
}

// eval computes the formula; of gives the values of cells.
func (e *Expr) eval(of func(string) float64) float64 {
	switch {
	case e.op == "":
		if e.name != "" {
			return of(e.name)
		}
		return e.number
	case e.op == "when":
		if e.args[0].eval(of) != 0 {
			return e.args[1].eval(of)
		}
		return e.args[2].eval(of)
	case e.op == "busy":
		return busy(e.args[0].eval(of), e.args[1].eval(of), e.args[2].eval(of))
	case len(e.args) == 1:
		return functions[e.op](e.args[0].eval(of))
	}
	return operations[e.op](e.args[0].eval(of), e.args[1].eval(of))
}

// names lists the cells that the formula mentions, in order, each once.
func (e *Expr) names() []string {
	var list []string
	seen := map[string]bool{}
	var visit func(*Expr)
	visit = func(e *Expr) {
		if e.name != "" && !seen[e.name] {
			seen[e.name] = true
			list = append(list, e.name)
		}
		for _, a := range e.args {
			visit(a)
		}
	}
	visit(e)
	return list
}

// precedences order the operators from weakest to strongest.
var precedences = map[string]int{"<": 1, ">": 1, ">=": 1, "+": 2, "-": 2, "*": 3, "/": 3}

// format writes the formula with each cell as show writes it.
func (e *Expr) format(show func(string) string) string { return e.formatIn(0, show) }

func (e *Expr) formatIn(outer int, show func(string) string) string {
	switch level := precedences[e.op]; {
	case e.op == "" && e.name != "":
		return show(e.name)
	case e.op == "":
		return strconv.FormatFloat(e.number, 'g', -1, 64)
	case level == 0:
		parts := make([]string, len(e.args))
		for i, a := range e.args {
			parts[i] = a.formatIn(0, show)
		}
		return e.op + "(" + strings.Join(parts, ", ") + ")"
	default:
		text := e.args[0].formatIn(level, show) + " " + e.op + " " + e.args[1].formatIn(level+1, show)
		if level < outer {
			return "(" + text + ")"
		}
		return text
	}
}

// isWord reports whether a token is a name rather than a number, an operator or nothing.
func isWord(token string) bool { return wordPattern.MatchString(token) }

var wordPattern = regexp.MustCompile(`^[\pL_][\pL\d_]*$`)

// isName reports whether text can be the name of a cell.
func isName(text string) bool { return isWord(text) && text == strings.ToLower(text) }
