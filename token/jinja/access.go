package jinja

import (
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"
)

// attr is owner.name: Python's attribute first, then the item.
func (in *interp) attr(owner Value, name string) (Value, error) {
	if u, ok := owner.(*Undefined); ok {
		return nil, u.err()
	}
	if v, ok, err := in.attribute(owner, name); ok || err != nil {
		return v, err
	}
	if m, ok := owner.(*Map); ok {
		if v, ok := m.Get(name); ok {
			return v, nil
		}
	}
	return undefinedAttr(owner, name), nil
}

// item is owner[key]: the item first, then Python's attribute.
func (in *interp) item(owner, key Value) (Value, error) {
	if u, ok := owner.(*Undefined); ok {
		return nil, u.err()
	}
	if v, ok := in.element(owner, key); ok {
		return v, nil
	}
	if name, ok := asStr(key); ok {
		if v, ok, err := in.attribute(owner, name); ok || err != nil {
			return v, err
		}
	}
	return undefinedAttr(owner, key), nil
}

// element looks key up in a container; a key of the wrong type is not found.
func (in *interp) element(owner, key Value) (Value, bool) {
	if m, ok := owner.(*Map); ok {
		v, ok, err := m.getValue(key)
		return v, ok && err == nil
	}
	i, ok := asInt(key)
	if !ok {
		return nil, false
	}
	switch o := owner.(type) {
	case *List:
		return elementAt(o.Items, i)
	case *Tuple:
		return elementAt(o.Items, i)
	case string:
		start, end, ok := in.charAt(o, i)
		return o[start:end], ok
	case *Text:
		start, end, ok := in.charAt(o.text, i)
		return o.Cut(start, end).value(), ok
	case rangeValue:
		n := o.len()
		if i < 0 {
			i += n
		}
		return o.start + i*o.step, i >= 0 && i < n
	}
	return nil, false
}

func elementAt(items []Value, i int) (Value, bool) {
	if i < 0 {
		i += len(items)
	}
	if i < 0 || i >= len(items) {
		return nil, false
	}
	return items[i], true
}

