package jinja

import (
	"cmp"
	"slices"
	"strings"
)

// comparisons are the operators between two values, by their name.
var comparisons = map[string]func(r *state, a, b Value) bool{
	"==":     (*state).equal,
	"!=":     func(r *state, a, b Value) bool { return !r.equal(a, b) },
	"<":      ordered("<", func(order int) bool { return order < 0 }),
	"<=":     ordered("<=", func(order int) bool { return order <= 0 }),
	">":      ordered(">", func(order int) bool { return order > 0 }),
	">=":     ordered(">=", func(order int) bool { return order >= 0 }),
	"in":     func(r *state, a, b Value) bool { return r.contains(b, a) },
	"not in": func(r *state, a, b Value) bool { return !r.contains(b, a) },
}

func ordered(op string, holds func(order int) bool) func(r *state, a, b Value) bool {
	return func(r *state, a, b Value) bool {
		order, ok := r.order(op, a, b, 0)
		return ok && holds(order)
	}
}

// arith applies a binary operator as Python does.
func (r *state) arith(op string, a, b Value) Value {
	r.work(1)
	mustDefine(a)
	if isNumber(a) && isNumber(b) {
		return numberArith(op, a, b)
	}
	mustDefine(b)
	switch op {
	case "+":
		return r.add(a, b)
	case "*":
		return r.repeat(a, b)
	}
	if op == "%" && isString(a) {
		failType("strings have no operator %% here; use ~ or the method format")
	}
	failType("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(a), typeName(b))
	return nil
}

// equal is Python's ==.
func (r *state) equal(a, b Value) bool { return r.equalAt(a, b, 0) }

func (r *state) equalAt(a, b Value, depth int) bool {
	if depth > valueDepthMax {
		failLimit("values nest more than %d levels", valueDepthMax)
	}
	r.work(1)
	switch x := a.(type) {
	case nil:
		return b == nil
	case string:
		y, ok := asStr(b)
		return ok && x == y
	case *Text:
		y, ok := asStr(b)
		return ok && x.text == y
	case *undefined:
		return is[*undefined](b)
	case *List:
		y, ok := b.(*List)
		return ok && x.kind == y.kind && slices.EqualFunc(x.Items, y.Items,
			func(a, b Value) bool { return r.equalAt(a, b, depth+1) })
	case *Map:
		y, ok := b.(*Map)
		return ok && x.Len() == y.Len() && r.isPartOf(x, y, depth)
	}
	if isNumber(a) && isNumber(b) {
		order, ok := compareNumbers(a, b)
		return ok && order == 0
	}
	return a == b
}

// isPartOf says that y has the keys of x with equal values.
func (r *state) isPartOf(x, y *Map, depth int) bool {
	for i, key := range x.keys {
		if v, ok := y.getValue(key); !ok || !r.equalAt(x.vals[i], v, depth+1) {
			return false
		}
	}
	return true
}

// order compares for <, <=, > and >=; ok is false where the operands have no
// order (NaN).
func (r *state) order(op string, a, b Value, depth int) (order int, ok bool) {
	if depth > valueDepthMax {
		failLimit("values nest more than %d levels", valueDepthMax)
	}
	r.work(1)
	mustDefine(a, b)
	if isNumber(a) && isNumber(b) {
		return compareNumbers(a, b)
	}
	x, xIsStr := asStr(a)
	y, yIsStr := asStr(b)
	if xIsStr && yIsStr {
		return strings.Compare(x, y), true
	}
	l, isList := a.(*List)
	m, ok := b.(*List)
	if !isList || !ok || l.kind != m.kind {
		failType("'%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b))
	}
	for i := range min(len(l.Items), len(m.Items)) {
		if !r.equal(l.Items[i], m.Items[i]) {
			return r.order(op, l.Items[i], m.Items[i], depth+1)
		}
	}
	return cmp.Compare(len(l.Items), len(m.Items)), true
}

// sortBy returns items in the order of their keys, stably, as Python's sorted does.
func (r *state) sortBy(items, keys []Value, reverse bool) []Value {
	r.allocItems(2 * len(items))
	places := make([]int, len(items))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(i, j int) int {
		order, _ := r.order("<", keys[i], keys[j], 0)
		if reverse {
			return -order
		}
		return order
	})
	sorted := make([]Value, len(items))
	for i, place := range places {
		sorted[i] = items[place]
	}
	return sorted
}

// contains is Python's "item in container".
func (r *state) contains(container, item Value) bool {
	if m, ok := container.(*Map); ok {
		_, ok := m.getValue(item)
		return ok
	}
	if text, ok := asStr(container); ok {
		sub, ok := asStr(item)
		if !ok {
			failType("'in <string>' requires string as left operand, not %s", typeName(item))
		}
		r.scan(len(text))
		return strings.Contains(text, sub)
	}
	if !isIterable(container) {
		failType("argument of type '%s' is not iterable", typeName(container))
	}
	return slices.ContainsFunc(r.items(container), func(v Value) bool { return r.equal(v, item) })
}
