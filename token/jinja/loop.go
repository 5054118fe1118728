package jinja

// A loopState is the variable "loop" of a running for statement.
type loopState struct {
	in    *interp
	stmt  *forStmt
	outer *scope

	source Value
	pull   func() (Value, bool, error)
	ahead  []Value
	length int

	index0   int
	depth0   int
	current  Value
	previous Value
	changed  Value
}

func (s *forStmt) exec(in *interp, sc *scope) (flow, error) {
	source, err := in.eval(s.iter, sc)
	if err != nil {
		return flowNext, in.fail(err, s.line)
	}
	if s.recursive {
		text, err := in.capture(func() error { return s.run(in, sc, source, 0) })
		if err == nil {
			err = in.writeValue(text)
		}
		return flowNext, in.fail(err, s.line)
	}
	return flowNext, in.fail(s.run(in, sc, source, 0), s.line)
}

// run renders the loop over source. Depth0 counts recursive calls.
func (s *forStmt) run(in *interp, sc *scope, source Value, depth0 int) error {
	pull, err := in.iterate(source)
	if err != nil {
		return err
	}
	loop := &loopState{
		in:     in,
		stmt:   s,
		outer:  sc,
		source: source,
		pull:   pull,
		length: -1,
		index0: -1,
		depth0: depth0,
	}
	if s.filter != nil {
		loop.source = nil
		loop.pull = s.filtered(in, sc, pull)
	}
	body := &scope{parent: sc}
	// A turn that breaks or continues does not count as completed, and the
	// else branch runs if none was.
	completed := false
	for {
		item, ok, err := loop.advance()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		body.clear()
		if err := s.bind(in, body, loop, item); err != nil {
			return err
		}
		f, err := in.execAll(s.body, body)
		if err != nil {
			return err
		}
		completed = completed || f == flowNext
		if f == flowBreak {
			break
		}
	}
	if completed || s.otherwise == nil {
		return nil
	}
	_, err = in.execAll(s.otherwise, &scope{parent: sc})
	return err
}

func (s *forStmt) bind(in *interp, body *scope, loop *loopState, item Value) error {
	if err := in.work(1); err != nil {
		return err
	}
	if s.usesLoop || s.recursive {
		body.set(in, s.loopID, loop)
	}
	return in.assign(&s.target, item, body)
}

// filtered yields the items that pass the loop's own condition, which sees
// the loop's target but not its loop variable.
func (s *forStmt) filtered(in *interp, sc *scope, pull func() (Value, bool, error)) func() (Value, bool, error) {
	test := &scope{parent: sc}
	return func() (Value, bool, error) {
		for {
			item, ok, err := pull()
			if err != nil || !ok {
				return nil, false, err
			}
			test.clear()
			if err := in.assign(&s.target, item, test); err != nil {
				return nil, false, err
			}
			v, err := in.eval(s.filter, test)
			if err != nil {
				return nil, false, err
			}
			if truth(v) {
				return item, true, nil
			}
		}
	}
}

// advance moves to the next item.
func (l *loopState) advance() (Value, bool, error) {
	var item Value
	if len(l.ahead) > 0 {
		item = l.ahead[0]
		l.ahead = l.ahead[1:]
	} else {
		var ok bool
		var err error
		if item, ok, err = l.pull(); err != nil || !ok {
			return nil, false, err
		}
	}
	l.index0++
	l.previous, l.current = l.current, item
	return item, true, nil
}

// peek returns the item after the current one without moving.
func (l *loopState) peek() (Value, bool, error) {
	if len(l.ahead) > 0 {
		return l.ahead[0], true, nil
	}
	item, ok, err := l.pull()
	if err != nil || !ok {
		return nil, false, err
	}
	l.ahead = append(l.ahead, item)
	return item, true, nil
}

// len counts the items, reading ahead if the source does not know.
func (l *loopState) len() (int, error) {
	if l.length >= 0 {
		return l.length, nil
	}
	if n, ok := lenOf(l.source); ok && l.source != nil {
		l.length = n
		return n, nil
	}
	for {
		item, ok, err := l.pull()
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		if err := l.in.allocItems(1); err != nil {
			return 0, err
		}
		l.ahead = append(l.ahead, item)
	}
	l.length = l.index0 + 1 + len(l.ahead)
	return l.length, nil
}

// attr returns an attribute of the loop variable.
func (l *loopState) attr(name string) (Value, bool, error) {
	switch name {
	case "index":
		return l.index0 + 1, true, nil
	case "index0":
		return l.index0, true, nil
	case "first":
		return l.index0 == 0, true, nil
	case "last":
		_, ok, err := l.peek()
		return !ok, true, err
	case "depth":
		return l.depth0 + 1, true, nil
	case "depth0":
		return l.depth0, true, nil
	case "length":
		n, err := l.len()
		return n, true, err
	case "revindex":
		n, err := l.len()
		return n - l.index0, true, err
	case "revindex0":
		n, err := l.len()
		return n - l.index0 - 1, true, err
	case "previtem":
		if l.index0 == 0 {
			return undefinedHint("there is no previous item"), true, nil
		}
		return l.previous, true, nil
	case "nextitem":
		item, ok, err := l.peek()
		if !ok {
			return undefinedHint("there is no next item"), true, err
		}
		return item, true, err
	case "cycle":
		return &function{name: name, call: l.callCycle}, true, nil
	case "changed":
		return &function{name: name, call: l.callChanged}, true, nil
	}
	return nil, false, nil
}

func (l *loopState) callCycle(_ *interp, args callArgs) (Value, error) {
	if len(args.pos) == 0 {
		return nil, typeErrorf("no items for cycling given")
	}
	return args.pos[l.index0%len(args.pos)], nil
}

func (l *loopState) callChanged(in *interp, args callArgs) (Value, error) {
	now := &Tuple{Items: args.pos}
	if l.changed != nil {
		same, err := in.equal(l.changed, now)
		if err != nil || same {
			return false, err
		}
	}
	l.changed = now
	return true, nil
}

// call renders the loop body over other items, for recursive loops.
func (l *loopState) call(in *interp, args callArgs) (Value, error) {
	if !l.stmt.recursive {
		return nil, typeErrorf("the loop must have the 'recursive' marker to be called recursively")
	}
	if len(args.pos) != 1 || len(args.names) > 0 {
		return nil, typeErrorf("loop() takes exactly one argument (%d given)", len(args.pos)+len(args.names))
	}
	return in.capture(func() error { return l.stmt.run(in, l.outer, args.pos[0], l.depth0+1) })
}
