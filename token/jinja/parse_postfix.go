package jinja

// parsePostfix parses attribute access, subscripts and calls after e.
func (p *parser) parsePostfix(e expr) (expr, error) {
	var err error
	for err == nil && p.cur().kind == tokenOp {
		switch p.cur().text {
		case ".":
			e, err = p.parseAttr(e)
		case "[":
			e, err = p.parseSubscript(e)
		case "(":
			e, err = p.parseCall(e)
		default:
			return e, nil
		}
	}
	return e, err
}

// parseFilterTail parses filters, tests and calls after e.
func (p *parser) parseFilterTail(e expr) (expr, error) {
	var err error
	for err == nil {
		switch {
		case p.isOp("|"):
			e, err = p.parseFilters(e, false)
		case p.cur().is(tokenName, "is"):
			e, err = p.parseTest(e)
		case p.isOp("("):
			e, err = p.parseCall(e)
		default:
			return e, nil
		}
	}
	return e, err
}

func (p *parser) parseAttr(of expr) (expr, error) {
	p.next()
	t := p.next()
	switch t.kind {
	case tokenName:
		return &attrExpr{of: of, name: t.text}, nil
	case tokenInt:
		key, err := p.intConst(t.text)
		return &itemExpr{of: of, key: key}, err
	}
	return nil, p.errorf("expected name or number, got %s", describe(t))
}

func (p *parser) parseSubscript(of expr) (expr, error) {
	p.next()
	var keys []expr
	for !p.isOp("]") {
		if len(keys) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		key, err := p.parseSubscriptKey()
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	if err := p.expectOp("]"); err != nil {
		return nil, err
	}
	if len(keys) != 1 {
		return &itemExpr{of: of, key: &tupleExpr{items: keys}}, nil
	}
	if slice, ok := keys[0].(*sliceExpr); ok {
		slice.of = of
		return slice, nil
	}
	return &itemExpr{of: of, key: keys[0]}, nil
}

// parseSubscriptKey parses an index or a slice; the slice lacks its operand.
func (p *parser) parseSubscriptKey() (expr, error) {
	slice := &sliceExpr{}
	var err error
	if !p.isOp(":") {
		if slice.start, err = p.parseExpr(true); err != nil {
			return nil, err
		}
		if !p.isOp(":") {
			return slice.start, nil
		}
	}
	p.next()
	if slice.stop, err = p.parseSlicePart(); err != nil {
		return nil, err
	}
	if p.skipOp(":") {
		slice.step, err = p.parseSlicePart()
	}
	return slice, err
}

func (p *parser) parseSlicePart() (expr, error) {
	if p.isOp(":") || p.isOp("]") || p.isOp(",") {
		return nil, nil
	}
	return p.parseExpr(true)
}

func (p *parser) parseCall(fn expr) (expr, error) {
	args, err := p.parseCallArgs()
	return &callExpr{fn: fn, args: args}, err
}

func (p *parser) parseCallArgs() (callSyntax, error) {
	var args callSyntax
	if err := p.expectOp("("); err != nil {
		return args, err
	}
	for first := true; !p.isOp(")"); first = false {
		if !first {
			if err := p.expectOp(","); err != nil {
				return args, err
			}
			if p.isOp(")") {
				break
			}
		}
		if err := p.parseCallArg(&args); err != nil {
			return args, err
		}
	}
	return args, p.expectOp(")")
}

func (p *parser) parseCallArg(args *callSyntax) (err error) {
	switch {
	case p.isOp("*"):
		if args.dynPos != nil || args.dynNamed != nil {
			return p.badCallArg()
		}
		p.next()
		args.dynPos, err = p.parseExpr(true)
	case p.isOp("**"):
		if args.dynNamed != nil {
			return p.badCallArg()
		}
		p.next()
		args.dynNamed, err = p.parseExpr(true)
	case p.cur().kind == tokenName && p.look().is(tokenOp, "="):
		if args.dynNamed != nil {
			return p.badCallArg()
		}
		args.names = append(args.names, p.next().text)
		p.next()
		var value expr
		value, err = p.parseExpr(true)
		args.named = append(args.named, value)
	default:
		if args.dynPos != nil || args.dynNamed != nil || len(args.named) > 0 {
			return p.badCallArg()
		}
		var value expr
		value, err = p.parseExpr(true)
		args.pos = append(args.pos, value)
	}
	return err
}

func (p *parser) badCallArg() error {
	return p.errorf("invalid syntax for function call expression")
}

// parseDottedName parses the name of a filter or test.
func (p *parser) parseDottedName() (string, error) {
	name, err := p.expectName()
	for err == nil && p.skipOp(".") {
		var part string
		part, err = p.expectName()
		name += "." + part
	}
	return name, err
}

// parseFilters parses "|name(args)|name…" after e. In a filter block the
// first filter has no bar before it.
func (p *parser) parseFilters(e expr, isInline bool) (expr, error) {
	for isInline || p.isOp("|") {
		if !isInline {
			p.next()
		}
		isInline = false
		line := p.cur().line
		name, err := p.parseDottedName()
		if err != nil {
			return nil, err
		}
		filter := &filterExpr{of: e, name: name, fn: filterTable[name]}
		if filter.fn == nil {
			p.noteUnknown("filter", name, line)
		}
		if p.isOp("(") {
			if filter.args, err = p.parseCallArgs(); err != nil {
				return nil, err
			}
		}
		e = filter
	}
	return e, nil
}

func (p *parser) noteUnknown(what, name string, line int) {
	err := errorf(SyntaxError, "no %s named '%s'", what, name)
	err.Line = line
	p.unknowns = append(p.unknowns, unknownName{err: err})
}

func (p *parser) parseTest(of expr) (expr, error) {
	line := p.next().line
	negated := p.skipName("not")
	name, err := p.parseDottedName()
	if err != nil {
		return nil, err
	}
	test := &testExpr{of: of, name: name, fn: testTable[name]}
	if test.fn == nil {
		p.noteUnknown("test", name, line)
	}
	switch {
	case p.isOp("("):
		test.args, err = p.parseCallArgs()
	case p.atTestArg():
		err = p.parseTestArg(test)
	}
	if err != nil {
		return nil, err
	}
	if negated {
		return &notExpr{of: test}, nil
	}
	return test, nil
}

// atTestArg says whether the argument of a test follows without parentheses.
func (p *parser) atTestArg() bool {
	t := p.cur()
	switch t.kind {
	case tokenString, tokenInt, tokenFloat:
		return true
	case tokenName:
		return t.text != "else" && t.text != "or" && t.text != "and"
	}
	return p.isOp("[") || p.isOp("{")
}

func (p *parser) parseTestArg(test *testExpr) error {
	if p.cur().is(tokenName, "is") {
		return p.errorf("you cannot chain multiple tests with is")
	}
	arg, err := p.parsePrimary(false, false)
	if err != nil {
		return err
	}
	arg, err = p.parsePostfix(arg)
	test.args.pos = []expr{arg}
	return err
}