// charAt returns where the i-th character is. Finding it is paid for, because
// a string may be long and the template in a loop.
func (in *interp) charAt(s string, i int) (start, end int, ok bool) {
	if isASCII(s) {
		if i < 0 {
			i += len(s)
		}
		if i < 0 || i >= len(s) {
			return 0, 0, false
		}
		return i, i + 1, true
	}
	in.steps += len(s) / bytesPerStep
	if i < 0 {
		i += utf8.RuneCountInString(s)
	}
	for at := range s {
		if i == 0 {
			_, size := utf8.DecodeRuneInString(s[at:])
			return at, at + size, true
		}
		i--
	}
	return 0, 0, false
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func isDunder(name string) bool {
	return len(name) > 4 && strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__")
}

var (
	listMutators = []string{"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"}
	mapMutators  = []string{"clear", "pop", "popitem", "setdefault", "update"}
)

// attribute returns what Python's getattr finds: methods and fields, not
// items. What would change the value is there but cannot be used.
func (in *interp) attribute(owner Value, name string) (Value, bool, error) {
	if ns, ok := owner.(*namespace); ok {
		v, ok := ns.attrs.Get(name)
		return v, ok, nil
	}
	if isDunder(name) {
		return unsafeAttr(owner, name), true, nil
	}
	switch o := owner.(type) {
	case string, *Text:
		return bind(owner, name, strMethods[name])
	case *Map:
		if slices.Contains(mapMutators, name) {
			return unsafeAttr(owner, name), true, nil
		}
		return bind(owner, name, mapMethods[name])
	case *List:
		if change, ok := listChanges[name]; ok && in.template.options.Lenient {
			return bind(owner, name, change)
		}
		if slices.Contains(listMutators, name) {
			return unsafeAttr(owner, name), true, nil
		}
		return bind(owner, name, listMethods[name])
	case *Tuple:
		if i := slices.Index(o.fields, name); i >= 0 {
			return o.Items[i], true, nil
		}
		if name == "copy" {
			return nil, false, nil
		}
		return bind(owner, name, listMethods[name])
	case *loopState:
		return o.attr(name)
	case *macro:
		v, ok := o.attr(name)
		return v, ok, nil
	}
	v, ok := plainAttribute(owner, name)
	return v, ok, nil
}

// plainAttribute has the attributes of numbers, ranges and joiners.
func plainAttribute(owner Value, name string) (Value, bool) {
	switch o := owner.(type) {
	case int, bool, *big.Int:
		return intAttribute(owner, name)
	case float64:
		switch name {
		case "real":
			return o, true
		case "imag":
			return 0.0, true
		case "is_integer":
			v, ok, _ := bind(owner, name, floatIsInteger)
			return v, ok
		}
	case rangeValue:
		switch name {
		case "start":
			return o.start, true
		case "stop":
			return o.stop, true
		case "step":
			return o.step, true
		case "index", "count":
			v, ok, _ := bind(owner, name, listMethods[name])
			return v, ok
		}
	case *joiner:
		switch name {
		case "sep":
			return o.sep, true
		case "used":
			return o.used, true
		}
	}
	return nil, false
}

func intAttribute(owner Value, name string) (Value, bool) {
	n, _ := asBig(owner)
	switch name {
	case "real", "numerator":
		return shrink(n), true
	case "imag":
		return 0, true
	case "denominator":
		return 1, true
	case "bit_length":
		v, ok, _ := bind(owner, name, intBitLength)
		return v, ok
	}
	return nil, false
}

// slice is of[start:stop:step].
func (in *interp) slice(of, start, stop, step Value) (Value, error) {
	if u, ok := of.(*Undefined); ok {
		return nil, u.err()
	}
	n, ok := lenOf(of)
	if _, isMap := of.(*Map); !ok || isMap {
		return nil, typeErrorf("'%s' object is not subscriptable with a slice", typeName(of))
	}
	if _, isView := of.(*dictView); isView {
		return nil, typeErrorf("'%s' object is not subscriptable", typeName(of))
	}
	r, err := sliceRange(n, start, stop, step)
	if err != nil {
		return nil, err
	}
	switch o := of.(type) {
	case *List:
		items, err := in.sliceItems(o.Items, r)
		return &List{Items: items}, err
	case *Tuple:
		items, err := in.sliceItems(o.Items, r)
		return &Tuple{Items: items}, err
	case rangeValue:
		return rangeValue{o.start + r.start*o.step, o.start + r.stop*o.step, o.step * r.step}, nil
	}
	t, _ := textOf(of)
	t, err = in.sliceText(t, r)
	return t.value(), err
}

// sliceRange turns the bounds of a slice into the places it visits.
func sliceRange(n int, start, stop, step Value) (rangeValue, error) {
	r := rangeValue{step: 1}
	if step != nil {
		var ok bool
		if r.step, ok = asInt(step); !ok {
			return r, typeErrorf("slice indices must be integers or None")
		}
		if r.step == 0 {
			return r, valueErrorf("slice step cannot be zero")
		}
		// A step beyond the length visits one place; more would overflow.
		r.step = max(min(r.step, n+1), -n-1)
	}
	first, last := 0, n
	if r.step < 0 {
		first, last = n-1, -1
	}
	var err error
	if r.start, err = sliceBound(start, first, n, r.step); err != nil {
		return r, err
	}
	r.stop, err = sliceBound(stop, last, n, r.step)
	return r, err
}

func sliceBound(v Value, absent, n, step int) (int, error) {
	if v == nil {
		return absent, nil
	}
	if b, ok := v.(*big.Int); ok {
		v = b.Sign() * (n + 1)
	}
	if u, ok := v.(*Undefined); ok {
		return 0, typeErrorf("slice indices must be integers or None: %v", u.err())
	}
	i, ok := asInt(v)
	if !ok {
		return 0, typeErrorf("slice indices must be integers or None, not %s", typeName(v))
	}
	low, high := 0, n
	if step < 0 {
		low, high = -1, n-1
	}
	if i < 0 {
		i = max(i, -n-1) + n
	}
	return max(low, min(i, high)), nil
}

func (in *interp) sliceItems(items []Value, r rangeValue) ([]Value, error) {
	n := r.len()
	if err := in.allocItems(n); err != nil {
		return nil, err
	}
	out := make([]Value, n)
	for i := range out {
		out[i] = items[r.start+i*r.step]
	}
	return out, nil
}

func (in *interp) sliceText(t Text, r rangeValue) (Text, error) {
	s := t.text
	if err := in.work(len(s) / bytesPerStep); err != nil {
		return Text{}, err
	}
	if r.len() == 0 {
		return Text{}, nil
	}
	if isASCII(s) && r.step == 1 {
		return t.Cut(r.start, r.stop), nil
	}
	if r.step == 1 {
		return t.Cut(runeRange(s, r.start, r.stop)), nil
	}
	if err := in.alloc(4 * len(s)); err != nil {
		return Text{}, err
	}
	runes := []rune(s)
	out := make([]rune, r.len())
	for i := range out {
		out[i] = runes[r.start+i*r.step]
	}
	return Text{text: string(out), whole: t.whole}, in.allocString(len(s))
}

// runeRange returns the bytes between two character places.
func runeRange(s string, start, stop int) (from, to int) {
	from, place := len(s), 0
	for at := range s {
		if place == start {
			from = at
		}
		if place == stop {
			return min(from, at), at
		}
		place++
	}
	return from, len(s)
}
