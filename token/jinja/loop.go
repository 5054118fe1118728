package jinja

// A forLoop is a for statement.
type forLoop struct {
	line            int
	assign          target
	items, keep     expr
	body, otherwise []stmt
	loopID          int
}

func (f *forLoop) run(r *state) flow {
	r.line = f.line
	outer := r.scope
	l := f.start(r, r.items(f.items(r)))
	inner := &scope{parent: outer}
	// A turn that breaks or continues does not count as completed, and the
	// else branch runs if none was.
	completed := false
	for {
		l.index0++
		item, ok := l.at(l.index0)
		if !ok {
			break
		}
		inner.clear()
		r.scope = inner
		r.work(1)
		r.set(f.loopID, l)
		f.assign(r, item)
		end := r.run(f.body)
		r.scope, r.line = outer, f.line
		completed = completed || end == flowNext
		if end == flowBreak {
			break
		}
	}
	if completed || f.otherwise == nil {
		return flowNext
	}
	end := flowNext
	r.inScope(outer, func() { end = r.run(f.otherwise) })
	return end
}

// start makes the variable loop. The loop's own condition sees its target but not
// its variable, and is asked for an item only when that item is needed.
func (f *forLoop) start(r *state, items []Value) *loop {
	l := &loop{index0: -1}
	if f.keep == nil {
		l.items = items
		return l
	}
	outer := r.scope
	l.rest = items
	l.keep = func(item Value) (ok bool) {
		inner := r.scope
		r.inScope(outer, func() {
			r.work(1)
			f.assign(r, item)
			ok = truth(f.keep(r))
		})
		r.scope = inner
		return ok
	}
	return l
}

// A loop is the variable loop of a running for statement.
type loop struct {
	// items are those of the loop that are known, rest those that keep was not
	// asked about.
	items, rest []Value
	keep        func(item Value) bool
	index0      int
}

// at returns the item at a place.
func (l *loop) at(i int) (Value, bool) {
	for i >= len(l.items) && len(l.rest) > 0 {
		item := l.rest[0]
		l.rest = l.rest[1:]
		if l.keep(item) {
			l.items = append(l.items, item)
		}
	}
	if i >= len(l.items) {
		return nil, false
	}
	return l.items[i], true
}

func (l *loop) len() int {
	l.at(len(l.items) + len(l.rest))
	return len(l.items)
}

func (*loop) typeName() string { return "LoopContext" }

// attr returns an attribute of the loop variable.
func (l *loop) attr(name string) (Value, bool) {
	switch name {
	case "depth": // no loop is recursive
		return 1, true
	case "depth0":
		return 0, true
	case "index":
		return l.index0 + 1, true
	case "index0":
		return l.index0, true
	case "first":
		return l.index0 == 0, true
	case "last":
		_, ok := l.at(l.index0 + 1)
		return !ok, true
	case "length":
		return l.len(), true
	case "revindex":
		return l.len() - l.index0, true
	case "revindex0":
		return l.len() - l.index0 - 1, true
	case "previtem":
		if l.index0 == 0 {
			return undefinedHint("there is no previous item"), true
		}
		return l.items[l.index0-1], true
	case "nextitem":
		if item, ok := l.at(l.index0 + 1); ok {
			return item, true
		}
		return undefinedHint("there is no next item"), true
	case "cycle":
		return &function{kind: "method", name: name, call: l.cycle}, true
	}
	return nil, false
}

func (l *loop) cycle(_ *state, args callArgs) Value {
	if len(args.pos) == 0 {
		failType("no items for cycling given")
	}
	return args.pos[l.index0%len(args.pos)]
}

// A macro is a function that a template defines.
type macro struct {
	name string
	// ids and params are the variables and the names of the parameters, of which
	// the last have defaults.
	ids      []int
	params   []string
	defaults []expr
	body     []stmt
	// levels is how deep a call nests.
	levels int
}

// call runs the macro in a scope inside defined, where it was defined, and
// returns what it wrote.
func (m *macro) call(r *state, defined *scope, args callArgs) (text Value) {
	r.enter(m.levels)
	r.inScope(defined, func() {
		m.bind(r, args)
		text = r.capture(func() { r.run(m.body) })
	})
	r.leave(m.levels)
	return text
}

// bind gives the parameters their arguments or defaults.
func (m *macro) bind(r *state, args callArgs) {
	if len(args.pos) > len(m.params) {
		failType("macro '%s' takes not more than %d argument(s)", m.name, len(m.params))
	}
	for i, id := range m.ids {
		if i < len(args.pos) {
			r.set(id, args.pos[i])
			continue
		}
		v, ok := args.take(m.params[i])
		if d := i - (len(m.params) - len(m.defaults)); !ok && d >= 0 {
			v = m.defaults[d](r)
		} else if !ok {
			v = undefinedHint("parameter '" + m.params[i] + "' was not provided")
		}
		r.set(id, v)
	}
	if len(args.names) > 0 {
		failType("macro '%s' takes no keyword argument '%s'", m.name, args.names[0])
	}
}
