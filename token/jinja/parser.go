package jinja

import (
	"fmt"
	"slices"
)

// An expr computes a value, a stmt runs and says how it ended. The parser makes
// them as closures over their parts, so that there is no tree to walk.
type (
	expr func(r *state) Value
	stmt func(r *state) flow
)

// A flow says how a statement ended.
type flow uint8

const (
	flowNext flow = iota
	flowBreak
	flowContinue
)

// A parser reads tokens and makes the program. Names become numbers.
type parser struct {
	tokens []token
	pos    int
	// depth is how many levels the parser is in now, deepest the most there were.
	depth, deepest int

	names   []string
	nameIDs map[string]int

	// loops counts the for statements around the current place, and canBreak
	// says that one of them can be left from there.
	loops    int
	canBreak bool
	unknowns []unknownName
}

// An unknownName is a filter or test that does not exist. It is forgiven if
// it stands under a condition of its own scope: jinja2 then complains only
// when it is reached.
type unknownName struct {
	err  *Error
	firm bool
}

func (p *parser) id(name string) int {
	id, ok := p.nameIDs[name]
	if !ok {
		id = len(p.names)
		p.nameIDs[name] = id
		p.names = append(p.names, name)
	}
	return id
}

func (p *parser) cur() *token { return &p.tokens[p.pos] }

func (p *parser) look() *token { return &p.tokens[min(p.pos+1, len(p.tokens)-1)] }

func (p *parser) next() *token {
	t := p.cur()
	if t.kind != tokenEOF {
		p.pos++
	}
	return t
}

// fail ends the parse with an error on the line of the current token.
func (p *parser) fail(format string, args ...any) {
	panic(&Error{Kind: SyntaxError, Line: p.cur().line, Message: fmt.Sprintf(format, args...)})
}

func (p *parser) isName(name string) bool { return p.cur().is(tokenName, name) }

func (p *parser) isOp(op string) bool { return p.cur().is(tokenOp, op) }

func (p *parser) skipName(name string) bool {
	found := p.isName(name)
	if found {
		p.next()
	}
	return found
}

func (p *parser) skipOp(op string) bool {
	found := p.isOp(op)
	if found {
		p.next()
	}
	return found
}

func (p *parser) expectOp(op string) {
	if !p.skipOp(op) {
		p.fail("expected %q, got %s", op, p.cur().describe())
	}
}

func (p *parser) expectName() string {
	p.mustBe(tokenName)
	return p.next().text
}

func (p *parser) mustBe(kind tokenKind) {
	if p.cur().kind != kind {
		p.fail("expected %s, got %s", token{kind: kind}.describe(), p.cur().describe())
	}
}

// enter counts one level of recursion; leave must follow.
func (p *parser) enter() {
	p.depth++
	p.deepest = max(p.deepest, p.depth)
	if p.depth > parseDepthMax {
		p.fail("the template nests more than %d levels", parseDepthMax)
	}
}

func (p *parser) leave() { p.depth-- }

// separated parses items between commas until the operator end, with a comma
// allowed before it.
func (p *parser) separated(end string, item func()) {
	for !p.isOp(end) {
		item()
		if !p.skipOp(",") {
			break
		}
	}
	p.expectOp(end)
}

// parseBody parses text and tags up to a block tag that starts with one of
// the end names, whose name is then the current token. Without end names it
// parses to the end of the template.
func (p *parser) parseBody(ends ...string) []stmt {
	p.enter()
	defer p.leave()
	var body []stmt
	for {
		switch t := p.next(); t.kind {
		case tokenEOF:
			if len(ends) > 0 {
				p.fail("unexpected end of template, expected %q", ends)
			}
			return body
		case tokenData:
			text := Text{text: t.text, whole: true}
			body = append(body, func(r *state) flow {
				r.write(text)
				return flowNext
			})
		case tokenVarBegin:
			body = append(body, p.parsePrint(t.line))
		default: // a block tag begins
			if p.cur().kind == tokenName && slices.Contains(ends, p.cur().text) {
				return body
			}
			body = append(body, p.parseStatement())
			p.mustBe(tokenBlockEnd)
			p.next()
		}
	}
}

func (p *parser) parsePrint(line int) stmt {
	e := p.parseTuple(true)
	p.mustBe(tokenVarEnd)
	p.next()
	return func(r *state) flow {
		r.line = line
		r.write(r.print(e(r)))
		return flowNext
	}
}

// parseBlock parses the rest of an opening tag and the body up to one of the
// ends, and returns the end's name with its token consumed.
func (p *parser) parseBlock(ends ...string) ([]stmt, string) {
	p.skipOp(":")
	p.mustBe(tokenBlockEnd)
	p.next()
	body := p.parseBody(ends...)
	return body, p.next().text
}

// inScope parses a body that is a scope of its own up to end: an unknown filter
// there is not forgiven by a condition outside.
func (p *parser) inScope(end string) []stmt {
	from := len(p.unknowns)
	body, _ := p.parseBlock(end)
	p.firm(from)
	return body
}

// firm says that the unknown names met since from are errors.
func (p *parser) firm(from int) {
	for i := from; i < len(p.unknowns); i++ {
		p.unknowns[i].firm = true
	}
}

// forgive drops the unknown names met since from, except firm ones.
func (p *parser) forgive(from int) {
	kept := slices.DeleteFunc(p.unknowns[from:], func(u unknownName) bool { return !u.firm })
	p.unknowns = p.unknowns[:from+len(kept)]
}

// inFunction is inScope for a body that cannot break out of the loops around it.
func (p *parser) inFunction(end string) []stmt {
	outer := p.canBreak
	p.canBreak = false
	body := p.inScope(end)
	p.canBreak = outer
	return body
}

// run runs statements in order until one breaks or continues a loop.
func (r *state) run(body []stmt) flow {
	for _, s := range body {
		r.work(1)
		if f := s(r); f != flowNext {
			return f
		}
	}
	return flowNext
}
