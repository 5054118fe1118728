package jinja

import (
	"strings"
	"unicode/utf8"
)

// lenOf is Python's len(v); ok is false where there is none.
func lenOf(v Value) (n int, ok bool) {
	switch v := v.(type) {
	case string:
		return utf8.RuneCountInString(v), true
	case *Text:
		return utf8.RuneCountInString(v.text), true
	case *List:
		return len(v.Items), true
	case *Tuple:
		return len(v.Items), true
	case *Map:
		return v.Len(), true
	case *dictView:
		return v.of.Len(), true
	case rangeValue:
		return v.len(), true
	case *Undefined:
		return 0, true
	}
	return 0, false
}

// iterate returns a function that yields the items of v one by one.
func (in *interp) iterate(v Value) (func() (Value, bool, error), error) {
	switch v := v.(type) {
	case *List:
		return in.iterateItems(v.Items), nil
	case *Tuple:
		return in.iterateItems(v.Items), nil
	case *Map:
		return in.iterateItems(v.keys), nil
	case *dictView:
		return in.iterateIndex(v.of.Len(), v.at), nil
	case rangeValue:
		return in.iterateIndex(v.len(), func(i int) Value { return v.start + i*v.step }), nil
	case string, *Text:
		t, _ := textOf(v)
		return in.iterateText(t), nil
	case *generator:
		return v.next, nil
	case *Undefined:
		return in.iterateItems(nil), nil
	case *loopState:
		return v.iterate, nil
	}
	return nil, typeErrorf("'%s' object is not iterable", typeName(v))
}

func (in *interp) iterateItems(items []Value) func() (Value, bool, error) {
	i := 0
	return func() (Value, bool, error) {
		if i >= len(items) {
			return nil, false, nil
		}
		i++
		return items[i-1], true, in.work(1)
	}
}

func (in *interp) iterateIndex(n int, at func(int) Value) func() (Value, bool, error) {
	i := 0
	return func() (Value, bool, error) {
		if i >= n {
			return nil, false, nil
		}
		i++
		return at(i - 1), true, in.work(1)
	}
}

func (in *interp) iterateText(t Text) func() (Value, bool, error) {
	at := 0
	return func() (Value, bool, error) {
		if at == len(t.text) {
			return nil, false, nil
		}
		_, size := utf8.DecodeRuneInString(t.text[at:])
		char := t.Cut(at, at+size)
		at += size
		return char.value(), true, in.work(1)
	}
}

// iterate makes the loop variable itself iterable: it yields what the loop
// has not reached yet, paired with the loop.
func (l *loopState) iterate() (Value, bool, error) {
	item, ok, err := l.advance()
	return tupleOf(item, l), ok, err
}

// collect returns all items of v. The slice must not be changed.
func (in *interp) collect(v Value) ([]Value, error) {
	switch v := v.(type) {
	case *List:
		return v.Items, nil
	case *Tuple:
		return v.Items, nil
	}
	next, err := in.iterate(v)
	if err != nil {
		return nil, err
	}
	var items []Value
	for {
		item, ok, err := next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return items, nil
		}
		if err := in.allocItems(1); err != nil {
			return nil, err
		}
		items = append(items, item)
	}
}

// lazily returns a generator over the items of v, made by pick, which may
// skip an item. Nothing of v is read before the first item is asked for.
func (in *interp) lazily(v Value, pick func(item Value) (Value, bool, error)) *generator {
	var pull func() (Value, bool, error)
	return in.generate("generator", func() (Value, bool, error) {
		if pull == nil {
			var err error
			if pull, err = in.iterate(v); err != nil {
				return nil, false, err
			}
		}
		for {
			item, ok, err := pull()
			if err != nil || !ok {
				return nil, false, err
			}
			out, keep, err := pick(item)
			if err != nil || keep {
				return out, keep, err
			}
		}
	})
}

// generate makes a generator. Generators may be stacked without end, so each
// one counts as a level of nesting.
func (in *interp) generate(kind string, next func() (Value, bool, error)) *generator {
	return &generator{kind: kind, next: func() (Value, bool, error) {
		in.depth++
		if in.depth > in.limits.Depth {
			return nil, false, limitErrorf("iterators are stacked more than %d levels deep", in.limits.Depth)
		}
		item, ok, err := next()
		in.depth--
		return item, ok, err
	}}
}

// joinTexts is joinStrings for texts whose provenance is kept.
func (in *interp) joinTexts(texts []Text, sep Text) (Value, error) {
	n := len(sep.text) * max(len(texts)-1, 0)
	spans := len(sep.own) + 1
	for _, t := range texts {
		if n += len(t.text); n > in.limits.OutputBytes {
			break
		}
		spans += len(t.own) + len(sep.own) + 2
	}
	if err := in.allocString(n); err != nil {
		return nil, err
	}
	if err := in.alloc(spanBytes * spans); err != nil {
		return nil, err
	}
	var text strings.Builder
	text.Grow(n)
	own := make(authorSpans, 0, min(spans, 2*len(texts)))
	for i, t := range texts {
		if i > 0 {
			own.add(sep, text.Len())
			text.WriteString(sep.text)
		}
		own.add(t, text.Len())
		text.WriteString(t.text)
	}
	return own.of(text.String()).value(), nil
}
