package jinja

import "time"

// A state is that of one render: what it has used of its limits, its variables
// and what it has written.
type state struct {
	budget
	options Options
	now     time.Time
	// line is where the statement that runs now stands in the template.
	line int
	// root holds the top-level variables by name number; absent marks those
	// that are not set.
	root  []Value
	scope *scope
	out   *textBuffer
}

// Options are what a template is parsed with.
type Options struct {
	// SortJSONKeys makes tojson sort keys unless the template says otherwise.
	// Transformers keeps the order of the data, which is the zero value.
	SortJSONKeys bool
	// Lenient takes what templates for other engines use although jinja2's
	// sandbox refuses it: append and pop of lists, and tojson of a generator.
	Lenient bool
}

// absent marks a variable that is not set and a parameter without argument.
type absent struct{}

// A scope holds the variables of a loop body, a macro call or a block. Names
// not found here are looked up in the parent, and at last in state.root.
type scope struct {
	parent *scope
	ids    []int
	values []Value
}

// set gives the variable id a value in the innermost scope.
func (r *state) set(id int, v Value) {
	sc := r.scope
	if sc == nil {
		r.root[id] = v
		return
	}
	for i, have := range sc.ids {
		if have == id {
			sc.values[i] = v
			return
		}
	}
	sc.ids = append(sc.ids, id)
	sc.values = append(sc.values, v)
}

func (r *state) get(id int) (Value, bool) {
	for sc := r.scope; sc != nil; sc = sc.parent {
		for i, have := range sc.ids {
			if have == id {
				return sc.values[i], true
			}
		}
	}
	v := r.root[id]
	return v, !is[absent](v)
}

// clear forgets the variables, for the next turn of a loop.
func (sc *scope) clear() {
	sc.ids = sc.ids[:0]
	sc.values = sc.values[:0]
}

// inScope calls do with a scope of its own inside parent.
func (r *state) inScope(parent *scope, do func()) {
	outer := r.scope
	r.scope = &scope{parent: parent}
	do()
	r.scope = outer
}

func (r *state) write(t Text) {
	if len(t.text) > r.limits.OutputBytes-len(r.out.text) {
		failLimit("the output is longer than %d bytes; raise Limits.OutputBytes if the template is trusted",
			r.limits.OutputBytes)
	}
	r.alloc(len(t.text))
	if r.out.add(t) {
		r.alloc(spanBytes * (len(t.own) + 1))
	}
}

// capture calls do and returns what it wrote.
func (r *state) capture(do func()) Value {
	outer, line := r.out, r.line
	buffer := &textBuffer{}
	r.out = buffer
	do()
	r.out, r.line = outer, line
	r.allocString(len(buffer.text))
	return buffer.value()
}

// A function is anything callable: globals, bound methods and macros.
type function struct {
	kind, name string
	call       func(r *state, args callArgs) Value
}

func (f *function) typeName() string { return f.kind }

func (f *function) attr(string) (Value, bool) { return nil, false }

// call calls a value.
func (r *state) call(fn Value, args callArgs) Value {
	mustDefine(fn)
	f, ok := fn.(*function)
	if !ok {
		failType("'%s' object is not callable", typeName(fn))
	}
	return f.call(r, args)
}
