package jinja

import "slices"

// callArgs are the evaluated arguments of a call.
type callArgs struct {
	pos   []Value
	names []string
	named []Value
}

// take removes and returns the argument called name.
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

// params are arguments by the place of their parameter.
type params struct {
	fn     string
	values []Value
}

// bind gives arguments to the parameters of the function fn by position and by
// name, of which the first required ones must be given. A name that ends in a
// slash takes its argument by position only.
func (a callArgs) bind(fn string, required int, names ...string) params {
	if len(a.pos) > len(names) {
		failType("%s() takes at most %d arguments (%d given)", fn, len(names), len(a.pos))
	}
	values := make([]Value, len(names))
	for i := range values {
		values[i] = absent{}
	}
	copy(values, a.pos)
	for i, name := range a.names {
		place := slices.Index(names, name)
		if place < 0 {
			failType("%s() got an unexpected keyword argument '%s'", fn, name)
		}
		if !is[absent](values[place]) {
			failType("%s() got multiple values for argument '%s'", fn, name)
		}
		values[place] = a.named[i]
	}
	for i := range required {
		if is[absent](values[i]) {
			failType("%s() missing required argument '%s'", fn, names[i])
		}
	}
	return params{fn, values}
}

// none checks that there are no arguments.
func (a callArgs) none(fn string) {
	if len(a.pos)+len(a.names) > 0 {
		a.bind(fn, 0)
	}
}

// has says that parameter i has an argument other than None.
func (p params) has(i int) bool { return p.values[i] != nil && !is[absent](p.values[i]) }

// value returns argument i, or d if there is none.
func (p params) value(i int, d Value) Value {
	if is[absent](p.values[i]) {
		return d
	}
	return p.values[i]
}

// integer returns argument i, or d if there is none or None.
func (p params) integer(i, d int) int {
	if !p.has(i) {
		return d
	}
	mustDefine(p.values[i])
	n, ok := asInt(p.values[i])
	if !ok {
		failType("%s(): '%s' object cannot be interpreted as an integer", p.fn, typeName(p.values[i]))
	}
	return n
}

// str returns argument i, or d if there is none.
func (p params) str(i int, d string) string {
	v := p.value(i, d)
	s, ok := asStr(v)
	if !ok {
		failType("%s() argument must be str, not %s", p.fn, typeName(v))
	}
	return s
}

// truth returns whether argument i is given and true.
func (p params) truth(i int) bool { return truth(p.value(i, false)) }
