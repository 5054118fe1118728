package jinja

// execAll runs statements in order until one breaks or continues a loop.
func (in *interp) execAll(body []stmt, sc *scope) (flow, error) {
	in.depth++
	if in.depth > in.limits.Depth {
		return flowNext, limitErrorf("evaluation nests more than %d levels; does a macro call itself forever?",
			in.limits.Depth)
	}
	for _, s := range body {
		if err := in.work(1); err != nil {
			return flowNext, err
		}
		f, err := s.exec(in, sc)
		if err != nil || f != flowNext {
			in.depth--
			return f, err
		}
	}
	in.depth--
	return flowNext, nil
}

// fail places err on a template line.
func (in *interp) fail(err error, line int) error {
	return atLine(err, in.template.name, line)
}

func (s *dataStmt) exec(in *interp, _ *scope) (flow, error) {
	return flowNext, in.write(Text{text: s.text, whole: true})
}

func (s *outputStmt) exec(in *interp, sc *scope) (flow, error) {
	v, err := in.eval(s.of, sc)
	if err != nil {
		return flowNext, in.fail(err, s.line)
	}
	return flowNext, in.fail(in.writeValue(v), s.line)
}

func (s *ifStmt) exec(in *interp, sc *scope) (flow, error) {
	for i := range s.branches {
		branch := &s.branches[i]
		if branch.test == nil {
			return in.execAll(branch.body, sc)
		}
		v, err := in.eval(branch.test, sc)
		if err != nil {
			return flowNext, in.fail(err, branch.line)
		}
		if truth(v) {
			return in.execAll(branch.body, sc)
		}
	}
	return flowNext, nil
}

func (s *setStmt) exec(in *interp, sc *scope) (flow, error) {
	v, err := in.eval(s.value, sc)
	if err == nil {
		err = in.assign(&s.target, v, sc)
	}
	return flowNext, in.fail(err, s.line)
}

// assign gives v to a target, unpacking it if the target is a tuple.
func (in *interp) assign(t *target, v Value, sc *scope) error {
	switch t.kind {
	case targetName:
		sc.set(in, t.id, v)
		return nil
	case targetAttr:
		owner, _ := sc.get(in, t.id)
		ns, ok := owner.(*namespace)
		if !ok {
			return errorf(RuntimeError, "cannot assign attribute on non-namespace object")
		}
		ns.attrs.Set(t.attr, v)
		return in.alloc(valueBytes)
	}
	items, err := in.unpack(v, len(t.items))
	if err != nil {
		return err
	}
	for i := range t.items {
		if err := in.assign(&t.items[i], items[i], sc); err != nil {
			return err
		}
	}
	return nil
}

// unpack returns exactly n items of v.
func (in *interp) unpack(v Value, n int) ([]Value, error) {
	if t, ok := v.(*Tuple); ok && len(t.Items) == n {
		return t.Items, nil
	}
	next, err := in.iterate(v)
	if err != nil {
		return nil, typeErrorf("cannot unpack non-iterable %s object", typeName(v))
	}
	items := make([]Value, 0, n)
	for {
		item, ok, err := next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		if len(items) == n {
			return nil, valueErrorf("too many values to unpack (expected %d)", n)
		}
		items = append(items, item)
	}
	if len(items) < n {
		return nil, valueErrorf("not enough values to unpack (expected %d, got %d)", n, len(items))
	}
	return items, nil
}

func (s *captureStmt) exec(in *interp, sc *scope) (flow, error) {
	inner := &scope{parent: sc}
	var f flow
	v, err := in.capture(func() (err error) {
		f, err = in.execAll(s.body, inner)
		return err
	})
	if err != nil || f != flowNext {
		return f, err
	}
	if s.filters != nil {
		inner.set(in, s.textID, v)
		if v, err = in.eval(s.filters, inner); err != nil {
			return flowNext, in.fail(err, s.line)
		}
	}
	if s.target != nil {
		return flowNext, in.fail(in.assign(s.target, v, sc), s.line)
	}
	return flowNext, in.fail(in.writeValue(v), s.line)
}

func (s *withStmt) exec(in *interp, sc *scope) (flow, error) {
	inner := &scope{parent: sc}
	for i, value := range s.values {
		v, err := in.eval(value, sc)
		if err == nil {
			err = in.assign(&s.targets[i], v, inner)
		}
		if err != nil {
			return flowNext, in.fail(err, s.line)
		}
	}
	return in.execAll(s.body, inner)
}

func (s *scopeStmt) exec(in *interp, sc *scope) (flow, error) {
	if s.isBlock {
		for !sc.isRoot {
			sc = sc.parent
		}
	}
	return in.execAll(s.body, &scope{parent: sc})
}

func (s *flowStmt) exec(*interp, *scope) (flow, error) { return s.flow, nil }

func (s *loaderStmt) exec(in *interp, _ *scope) (flow, error) {
	err := errorf(RuntimeError, "'%s' is not supported: a chat template has no other templates to load", s.tag)
	return flowNext, in.fail(err, s.line)
}

func (s *macroStmt) exec(in *interp, sc *scope) (flow, error) {
	sc.set(in, s.id, &macro{syntax: s.syntax, scope: sc})
	return flowNext, in.alloc(valueBytes)
}

func (s *callStmt) exec(in *interp, sc *scope) (flow, error) {
	v, err := s.call.evalWith(in, sc, &macro{syntax: s.body, scope: sc})
	if err != nil {
		return flowNext, in.fail(err, s.line)
	}
	return flowNext, in.fail(in.writeValue(v), s.line)
}
