package jinja

import (
	"strings"
	"unicode/utf8"
)

// items returns all items of v. The slice must not be changed.
func (r *state) items(v Value) []Value {
	switch v := v.(type) {
	case *List:
		return v.Items
	case *Map:
		return v.keys
	case *generator:
		return v.take()
	case *undefined:
		return nil
	}
	t, ok := textOf(v)
	if !ok {
		failType("'%s' object is not iterable", typeName(v))
	}
	n := utf8.RuneCountInString(t.text)
	r.allocItems(n)
	chars := make([]Value, 0, n)
	for at, size := 0, 0; at < len(t.text); at += size {
		_, size = utf8.DecodeRuneInString(t.text[at:])
		chars = append(chars, t.Cut(at, at+size).value())
	}
	return chars
}

// unpack returns exactly n items of v.
func (r *state) unpack(v Value, n int) []Value {
	if !isIterable(v) {
		failType("cannot unpack non-iterable %s object", typeName(v))
	}
	items := r.items(v)
	if len(items) > n {
		failValue("too many values to unpack (expected %d)", n)
	}
	if len(items) < n {
		failValue("not enough values to unpack (expected %d, got %d)", n, len(items))
	}
	return items
}

// pairs returns the keys and values of m as tuples.
func (r *state) pairs(m *Map) []Value {
	r.allocItems(3 * m.Len())
	items := make([]Value, m.Len())
	for i, key := range m.keys {
		items[i] = tupleOf(key, m.vals[i])
	}
	return items
}

// element looks key up in a container; a key of the wrong type is not found.
func (r *state) element(owner, key Value) (Value, bool) {
	if m, ok := owner.(*Map); ok && !is[*List](key) && !is[*Map](key) {
		return m.getValue(key)
	}
	i, ok := asInt(key)
	if !ok {
		return nil, false
	}
	if l, ok := owner.(*List); ok && !l.isView() {
		if i < 0 {
			i += len(l.Items)
		}
		if i < 0 || i >= len(l.Items) {
			return nil, false
		}
		return l.Items[i], true
	}
	t, ok := textOf(owner)
	n := utf8.RuneCountInString(t.text)
	if i < 0 {
		i += n
	}
	if !ok || i < 0 || i >= n {
		return nil, false
	}
	return r.sliceText(t, n, sliceRange{i, i + 1, 1}).value(), true
}

// A sliceRange is the places that a slice visits.
type sliceRange struct{ start, stop, step int }

func (s sliceRange) len() int {
	switch {
	case s.step > 0 && s.start < s.stop:
		return (s.stop-s.start-1)/s.step + 1
	case s.step < 0 && s.start > s.stop:
		return (s.start-s.stop-1)/-s.step + 1
	}
	return 0
}

// slice is of[start:stop:step], with nil for bounds that are not given.
func (r *state) slice(of, start, stop, step Value) Value {
	mustDefine(of)
	l, isList := of.(*List)
	t, isText := textOf(of)
	if !isText && (!isList || l.isView()) {
		failType("'%s' object is not subscriptable with a slice", typeName(of))
	}
	n, _ := lenOf(of)
	at := rangeOf(n, start, stop, step)
	if isText {
		return r.sliceText(t, n, at).value()
	}
	r.allocItems(at.len())
	out := &List{Items: make([]Value, at.len()), kind: l.kind}
	for i := range out.Items {
		out.Items[i] = l.Items[at.start+i*at.step]
	}
	return out
}

// rangeOf turns the bounds of a slice into the places it visits among n.
func rangeOf(n int, start, stop, step Value) sliceRange {
	s := sliceRange{0, n, 1}
	if step != nil {
		s.step = sliceIndex(step)
		if s.step == 0 {
			failValue("slice step cannot be zero")
		}
		// A step beyond the length visits one place; more would overflow.
		s.step = max(min(s.step, n+1), -n-1)
	}
	low, high := 0, n
	if s.step < 0 {
		s.start, s.stop = n-1, -1
		low, high = -1, n-1
	}
	bound := func(v Value, d int) int {
		if v == nil {
			return d
		}
		i := sliceIndex(v)
		if i < 0 {
			i = max(i, -n-1) + n
		}
		return max(low, min(i, high))
	}
	s.start, s.stop = bound(start, s.start), bound(stop, s.stop)
	return s
}

