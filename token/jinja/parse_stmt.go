package jinja

import "slices"

func (p *parser) parseIf(line int) (stmt, error) {
	from := len(p.unknowns)
	s := &ifStmt{}
	for {
		test, err := p.parseTuple(tupleSyntax{})
		if err != nil {
			return nil, err
		}
		body, end, err := p.parseBlock("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		s.branches = append(s.branches, ifBranch{test: test, body: body, line: line})
		line = p.cur().line
		if end == "elif" {
			continue
		}
		if end == "else" {
			body, _, err := p.parseBlock("endif")
			if err != nil {
				return nil, err
			}
			s.branches = append(s.branches, ifBranch{body: body})
		}
		p.forgive(from)
		return s, nil
	}
}

func (p *parser) parseFor(line int) (stmt, error) {
	s := &forStmt{line: line, loopID: p.id("loop")}
	var err error
	p.loops = append(p.loops, s)
	s.target, err = p.parseTarget("in", false)
	p.loops = p.loops[:len(p.loops)-1]
	if err != nil {
		return nil, err
	}
	if !p.skipName("in") {
		return nil, p.errorf("expected 'in', got %s", describe(p.cur()))
	}
	if s.iter, err = p.parseTuple(tupleSyntax{end: "recursive"}); err != nil {
		return nil, err
	}
	err = p.inScope(func() error { return p.parseForRest(s) })
	return s, err
}

func (p *parser) parseForRest(s *forStmt) (err error) {
	if p.skipName("if") {
		if s.filter, err = p.parseExpr(true); err != nil {
			return err
		}
	}
	s.recursive = p.skipName("recursive")
	outer := p.canBreak
	p.canBreak = true
	p.loops = append(p.loops, s)
	body, end, err := p.parseBlock("endfor", "else")
	p.loops = p.loops[:len(p.loops)-1]
	p.canBreak = outer
	if err != nil {
		return err
	}
	s.body = body
	if end == "else" {
		s.otherwise, _, err = p.parseBlock("endfor")
	}
	return err
}

func (p *parser) parseSet(line int) (stmt, error) {
	tgt, err := p.parseTarget("", true)
	if err != nil {
		return nil, err
	}
	if p.skipOp("=") {
		value, err := p.parseTuple(tupleSyntax{withCond: true})
		return &setStmt{target: tgt, value: value, line: line}, err
	}
	s := &captureStmt{target: &tgt, textID: p.id(capturedName), line: line}
	if p.isOp("|") {
		if s.filters, err = p.parseFilters(&nameExpr{id: s.textID}, false); err != nil {
			return nil, err
		}
	}
	err = p.inScope(func() (err error) {
		s.body, _, err = p.parseBlock("endset")
		return err
	})
	return s, err
}

// capturedName is the hidden variable through which the text of a filter
// block reaches its filters.
const capturedName = "\x00captured"

func (p *parser) parseFilterBlock(line int) (stmt, error) {
	s := &captureStmt{textID: p.id(capturedName), line: line}
	var err error
	if s.filters, err = p.parseFilters(&nameExpr{id: s.textID}, true); err != nil {
		return nil, err
	}
	err = p.inScope(func() (err error) {
		s.body, _, err = p.parseBlock("endfilter")
		return err
	})
	return s, err
}

func (p *parser) parseWith(line int) (stmt, error) {
	s := &withStmt{line: line}
	for p.cur().kind != tokenBlockEnd {
		if len(s.targets) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		tgt, err := p.parseTarget("", false)
		if err != nil {
			return nil, err
		}
		if err := p.expectOp("="); err != nil {
			return nil, err
		}
		value, err := p.parseExpr(true)
		if err != nil {
			return nil, err
		}
		s.targets, s.values = append(s.targets, tgt), append(s.values, value)
	}
	err := p.inScope(func() (err error) {
		s.body, _, err = p.parseBlock("endwith")
		return err
	})
	return s, err
}

func (p *parser) parseMacro(line int) (stmt, error) {
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	syntax, err := p.parseMacroBody(name, "endmacro", line, nil)
	return &macroStmt{id: p.id(name), syntax: syntax}, err
}

func (p *parser) parseCallBlock(line int) (stmt, error) {
	s := &callStmt{line: line}
	call := func() error {
		e, err := p.parseExpr(true)
		if err != nil {
			return err
		}
		var ok bool
		if s.call, ok = e.(*callExpr); !ok {
			return p.errorf("expected call")
		}
		s.call.args.hasCaller = true
		return nil
	}
	body, err := p.parseMacroBody("", "endcall", line, call)
	s.body = body
	return s, err
}

// parseMacroBody parses a signature and a body. For a call block the
// signature is optional and the call follows it.
func (p *parser) parseMacroBody(name, end string, line int, call func() error) (*macroSyntax, error) {
	m := &macroSyntax{
		name:     name,
		line:     line,
		callerID: -1,
		kwargsID: -1,
		varargID: -1,
	}
	if call == nil || p.isOp("(") {
		if err := p.parseSignature(m); err != nil {
			return nil, err
		}
	}
	if call != nil {
		if err := call(); err != nil {
			return nil, err
		}
	}
	p.macros = append(p.macros, m)
	err := p.inFunction(func() (err error) {
		m.body, _, err = p.parseBlock(end)
		return err
	})
	p.macros = p.macros[:len(p.macros)-1]
	if slices.Contains(m.names, "kwargs") {
		m.kwargsID = -1
	}
	if slices.Contains(m.names, "varargs") {
		m.varargID = -1
	}
	return m, err
}

func (p *parser) parseSignature(m *macroSyntax) error {
	if err := p.expectOp("("); err != nil {
		return err
	}
	for !p.isOp(")") {
		if len(m.params) > 0 {
			if err := p.expectOp(","); err != nil {
				return err
			}
		}
		name, err := p.expectName()
		if err != nil {
			return err
		}
		m.params, m.names = append(m.params, p.id(name)), append(m.names, name)
		if p.skipOp("=") {
			value, err := p.parseExpr(true)
			if err != nil {
				return err
			}
			m.defaults = append(m.defaults, value)
		} else if len(m.defaults) > 0 {
			return p.errorf("non-default argument follows default argument")
		}
	}
	return p.expectOp(")")
}

// noteName records that a body mentions one of the names that change how the
// loop or macro around it is called.
func (p *parser) noteName(name string, id int) {
	switch name {
	case "loop":
		for _, loop := range p.loops {
			loop.usesLoop = true
		}
	case "caller":
		for _, m := range p.macros {
			m.callerID = id
		}
	case "kwargs":
		for _, m := range p.macros {
			m.kwargsID = id
		}
	case "varargs":
		for _, m := range p.macros {
			m.varargID = id
		}
	}
}

// parseTarget parses what a for, set or with assigns to.
func (p *parser) parseTarget(end string, withAttr bool) (target, error) {
	e, err := p.parseTuple(tupleSyntax{end: end, isTarget: true, withAttr: withAttr})
	if err != nil {
		return target{}, err
	}
	return p.asTarget(e)
}

func (p *parser) asTarget(e expr) (target, error) {
	switch e := e.(type) {
	case *nameExpr:
		if p.names[e.id] == "loop" && len(p.loops) > 0 {
			return target{}, p.errorf("can't assign to special loop variable in for-loop")
		}
		return target{kind: targetName, id: e.id}, nil
	case *attrExpr:
		if of, ok := e.of.(*nameExpr); ok {
			return target{kind: targetAttr, id: of.id, attr: e.name}, nil
		}
	case *tupleExpr:
		t := target{kind: targetTuple}
		for _, item := range e.items {
			sub, err := p.asTarget(item)
			if err != nil {
				return target{}, err
			}
			t.items = append(t.items, sub)
		}
		return t, nil
	}
	return target{}, p.errorf("can't assign to this expression")
}
