package jinja

func (p *parser) parseStatement() stmt {
	t := p.cur()
	if t.kind != tokenName {
		p.fail("tag name expected, got %s", t.describe())
	}
	p.next()
	switch t.text {
	case "if":
		return p.parseIf(t.line)
	case "for":
		return p.parseFor(t.line)
	case "set":
		return p.parseSet(t.line)
	case "macro":
		return p.parseMacro()
	case "filter":
		return p.parseFilterBlock(t.line)
	case "generation":
		body := p.inFunction("endgeneration")
		return func(r *state) flow {
			r.inScope(r.scope, func() { r.run(body) })
			return flowNext
		}
	case "break", "continue":
		if !p.canBreak {
			p.fail("'%s' outside loop", t.text)
		}
		f := flowBreak
		if t.text == "continue" {
			f = flowContinue
		}
		return func(*state) flow { return f }
	}
	p.pos--
	p.fail("encountered unknown tag '%s'", t.text)
	return nil
}

func (p *parser) parseIf(line int) stmt {
	type branch struct {
		test expr
		body []stmt
		line int
	}
	from := len(p.unknowns)
	var branches []branch
	for end := "elif"; end != "endif"; {
		b := branch{line: line, test: constant(true)}
		if end == "elif" {
			b.test = p.parseTuple(false)
			b.body, end = p.parseBlock("elif", "else", "endif")
		} else {
			b.body, end = p.parseBlock("endif")
		}
		line = p.cur().line
		branches = append(branches, b)
	}
	p.forgive(from)
	return func(r *state) flow {
		for i := range branches {
			r.line = branches[i].line
			if truth(branches[i].test(r)) {
				return r.run(branches[i].body)
			}
		}
		return flowNext
	}
}

func (p *parser) parseFor(line int) stmt {
	p.loops++
	assign := p.parseTarget(false)
	p.loops--
	if !p.skipName("in") {
		p.fail("expected 'in', got %s", p.cur().describe())
	}
	f := &forLoop{line: line, assign: assign, items: p.parseTuple(false), loopID: p.id("loop")}
	from := len(p.unknowns)
	if p.skipName("if") {
		f.keep = p.parseExpr()
	}
	outer := p.canBreak
	p.canBreak = true
	p.loops++
	body, end := p.parseBlock("endfor", "else")
	p.loops--
	p.canBreak = outer
	if f.body = body; end == "else" {
		f.otherwise, _ = p.parseBlock("endfor")
	}
	p.firm(from)
	return f.run
}

func (p *parser) parseSet(line int) stmt {
	assign := p.parseTarget(true)
	if p.skipOp("=") {
		value := p.parseTuple(true)
		return func(r *state) flow {
			r.line = line
			assign(r, value(r))
			return flowNext
		}
	}
	captured, filtered := p.parseCaptured()
	return capture(p.inScope("endset"), line, captured, filtered, assign)
}

// parseCaptured parses the filters of a block. The text of the block reaches
// them by a hidden variable.
func (p *parser) parseCaptured() (id int, filtered expr) {
	id = p.id("\x00captured")
	filtered = func(r *state) Value {
		v, _ := r.get(id)
		return v
	}
	for p.skipOp("|") {
		filtered = p.parseFilter(filtered)
	}
	return id, filtered
}

func (p *parser) parseFilterBlock(line int) stmt {
	p.pos-- // in the place of the tag stands the bar before the first filter
	*p.cur() = token{kind: tokenOp, text: "|", line: line}
	captured, filtered := p.parseCaptured()
	write := func(r *state, v Value) { r.write(r.print(v)) }
	return capture(p.inScope("endfilter"), line, captured, filtered, write)
}

// capture is a statement that renders body, filters the text and hands it to use.
func capture(body []stmt, line, captured int, filtered expr, use target) stmt {
	return func(r *state) (f flow) {
		r.line = line
		var v Value
		text := r.capture(func() {
			r.inScope(r.scope, func() { f = r.run(body) })
		})
		if f != flowNext {
			return f
		}
		r.inScope(r.scope, func() {
			r.set(captured, text)
			v = filtered(r)
		})
		use(r, v)
		return f
	}
}

func (p *parser) parseMacro() stmt {
	m := &macro{name: p.expectName()}
	id, start, outer := p.id(m.name), p.depth, p.deepest
	p.deepest = start
	p.expectOp("(")
	p.separated(")", func() {
		name := p.expectName()
		m.ids, m.params = append(m.ids, p.id(name)), append(m.params, name)
		if p.skipOp("=") {
			m.defaults = append(m.defaults, p.parseExpr())
		} else if len(m.defaults) > 0 {
			p.fail("non-default argument follows default argument")
		}
	})
	m.body = p.inFunction("endmacro")
	m.levels = p.deepest - start
	p.deepest = max(outer, p.deepest)
	return func(r *state) flow {
		r.alloc(valueBytes)
		scope := r.scope
		call := func(r *state, args callArgs) Value { return m.call(r, scope, args) }
		r.set(id, &function{kind: "Macro", name: m.name, call: call})
		return flowNext
	}
}

// A target is what an assignment assigns to: a name, an attribute of a
// namespace, or a tuple of targets.
type target func(r *state, v Value)

// parseTarget parses what a for, set or with assigns to. Attributes of namespaces
// are allowed if withAttr is set.
func (p *parser) parseTarget(withAttr bool) target {
	p.enter()
	defer p.leave()
	var items []target
	for isTuple := false; ; isTuple = true {
		if isTuple && (p.isName("in") || p.isOp("=") || p.isOp(")")) {
			break
		}
		items = append(items, p.parseTargetItem(withAttr))
		if p.skipOp(",") {
			continue
		}
		if !isTuple {
			return items[0]
		}
		break
	}
	return func(r *state, v Value) {
		for i, item := range r.unpack(v, len(items)) {
			items[i](r, item)
		}
	}
}

func (p *parser) parseTargetItem(withAttr bool) target {
	if p.skipOp("(") {
		t := p.parseTarget(withAttr)
		p.expectOp(")")
		return t
	}
	name := p.expectName()
	id := p.id(name)
	switch {
	case withAttr && p.skipOp("."):
		attr := p.expectName()
		return func(r *state, v Value) {
			owner, _ := r.get(id)
			ns, ok := owner.(*namespace)
			if !ok {
				fail(RuntimeError, "cannot assign attribute on non-namespace object")
			}
			r.alloc(valueBytes)
			ns.attrs.Set(attr, v)
		}
	case name == "loop" && p.loops > 0:
		p.fail("can't assign to special loop variable in for-loop")
	case name == "true" || name == "false" || name == "none" || name == "True" || name == "False" || name == "None":
		p.fail("can't assign to '%s'", name)
	}
	return func(r *state, v Value) { r.set(id, v) }
}
