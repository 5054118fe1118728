package jinja

import "slices"

// eval evaluates e. All evaluation comes through here, so this is where steps
// and nesting are counted.
func (in *interp) eval(e expr, sc *scope) (Value, error) {
	in.steps++
	if in.steps > in.limits.Steps {
		return nil, in.work(0)
	}
	in.depth++
	if in.depth > in.limits.Depth {
		return nil, limitErrorf("evaluation nests more than %d levels; does a macro call itself forever?",
			in.limits.Depth)
	}
	v, err := e.eval(in, sc)
	in.depth--
	return v, err
}

func (e *constExpr) eval(*interp, *scope) (Value, error) { return e.value, nil }

func (e *nameExpr) eval(in *interp, sc *scope) (Value, error) {
	if v, ok := sc.get(in, e.id); ok {
		return v, nil
	}
	return undefinedName(in.template.names[e.id]), nil
}

func (in *interp) evalAll(exprs []expr, sc *scope) ([]Value, error) {
	if len(exprs) == 0 {
		return nil, nil
	}
	if err := in.allocItems(len(exprs)); err != nil {
		return nil, err
	}
	values := make([]Value, len(exprs))
	for i, e := range exprs {
		v, err := in.eval(e, sc)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return values, nil
}

func (e *tupleExpr) eval(in *interp, sc *scope) (Value, error) {
	items, err := in.evalAll(e.items, sc)
	if err != nil {
		return nil, err
	}
	return &Tuple{Items: items}, nil
}

func (e *listExpr) eval(in *interp, sc *scope) (Value, error) {
	items, err := in.evalAll(e.items, sc)
	if err != nil {
		return nil, err
	}
	return &List{Items: items}, nil
}

func (e *dictExpr) eval(in *interp, sc *scope) (Value, error) {
	m := NewMap()
	for i := range e.keys {
		key, err := in.eval(e.keys[i], sc)
		if err != nil {
			return nil, err
		}
		v, err := in.eval(e.values[i], sc)
		if err != nil {
			return nil, err
		}
		if err := in.allocItems(4); err != nil {
			return nil, err
		}
		if err := m.setValue(key, v); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (e *attrExpr) eval(in *interp, sc *scope) (Value, error) {
	of, err := in.eval(e.of, sc)
	if err != nil {
		return nil, err
	}
	return in.attr(of, e.name)
}

func (e *itemExpr) eval(in *interp, sc *scope) (Value, error) {
	of, err := in.eval(e.of, sc)
	if err != nil {
		return nil, err
	}
	key, err := in.eval(e.key, sc)
	if err != nil {
		return nil, err
	}
	return in.item(of, key)
}

func (e *sliceExpr) eval(in *interp, sc *scope) (Value, error) {
	if e.of == nil {
		return nil, typeErrorf("a slice cannot be part of a tuple of subscripts")
	}
	of, err := in.eval(e.of, sc)
	if err != nil {
		return nil, err
	}
	var bounds [3]Value
	for i, part := range []expr{e.start, e.stop, e.step} {
		if part == nil {
			continue
		}
		if bounds[i], err = in.eval(part, sc); err != nil {
			return nil, err
		}
	}
	return in.slice(of, bounds[0], bounds[1], bounds[2])
}

func (e *notExpr) eval(in *interp, sc *scope) (Value, error) {
	v, err := in.eval(e.of, sc)
	return !truth(v), err
}

func (e *signExpr) eval(in *interp, sc *scope) (Value, error) {
	v, err := in.eval(e.of, sc)
	if err != nil {
		return nil, err
	}
	return in.sign(v, e.negate)
}

func (e *arithExpr) eval(in *interp, sc *scope) (Value, error) {
	left, err := in.eval(e.first, sc)
	for i := 0; err == nil && i < len(e.ops); i++ {
		var right Value
		if right, err = in.eval(e.rest[i], sc); err == nil {
			left, err = in.arith(e.ops[i], left, right)
		}
	}
	return left, err
}

func (e *concatExpr) eval(in *interp, sc *scope) (Value, error) {
	texts := make([]Text, len(e.parts))
	for i, part := range e.parts {
		v, err := in.eval(part, sc)
		if err != nil {
			return nil, err
		}
		if texts[i], err = in.print(v); err != nil {
			return nil, err
		}
	}
	return in.joinTexts(texts, Text{})
}

func (e *compareExpr) eval(in *interp, sc *scope) (Value, error) {
	left, err := in.eval(e.first, sc)
	if err != nil {
		return nil, err
	}
	for i, op := range e.ops {
		right, err := in.eval(e.rest[i], sc)
		if err != nil {
			return nil, err
		}
		ok, err := in.compare(op, left, right)
		if err != nil || !ok {
			return false, err
		}
		left = right
	}
	return true, nil
}

func (e *logicExpr) eval(in *interp, sc *scope) (v Value, err error) {
	for _, part := range e.parts {
		if v, err = in.eval(part, sc); err != nil {
			return nil, err
		}
		if truth(v) == e.isOr {
			return v, nil
		}
	}
	return v, nil
}

func (e *condExpr) eval(in *interp, sc *scope) (Value, error) {
	test, err := in.eval(e.test, sc)
	switch {
	case err != nil:
		return nil, err
	case truth(test):
		return in.eval(e.then, sc)
	case e.otherwise != nil:
		return in.eval(e.otherwise, sc)
	}
	return undefinedHint("the inline if-expression evaluated to false and no else section was defined"), nil
}

// callArgs are the evaluated arguments of a call.
type callArgs struct {
	pos   []Value
	names []string
	named []Value
}

// take removes and returns the named argument.
func (a *callArgs) take(name string) (Value, bool) {
	i := slices.Index(a.names, name)
	if i < 0 {
		return nil, false
	}
	v := a.named[i]
	a.names = slices.Delete(slices.Clone(a.names), i, i+1)
	a.named = slices.Delete(slices.Clone(a.named), i, i+1)
	return v, true
}

func (in *interp) evalArgs(syntax *callSyntax, sc *scope) (args callArgs, err error) {
	if args.pos, err = in.evalAll(syntax.pos, sc); err != nil {
		return args, err
	}
	if args.named, err = in.evalAll(syntax.named, sc); err != nil {
		return args, err
	}
	args.names = syntax.names
	if syntax.dynPos != nil {
		if err := in.addDynPos(&args, syntax.dynPos, sc); err != nil {
			return args, err
		}
	}
	if syntax.dynNamed != nil {
		err = in.addDynNamed(&args, syntax.dynNamed, sc)
	}
	return args, err
}

func (in *interp) addDynPos(args *callArgs, e expr, sc *scope) error {
	v, err := in.eval(e, sc)
	if err != nil {
		return err
	}
	items, err := in.collect(v)
	if err != nil {
		return err
	}
	args.pos = append(slices.Clip(args.pos), items...)
	return nil
}

func (in *interp) addDynNamed(args *callArgs, e expr, sc *scope) error {
	v, err := in.eval(e, sc)
	if err != nil {
		return err
	}
	m, ok := v.(*Map)
	if !ok {
		return typeErrorf("argument after ** must be a mapping, not %s", typeName(v))
	}
	if err := in.allocItems(2 * m.Len()); err != nil {
		return err
	}
	args.names = slices.Clip(args.names)
	for i, key := range m.keys {
		name, ok := asStr(key)
		if !ok {
			return typeErrorf("keywords must be strings")
		}
		if slices.Contains(args.names, name) {
			return typeErrorf("got multiple values for keyword argument '%s'", name)
		}
		args.names = append(args.names, name)
		args.named = append(args.named, m.vals[i])
	}
	return nil
}

func (e *callExpr) eval(in *interp, sc *scope) (Value, error) {
	return e.evalWith(in, sc, nil)
}

// evalWith calls with the body of a call block as the argument "caller".
func (e *callExpr) evalWith(in *interp, sc *scope, caller *macro) (Value, error) {
	fn, err := in.eval(e.fn, sc)
	if err != nil {
		return nil, err
	}
	args, err := in.evalArgs(&e.args, sc)
	if err != nil {
		return nil, err
	}
	if caller != nil {
		args.names = append(slices.Clip(args.names), "caller")
		args.named = append(args.named, caller)
	}
	return in.call(fn, args)
}

func (in *interp) call(fn Value, args callArgs) (Value, error) {
	switch fn := fn.(type) {
	case *function:
		return fn.call(in, args)
	case *macro:
		return fn.call(in, args)
	case *loopState:
		return fn.call(in, args)
	case *joiner:
		return fn.call()
	case *Undefined:
		return nil, fn.err()
	}
	return nil, typeErrorf("'%s' object is not callable", typeName(fn))
}

func (e *filterExpr) eval(in *interp, sc *scope) (Value, error) {
	if e.fn == nil {
		return nil, errorf(RuntimeError, "no filter named '%s'", e.name)
	}
	of, err := in.eval(e.of, sc)
	if err != nil {
		return nil, err
	}
	args, err := in.evalArgs(&e.args, sc)
	if err != nil {
		return nil, err
	}
	return in.filter(e.fn, of, args)
}

// filter applies a filter. A filter that keeps no spans may return a plain
// string; that string is the author's if all operands are.
func (in *interp) filter(fn filterFunc, of Value, args callArgs) (Value, error) {
	v, err := fn(in, of, args)
	return in.derivedValue(v, of, args), err
}

func (e *testExpr) eval(in *interp, sc *scope) (Value, error) {
	if e.fn == nil {
		return nil, errorf(RuntimeError, "no test named '%s'", e.name)
	}
	of, err := in.eval(e.of, sc)
	if err != nil {
		return nil, err
	}
	args, err := in.evalArgs(&e.args, sc)
	if err != nil {
		return nil, err
	}
	holds, err := e.fn(in, of, args)
	return holds, err
}
