package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// parseTuple parses one expression, or several between commas as a tuple.
// "a if b else c" is allowed there if withCond is set.
func (p *parser) parseTuple(withCond bool) expr {
	var items []expr
	for isTuple := false; ; isTuple = true {
		t := p.cur()
		if t.kind == tokenVarEnd || t.kind == tokenBlockEnd || t.is(tokenOp, ")") {
			if len(items) == 0 && !isTuple && !t.is(tokenOp, ")") {
				p.fail("expected an expression, got %s", t.describe())
			}
			break
		}
		if withCond {
			items = append(items, p.parseExpr())
		} else {
			items = append(items, p.parseOr())
		}
		if p.skipOp(",") {
			continue
		}
		if !isTuple {
			return items[0]
		}
		break
	}
	return func(r *state) Value { return tupleOf(r.evalAll(items)...) }
}

func (r *state) evalAll(exprs []expr) []Value {
	if len(exprs) == 0 {
		return nil
	}
	r.allocItems(len(exprs))
	values := make([]Value, len(exprs))
	for i, e := range exprs {
		values[i] = e(r)
	}
	return values
}

func (p *parser) parseExpr() expr {
	p.enter()
	defer p.leave()
	from, levels := len(p.unknowns), 0
	e := p.parseOr()
	for ; p.skipName("if"); levels++ {
		p.enter()
		then, test, otherwise := e, p.parseOr(), noElse
		if p.skipName("else") {
			otherwise = p.parseExpr()
		}
		e = func(r *state) Value {
			if truth(test(r)) {
				return then(r)
			}
			return otherwise(r)
		}
		p.forgive(from)
	}
	p.depth -= levels
	return e
}

func noElse(*state) Value {
	return undefinedHint("the inline if-expression evaluated to false and no else section was defined")
}

func (p *parser) parseOr() expr {
	return p.parseLogic("or", func() expr { return p.parseLogic("and", p.parseNot) })
}

