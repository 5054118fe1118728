package jinja

// globalTable has the functions every template can call.
var globalTable = map[string]*function{
	"range": global("range", callRange),
	"dict":  global("dict", func(r *state, args callArgs) Value { return r.dict(args) }),
	"namespace": global("namespace", func(r *state, args callArgs) Value {
		return &namespace{attrs: r.dict(args)}
	}),
	"raise_exception": global("raise_exception", callRaise),
	"strftime_now":    global("strftime_now", callStrftime),
}

func global(name string, call func(r *state, args callArgs) Value) *function {
	return &function{kind: "function", name: name, call: call}
}

func callRange(r *state, args callArgs) Value {
	p := args.bind("range", 1, "start/", "stop/", "step/")
	start, stop, step := p.integer(0, 0), p.integer(1, 0), p.integer(2, 1)
	if is[absent](p.values[1]) {
		start, stop = 0, start
	}
	if step == 0 {
		failValue("range() arg 3 must not be zero")
	}
	const far = 1 << 60 // below that no difference overflows
	n := sliceRange{start, stop, step}.len()
	if n > rangeLenMax || min(start, stop) < -far || max(start, stop) > far {
		failLimit("range too big: the sandbox blocks ranges larger than %d", rangeLenMax)
	}
	r.allocItems(n)
	list := &List{Items: make([]Value, n), kind: "range"}
	for i := range list.Items {
		list.Items[i] = start + i*step
	}
	return list
}

// dict is dict(pairs or mapping, name=value…).
func (r *state) dict(args callArgs) *Map {
	m := NewMap()
	p := callArgs{pos: args.pos}.bind("dict", 0, "mapping/")
	pairs := p.value(0, nil)
	if from, ok := pairs.(*Map); ok {
		pairs = NewList(r.pairs(from)...)
	}
	if pairs != nil {
		for _, pair := range r.items(pairs) {
			r.allocItems(4)
			items := r.unpack(pair, 2)
			m.setValue(items[0], items[1])
		}
	}
	r.allocItems(4 * len(args.names))
	for i, name := range args.names {
		m.Set(name, args.named[i])
	}
	return m
}

func callRaise(r *state, args callArgs) Value {
	fail(Raised, "%s", r.str(args.bind("raise_exception", 1, "message").values[0]))
	return nil
}

func callStrftime(r *state, args callArgs) Value {
	format := args.bind("strftime_now", 1, "format").str(0, "")
	if r.now.IsZero() {
		fail(RuntimeError, "the template asks for the date, but the render was given none; set Context.Now")
	}
	return r.strftime(format)
}
