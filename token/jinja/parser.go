package jinja

import "slices"

// A parser builds the tree. It knows which loops and macros surround the
// current place, because what those are called with depends on the names
// their bodies mention.
type parser struct {
	tokens []token
	pos    int
	depth  int

	names   []string
	nameIDs map[string]int

	loops    []*forStmt
	macros   []*macroSyntax
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

func parse(source string) (*parser, []stmt, error) {
	if len(source) > sourceBytesMax {
		return nil, nil, errorf(SyntaxError, "the template has %d bytes, more than the %d allowed", len(source),
			sourceBytesMax)
	}
	tokens, err := lex(source)
	if err != nil {
		return nil, nil, err
	}
	p := &parser{tokens: tokens, nameIDs: map[string]int{}}
	body, err := p.parseBody()
	if err != nil {
		return nil, nil, err
	}
	if len(p.unknowns) > 0 {
		return nil, nil, p.unknowns[0].err
	}
	return p, body, nil
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

func (p *parser) cur() token { return p.tokens[p.pos] }

func (p *parser) look() token { return p.tokens[min(p.pos+1, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != tokenEOF {
		p.pos++
	}
	return t
}

func (p *parser) errorf(format string, args ...any) error {
	err := errorf(SyntaxError, format, args...)
	err.Line = p.cur().line
	return err
}

func (p *parser) skipName(name string) bool {
	if p.cur().is(tokenName, name) {
		p.next()
		return true
	}
	return false
}

func (p *parser) isOp(op string) bool { return p.cur().is(tokenOp, op) }

func (p *parser) skipOp(op string) bool {
	if p.isOp(op) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expectOp(op string) error {
	if !p.skipOp(op) {
		return p.errorf("expected %q, got %s", op, describe(p.cur()))
	}
	return nil
}

func (p *parser) expectName() (string, error) {
	if p.cur().kind != tokenName {
		return "", p.errorf("expected a name, got %s", describe(p.cur()))
	}
	return p.next().text, nil
}

func (p *parser) expectKind(kind tokenKind) error {
	if p.cur().kind != kind {
		return p.errorf("expected %s, got %s", describe(token{kind: kind}), describe(p.cur()))
	}
	p.next()
	return nil
}

func describe(t token) string {
	switch t.kind {
	case tokenEOF:
		return "end of template"
	case tokenData:
		return "template text"
	case tokenVarBegin:
		return "'{{'"
	case tokenVarEnd:
		return "end of print statement"
	case tokenBlockBegin:
		return "'{%'"
	case tokenBlockEnd:
		return "end of statement block"
	}
	return "'" + t.text + "'"
}

// enter counts one level of recursion; leave must follow.
func (p *parser) enter() error {
	p.depth++
	if p.depth > parseDepthMax {
		return p.errorf("the template nests more than %d levels", parseDepthMax)
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

// parseBody parses text and tags up to a block tag that starts with one of
// the end names, whose name is then the current token. Without end names it
// parses to the end of the template.
func (p *parser) parseBody(ends ...string) ([]stmt, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	var body []stmt
	for {
		switch t := p.next(); t.kind {
		case tokenEOF:
			if len(ends) > 0 {
				return nil, p.errorf("unexpected end of template, expected %q", ends)
			}
			return body, nil
		case tokenData:
			body = append(body, &dataStmt{text: t.text})
		case tokenVarBegin:
			s, err := p.parsePrint(t.line)
			if err != nil {
				return nil, err
			}
			body = append(body, s)
		case tokenBlockBegin:
			if p.cur().kind == tokenName && slices.Contains(ends, p.cur().text) {
				return body, nil
			}
			s, err := p.parseStatement()
			if err != nil {
				return nil, err
			}
			body = append(body, s...)
			if err := p.expectKind(tokenBlockEnd); err != nil {
				return nil, err
			}
		default:
			return nil, p.errorf("unexpected %s", describe(t))
		}
	}
}

func (p *parser) parsePrint(line int) (stmt, error) {
	e, err := p.parseTuple(tupleSyntax{withCond: true})
	if err != nil {
		return nil, err
	}
	return &outputStmt{of: e, line: line}, p.expectKind(tokenVarEnd)
}

// parseBlock parses the rest of an opening tag and the body up to one of the
// ends, and returns the end's name with its token consumed.
func (p *parser) parseBlock(ends ...string) ([]stmt, string, error) {
	p.skipOp(":")
	if err := p.expectKind(tokenBlockEnd); err != nil {
		return nil, "", err
	}
	body, err := p.parseBody(ends...)
	if err != nil {
		return nil, "", err
	}
	return body, p.next().text, nil
}

// inScope runs parse for a body that is a scope of its own: an unknown filter
// there is not forgiven by a condition outside.
func (p *parser) inScope(parse func() error) error {
	from := len(p.unknowns)
	err := parse()
	for i := from; i < len(p.unknowns); i++ {
		p.unknowns[i].firm = true
	}
	return err
}

// forgive drops the unknown names met since from, except firm ones.
func (p *parser) forgive(from int) {
	kept := p.unknowns[:from]
	for _, u := range p.unknowns[from:] {
		if u.firm {
			kept = append(kept, u)
		}
	}
	p.unknowns = kept
}

// inFunction runs parse for a body that can not break out of the loops
// around it.
func (p *parser) inFunction(parse func() error) error {
	outer := p.canBreak
	p.canBreak = false
	err := p.inScope(parse)
	p.canBreak = outer
	return err
}

func (p *parser) parseStatement() ([]stmt, error) {
	t := p.cur()
	tag, err := p.expectName()
	if err != nil {
		return nil, p.errorf("tag name expected, got %s", describe(t))
	}
	if tag == "print" {
		return p.parsePrintTag(t.line)
	}
	s, err := p.parseTag(tag, t.line)
	if err != nil {
		return nil, err
	}
	return []stmt{s}, nil
}

func (p *parser) parseTag(tag string, line int) (stmt, error) {
	switch tag {
	case "if":
		return p.parseIf(line)
	case "for":
		return p.parseFor(line)
	case "set":
		return p.parseSet(line)
	case "macro":
		return p.parseMacro(line)
	case "call":
		return p.parseCallBlock(line)
	case "filter":
		return p.parseFilterBlock(line)
	case "with":
		return p.parseWith(line)
	case "generation":
		return p.parseGeneration()
	case "autoescape":
		return p.parseAutoescape()
	case "block":
		return p.parseNamedBlock()
	case "break", "continue":
		return p.parseFlow(tag)
	case "include", "import", "from", "extends":
		return p.parseLoader(tag, line)
	}
	p.pos--
	return nil, p.errorf("encountered unknown tag '%s'", tag)
}

func (p *parser) parsePrintTag(line int) ([]stmt, error) {
	var body []stmt
	for p.cur().kind != tokenBlockEnd {
		if len(body) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		e, err := p.parseExpr(true)
		if err != nil {
			return nil, err
		}
		body = append(body, &outputStmt{of: e, line: line})
	}
	return body, nil
}

func (p *parser) parseFlow(tag string) (stmt, error) {
	if !p.canBreak {
		return nil, p.errorf("'%s' outside loop", tag)
	}
	if tag == "break" {
		return &flowStmt{flow: flowBreak}, nil
	}
	return &flowStmt{flow: flowContinue}, nil
}

func (p *parser) parseGeneration() (stmt, error) {
	s := &scopeStmt{}
	err := p.inFunction(func() (err error) {
		s.body, _, err = p.parseBlock("endgeneration")
		return err
	})
	return s, err
}

func (p *parser) parseAutoescape() (stmt, error) {
	if _, err := p.parseExpr(true); err != nil {
		return nil, err
	}
	s := &scopeStmt{}
	err := p.inScope(func() (err error) {
		s.body, _, err = p.parseBlock("endautoescape")
		return err
	})
	return s, err
}

func (p *parser) parseNamedBlock() (stmt, error) {
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	p.skipName("scoped")
	p.skipName("required")
	s := &scopeStmt{isBlock: true}
	err = p.inFunction(func() (err error) {
		s.body, _, err = p.parseBlock("endblock")
		return err
	})
	p.skipName(name)
	return s, err
}

func (p *parser) parseLoader(tag string, line int) (stmt, error) {
	if _, err := p.parseExpr(true); err != nil {
		return nil, err
	}
	for p.cur().kind == tokenName || p.isOp(",") {
		p.next()
	}
	return &loaderStmt{tag: tag, line: line}, nil
}