func (p *parser) parseLogic(word string, operand func() expr) expr {
	parts, isOr := []expr{operand()}, word == "or"
	for p.skipName(word) {
		parts = append(parts, operand())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return func(r *state) (v Value) {
		for _, part := range parts {
			if v = part(r); truth(v) == isOr {
				break
			}
		}
		return v
	}
}

func (p *parser) parseNot() expr {
	if !p.skipName("not") {
		return p.parseCompare()
	}
	p.enter()
	defer p.leave()
	of := p.parseNot()
	return func(r *state) Value { return !truth(of(r)) }
}

func (p *parser) parseCompare() expr {
	first := p.parseSum()
	var rest []expr
	var tests []func(r *state, a, b Value) bool
	for {
		op := p.cur().text
		if p.isName("not") && p.look().is(tokenName, "in") {
			p.next()
			op = "not in"
		}
		compare := comparisons[op]
		if kind := p.cur().kind; compare == nil || kind != tokenOp && kind != tokenName {
			break
		}
		p.next()
		tests, rest = append(tests, compare), append(rest, p.parseSum())
	}
	switch len(tests) {
	case 0:
		return first
	case 1:
		second, compare := rest[0], tests[0]
		return func(r *state) Value { return compare(r, first(r), second(r)) }
	}
	return func(r *state) Value {
		left := first(r)
		for i, compare := range tests {
			right := rest[i](r)
			if !compare(r, left, right) {
				return false
			}
			left = right
		}
		return true
	}
}

func (p *parser) parseSum() expr { return p.parseArith("+ -", p.parseConcat) }

func (p *parser) parseConcat() expr {
	parts := []expr{p.parseProduct()}
	for p.skipOp("~") {
		parts = append(parts, p.parseProduct())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return func(r *state) Value {
		texts := make([]Text, len(parts))
		for i, part := range parts {
			texts[i] = r.print(part(r))
		}
		return r.join(texts, Text{})
	}
}

func (p *parser) parseProduct() expr {
	return p.parseArith("* / // %", func() expr { return p.parseUnary(true) })
}

// parseArith parses a chain of operators of one precedence. It is kept flat so
// that a long chain costs no stack.
func (p *parser) parseArith(ops string, operand func() expr) expr {
	first := operand()
	var names []string
	var rest []expr
	for p.cur().kind == tokenOp && strings.Contains(" "+ops+" ", " "+p.cur().text+" ") {
		names = append(names, p.next().text)
		rest = append(rest, operand())
	}
	if len(rest) == 0 {
		return first
	}
	isSum := !slices.ContainsFunc(names, func(op string) bool { return op != "+" })
	return func(r *state) Value {
		v := first(r)
		if t, ok := textOf(v); ok && isSum {
			return r.addTexts(t, rest)
		}
		for i, op := range names {
			v = r.arith(op, v, rest[i](r))
		}
		return v
	}
}

// addTexts adds several strings at once.
func (r *state) addTexts(first Text, rest []expr) Value {
	texts := make([]Text, 1, len(rest)+1)
	texts[0] = first
	for _, e := range rest {
		v := e(r)
		t, ok := textOf(v)
		if !ok {
			return r.arith("+", first.value(), v) // which fails
		}
		texts = append(texts, t)
	}
	return r.join(texts, Text{})
}

// parseUnary parses a sign, a primary and what follows it. A filter after a
// signed number applies to the signed number.
func (p *parser) parseUnary(withFilter bool) expr {
	var e expr
	if p.isOp("-") || p.isOp("+") {
		p.enter()
		negate := p.next().text == "-"
		of := p.parseUnary(false)
		p.leave()
		e = func(r *state) Value { return signed(of(r), negate) }
	} else {
		e = p.parsePrimary()
	}
	return p.parsePostfix(e, withFilter)
}

func constant(v Value) expr { return func(*state) Value { return v } }

func (p *parser) parsePrimary() expr {
	switch t := p.next(); {
	case t.kind == tokenName:
		return p.parseNameOrConst(t.text)
	case t.kind == tokenString:
		var text strings.Builder
		text.WriteString(t.text)
		for p.cur().kind == tokenString {
			text.WriteString(p.next().text)
		}
		return constant(Own(text.String()))
	case t.kind == tokenInt || t.kind == tokenFloat:
		n, err := readNumber(t.text)
		if err != nil {
			p.fail("%v", err)
		}
		return constant(n)
	case t.is(tokenOp, "("):
		p.enter()
		defer p.leave()
		e := p.parseTuple(true)
		p.expectOp(")")
		return e
	case t.is(tokenOp, "["):
		var items []expr
		p.separated("]", func() { items = append(items, p.parseExpr()) })
		return func(r *state) Value { return &List{Items: r.evalAll(items)} }
	case t.is(tokenOp, "{"):
		return p.parseDict()
	case t.kind != tokenEOF:
		p.pos--
	}
	p.fail("unexpected %s", p.cur().describe())
	return nil
}

func (p *parser) parseNameOrConst(name string) expr {
	switch name {
	case "true", "True":
		return constant(true)
	case "false", "False":
		return constant(false)
	case "none", "None":
		return constant(nil)
	}
	id := p.id(name)
	return func(r *state) Value {
		if v, ok := r.get(id); ok {
			return v
		}
		return &undefined{name: name}
	}
}

func (p *parser) parseDict() expr {
	var keys, values []expr
	p.separated("}", func() {
		keys = append(keys, p.parseExpr())
		p.expectOp(":")
		values = append(values, p.parseExpr())
	})
	return func(r *state) Value {
		m := NewMap()
		for i, key := range keys {
			r.allocItems(4)
			k := key(r)
			m.setValue(k, values[i](r))
		}
		return m
	}
}

// parsePostfix parses attributes, subscripts and calls after e, and filters and
// tests if withFilter is set.
func (p *parser) parsePostfix(e expr, withFilter bool) expr {
	for levels := 0; ; levels++ {
		p.enter()
		switch {
		case p.skipOp("."):
			e = p.parseAttr(e)
		case p.isOp("["):
			e = p.parseSubscript(e)
		case p.isOp("("):
			e = callOf(e, p.parseArgs())
		case withFilter && p.skipOp("|"):
			e = p.parseFilter(e)
		case withFilter && p.skipName("is"):
			e = p.parseTest(e)
		default:
			p.depth -= levels + 1
			return e
		}
	}
}

func (p *parser) parseAttr(of expr) expr {
	t := p.next()
	switch t.kind {
	case tokenName:
	case tokenInt:
		n, _ := strconv.Atoi(t.text)
		return itemOf(of, constant(n))
	default:
		p.fail("expected name or number, got %s", t.describe())
	}
	name := t.text
	if p.isOp("(") {
		args := p.parseArgs()
		return func(r *state) Value {
			r.work(1)
			owner := of(r)
			if m := r.methodOf(owner, name); m != nil {
				return r.callMethod(m, owner, args.eval(r))
			}
			return r.call(r.attr(owner, name), args.eval(r))
		}
	}
	isKey := mapMethods[name] == nil && !isRefused((*Map)(nil), name)
	return func(r *state) Value {
		r.work(1)
		owner := of(r)
		if m, ok := owner.(*Map); ok && isKey {
			if v, ok := m.Get(name); ok {
				return v
			}
			return undefinedAttr(owner, name)
		}
		return r.attr(owner, name)
	}
}

func itemOf(of, key expr) expr {
	return func(r *state) Value {
		r.work(1)
		owner := of(r)
		return r.item(owner, key(r))
	}
}

func (p *parser) parseSubscript(of expr) expr {
	p.next()
	none := constant(nil)
	bounds := [3]expr{none, none, none}
	n := 0
	for ; n < len(bounds); n++ {
		if !p.isOp(":") && !p.isOp("]") {
			bounds[n] = p.parseExpr()
		}
		if !p.skipOp(":") {
			break
		}
	}
	if n == 0 && p.cur().is(tokenOp, "]") && p.tokens[p.pos-1].is(tokenOp, "[") {
		p.fail("expected an expression, got ']'")
	}
	p.expectOp("]")
	if n == 0 {
		return itemOf(of, bounds[0])
	}
	return func(r *state) Value {
		r.work(1)
		owner := of(r)
		return r.slice(owner, bounds[0](r), bounds[1](r), bounds[2](r))
	}
}

// callSyntax is what stands between the parentheses of a call.
type callSyntax struct {
	pos   []expr
	names []string
	named []expr
}

func (c *callSyntax) eval(r *state) callArgs {
	return callArgs{pos: r.evalAll(c.pos), names: c.names, named: r.evalAll(c.named)}
}

func (p *parser) parseArgs() *callSyntax {
	args := &callSyntax{}
	p.expectOp("(")
	p.separated(")", func() {
		switch {
		case p.cur().kind == tokenName && p.look().is(tokenOp, "="):
			args.names = append(args.names, p.next().text)
			p.next()
			args.named = append(args.named, p.parseExpr())
		case len(args.named) > 0:
			p.fail("a positional argument follows a keyword argument")
		default:
			args.pos = append(args.pos, p.parseExpr())
		}
	})
	return args
}

func callOf(fn expr, args *callSyntax) expr {
	return func(r *state) Value {
		r.work(1)
		f := fn(r)
		return r.call(f, args.eval(r))
	}
}

func (p *parser) noteUnknown(what, name string, line int) {
	err := &Error{Kind: SyntaxError, Line: line, Message: "no " + what + " named '" + name + "'"}
	p.unknowns = append(p.unknowns, unknownName{err: err})
}

// parseFilter parses "name(args)" after a bar or the tag filter.
func (p *parser) parseFilter(of expr) expr {
	line := p.cur().line
	name, args := p.expectName(), &callSyntax{}
	f := filterTable[name]
	if f == nil {
		p.noteUnknown("filter", name, line)
	}
	if p.isOp("(") {
		args = p.parseArgs()
	}
	return func(r *state) Value {
		if f == nil {
			fail(RuntimeError, "no filter named '%s'", name)
		}
		r.work(1)
		v := of(r)
		return r.filter(f, v, args.eval(r))
	}
}

func (p *parser) parseTest(of expr) expr {
	line := p.cur().line
	negated := p.skipName("not")
	name, args := p.expectName(), &callSyntax{}
	holds := testTable[name]
	if holds == nil {
		p.noteUnknown("test", name, line)
	}
	switch {
	case p.isName("is"):
		p.fail("you cannot chain multiple tests with is")
	case p.isOp("("):
		args = p.parseArgs()
	case p.atTestArg():
		args.pos = []expr{p.parsePostfix(p.parsePrimary(), false)}
	}
	return func(r *state) Value {
		if holds == nil {
			fail(RuntimeError, "no test named '%s'", name)
		}
		r.work(1)
		v := of(r)
		return holds(r, v, args.eval(r)) != negated
	}
}

// atTestArg says whether the argument of a test follows without parentheses.
func (p *parser) atTestArg() bool {
	switch t := p.cur(); t.kind {
	case tokenString, tokenInt, tokenFloat:
		return true
	case tokenName:
		return t.text != "else" && t.text != "or" && t.text != "and"
	}
	return p.isOp("[") || p.isOp("{")
}
