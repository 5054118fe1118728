package jinja

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"strings"
)

func (in *interp) compare(op compareOp, a, b Value) (bool, error) {
	switch op {
	case opEq, opNe:
		same, err := in.equal(a, b)
		return same == (op == opEq), err
	case opIn, opNotIn:
		found, err := in.contains(b, a)
		return found == (op == opIn), err
	}
	order, ok, err := in.order(op, a, b)
	if err != nil || !ok {
		return false, err
	}
	switch op {
	case opLt:
		return order < 0, nil
	case opLe:
		return order <= 0, nil
	case opGt:
		return order > 0, nil
	}
	return order >= 0, nil
}

// equal is Python's ==.
func (in *interp) equal(a, b Value) (bool, error) { return in.equalAt(a, b, 0) }

func (in *interp) equalAt(a, b Value, depth int) (bool, error) {
	if depth > valueDepthMax {
		return false, limitErrorf("values nest more than %d levels", valueDepthMax)
	}
	if err := in.work(1); err != nil {
		return false, err
	}
	switch x := a.(type) {
	case nil:
		return b == nil, nil
	case string:
		y, ok := asStr(b)
		return ok && x == y, nil
	case *Text:
		y, ok := asStr(b)
		return ok && x.text == y, nil
	case *Undefined:
		_, ok := b.(*Undefined)
		return ok, nil
	case *List:
		y, ok := b.(*List)
		if !ok {
			return false, nil
		}
		return in.equalItems(x.Items, y.Items, depth)
	case *Tuple:
		y, ok := b.(*Tuple)
		if !ok {
			return false, nil
		}
		return in.equalItems(x.Items, y.Items, depth)
	case *Map:
		y, ok := b.(*Map)
		if !ok {
			return false, nil
		}
		return in.equalMaps(x, y, depth)
	case rangeValue:
		y, ok := b.(rangeValue)
		return ok && (x == y || x.len() == 0 && y.len() == 0), nil
	}
	if isNumber(a) {
		if !isNumber(b) {
			return false, nil
		}
		order, ok := compareNumbers(a, b)
		return ok && order == 0, nil
	}
	return a == b, nil
}

func (in *interp) equalItems(x, y []Value, depth int) (bool, error) {
	if len(x) != len(y) {
		return false, nil
	}
	for i := range x {
		if same, err := in.equalAt(x[i], y[i], depth+1); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func (in *interp) equalMaps(x, y *Map, depth int) (bool, error) {
	if x.Len() != y.Len() {
		return false, nil
	}
	for i, key := range x.keys {
		v, ok, err := y.getValue(key)
		if err != nil || !ok {
			return false, err
		}
		if same, err := in.equalAt(x.vals[i], v, depth+1); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// compareNumbers orders two numbers exactly; ok is false for NaN.
func compareNumbers(a, b Value) (order int, ok bool) {
	x, xIsInt := a.(int)
	y, yIsInt := b.(int)
	if xIsInt && yIsInt {
		return cmp.Compare(x, y), true
	}
	f, g := exactFloat(a), exactFloat(b)
	if f == nil || g == nil {
		return 0, false
	}
	return f.Cmp(g), true
}

// exactFloat returns the number without rounding, or nil for NaN.
func exactFloat(v Value) *big.Float {
	if f, ok := v.(float64); ok {
		if math.IsNaN(f) {
			return nil
		}
		return big.NewFloat(f)
	}
	n, _ := asBig(v)
	return new(big.Float).SetPrec(uint(max(n.BitLen(), 64))).SetInt(n)
}

// order compares for <, <=, > and >=; ok is false where the operands have no
// order (NaN).
func (in *interp) order(op compareOp, a, b Value) (order int, ok bool, err error) {
	if err := in.work(1); err != nil {
		return 0, false, err
	}
	for _, v := range []Value{a, b} {
		if u, isUndefined := v.(*Undefined); isUndefined {
			return 0, false, u.err()
		}
	}
	if isNumber(a) && isNumber(b) {
		order, ok = compareNumbers(a, b)
		return order, ok, nil
	}
	x, xIsStr := asStr(a)
	y, yIsStr := asStr(b)
	if xIsStr && yIsStr {
		return strings.Compare(x, y), true, nil
	}
	xs, ys, ok := bothItems(a, b)
	if !ok {
		name := map[compareOp]string{opLt: "<", opLe: "<=", opGt: ">", opGe: ">="}[op]
		return 0, false, typeErrorf("'%s' not supported between instances of '%s' and '%s'", name, typeName(a),
			typeName(b))
	}
	return in.orderItems(op, xs, ys)
}

// bothItems returns the items of two lists or two tuples.
func bothItems(a, b Value) (x, y []Value, ok bool) {
	switch a := a.(type) {
	case *List:
		if b, ok := b.(*List); ok {
			return a.Items, b.Items, true
		}
	case *Tuple:
		if b, ok := b.(*Tuple); ok {
			return a.Items, b.Items, true
		}
	}
	return nil, nil, false
}

func (in *interp) orderItems(op compareOp, x, y []Value) (int, bool, error) {
	in.depth++
	defer func() { in.depth-- }()
	if in.depth > in.limits.Depth {
		return 0, false, limitErrorf("values nest more than %d levels", in.limits.Depth)
	}
	for i := range min(len(x), len(y)) {
		same, err := in.equal(x[i], y[i])
		if err != nil {
			return 0, false, err
		}
		if !same {
			return in.order(op, x[i], y[i])
		}
	}
	return cmp.Compare(len(x), len(y)), true, nil
}

// sortBy sorts items by keys, stably, as Python's sorted does.
func (in *interp) sortBy(items, keys []Value, reverse bool) ([]Value, error) {
	var failure error
	places := make([]int, len(items))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(i, j int) int {
		if failure != nil {
			return 0
		}
		order, _, err := in.order(opLt, keys[i], keys[j])
		failure = err
		if reverse {
			return -order
		}
		return order
	})
	if failure != nil {
		return nil, failure
	}
	sorted := make([]Value, len(items))
	for i, place := range places {
		sorted[i] = items[place]
	}
	return sorted, nil
}

// contains is Python's "item in container".
func (in *interp) contains(container, item Value) (bool, error) {
	switch c := container.(type) {
	case string, *Text:
		text, _ := asStr(c)
		sub, ok := asStr(item)
		if !ok {
			return false, typeErrorf("'in <string>' requires string as left operand, not %s", typeName(item))
		}
		return strings.Contains(text, sub), in.work(len(text) / bytesPerStep)
	case *Map:
		_, ok, err := c.getValue(item)
		return ok, err
	case *dictView:
		if c.kind == "dict_keys" {
			_, ok, err := c.of.getValue(item)
			return ok, err
		}
	}
	next, err := in.iterate(container)
	if err != nil {
		return false, typeErrorf("argument of type '%s' is not iterable", typeName(container))
	}
	for {
		v, ok, err := next()
		if err != nil || !ok {
			return false, err
		}
		if same, err := in.equal(v, item); err != nil || same {
			return same, err
		}
	}
}