func sliceIndex(v Value) int {
	mustDefine(v)
	i, ok := asInt(v)
	if !ok {
		failType("slice indices must be integers or None, not %s", typeName(v))
	}
	return i
}

// sliceText returns the characters of t, which has n, at some places.
func (r *state) sliceText(t Text, n int, at sliceRange) Text {
	s := t.text
	r.scan(len(s))
	switch {
	case at.len() == 0:
		return Text{}
	case at.step == 1 && n == len(s):
		return t.Cut(at.start, at.stop)
	case at.step == 1:
		return t.Cut(runeRange(s, at.start, at.stop))
	}
	r.allocString(5 * len(s))
	runes := []rune(s)
	out := make([]rune, at.len())
	for i := range out {
		out[i] = runes[at.start+i*at.step]
	}
	return Text{text: string(out), whole: t.whole}
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

// add joins strings, lists and tuples.
func (r *state) add(a, b Value) Value {
	x, xIsStr := textOf(a)
	y, yIsStr := textOf(b)
	switch {
	case xIsStr && yIsStr:
		return r.join([]Text{x, y}, Text{})
	case xIsStr:
		failType("can only concatenate str (not \"%s\") to str", typeName(b))
	}
	l, isList := a.(*List)
	m, ok := b.(*List)
	if !isList || l.isView() {
		failType("unsupported operand type(s) for +: '%s' and '%s'", typeName(a), typeName(b))
	}
	if !ok || l.kind != m.kind {
		failType("can only concatenate %s (not \"%s\") to %s", typeName(a), typeName(b), typeName(a))
	}
	r.allocItems(len(l.Items) + len(m.Items))
	items := make([]Value, 0, len(l.Items)+len(m.Items))
	return &List{Items: append(append(items, l.Items...), m.Items...), kind: l.kind}
}

// repeat is multiplication of a sequence by an integer, in either order.
func (r *state) repeat(a, b Value) Value {
	if isNumber(a) {
		a, b = b, a
	}
	n, ok := asInt(b)
	t, isText := textOf(a)
	l, isList := a.(*List)
	if !ok || !isText && (!isList || l.isView()) {
		failType("unsupported operand type(s) for *: '%s' and '%s'", typeName(a), typeName(b))
	}
	n = max(n, 0)
	if isText {
		return r.repeatText(t, n)
	}
	out := &List{kind: l.kind}
	if len(l.Items) == 0 {
		return out
	}
	if n > r.limits.MemoryBytes/len(l.Items) {
		failLimit("a list of %d times %d items is too long", n, len(l.Items))
	}
	r.allocItems(n * len(l.Items))
	for range n {
		out.Items = append(out.Items, l.Items...)
	}
	return out
}

func (r *state) repeatText(t Text, n int) Value {
	r.timesString(len(t.text)+spanBytes*len(t.own), n)
	if t.text == "" || t.whole || t.isData() {
		return Text{text: strings.Repeat(t.text, min(n, n*len(t.text))), whole: t.whole}.value()
	}
	var b textBuffer
	for range n {
		b.add(t)
	}
	return b.value()
}

// join joins texts with sep between them and keeps their provenance.
func (r *state) join(texts []Text, sep Text) Value {
	r.timesString(len(sep.text)+spanBytes*len(sep.own), len(texts))
	n, spans := len(sep.text)*max(len(texts)-1, 0), 0
	for _, t := range texts {
		if n += len(t.text); n > r.limits.OutputBytes {
			break
		}
		if spans += len(t.own); t.whole || sep.whole {
			spans++
		}
	}
	r.allocString(n)
	r.alloc(spanBytes * spans)
	var text strings.Builder
	text.Grow(n)
	own := make(authorSpans, 0, spans)
	for i, t := range texts {
		if i > 0 {
			own.add(sep, text.Len())
			text.WriteString(sep.text)
		}
		own.add(t, text.Len())
		text.WriteString(t.text)
	}
	return own.of(text.String()).value()
}
