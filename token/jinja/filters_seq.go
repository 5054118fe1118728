package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// A getter reads the attribute a filter was asked to work on.
type getter func(item Value) Value

// getterFor makes a getter for a dotted path. A nil or absent attribute is
// the item itself; fallback, unless absent, replaces what is undefined.
func (r *state) getterFor(attribute, fallback Value, foldCase bool) getter {
	var path []Value
	if name, ok := asStr(attribute); ok {
		for part := range strings.SplitSeq(name, ".") {
			if n, err := strconv.Atoi(part); err == nil && n >= 0 {
				path = append(path, n)
			} else {
				path = append(path, part)
			}
		}
	} else if attribute != nil && !is[absent](attribute) {
		path = []Value{attribute}
	}
	return func(item Value) Value {
		r.work(1)
		for _, part := range path {
			item = r.item(item, part)
			if is[*undefined](item) && !is[absent](fallback) {
				item = fallback
			}
		}
		if s, ok := asStr(item); ok && foldCase {
			r.alloc(len(s))
			return strings.ToLower(s)
		}
		return item
	}
}

// keysOf applies a getter to every item.
func (r *state) keysOf(items []Value, get getter) []Value {
	r.allocItems(len(items))
	keys := make([]Value, len(items))
	for i, item := range items {
		keys[i] = get(item)
	}
	return keys
}

func filterJoin(r *state, v Value, args callArgs) Value {
	p := args.bind("join", 0, "d", "attribute")
	sep := r.print(p.value(0, ""))
	get := r.getterFor(p.values[1], absent{}, false)
	items := r.items(v)
	r.allocItems(2 * len(items))
	texts := make([]Text, len(items))
	for i, item := range items {
		texts[i] = r.print(get(item))
	}
	return r.join(texts, sep)
}

// filterMap reads an attribute of each item or applies a filter to it.
func filterMap(r *state, v Value, args callArgs) Value {
	if !truth(v) {
		return &generator{}
	}
	var apply getter
	if attribute, ok := args.take("attribute"); ok && len(args.pos) == 0 {
		fallback, ok := args.take("default")
		if !ok {
			fallback = absent{}
		}
		if len(args.names) > 0 {
			failValue("unexpected keyword argument '%s'", args.names[0])
		}
		apply = r.getterFor(attribute, fallback, false)
	} else {
		if len(args.pos) == 0 {
			failValue("map requires a filter argument")
		}
		name, _ := asStr(args.pos[0])
		f := filterTable[name]
		if f == nil {
			fail(RuntimeError, "no filter named '%s'", name)
		}
		args.pos = args.pos[1:]
		apply = func(item Value) Value {
			r.work(1)
			return r.filter(f, item, args)
		}
	}
	return &generator{items: r.keysOf(r.items(v), apply)}
}

// filterSelect is select, reject, selectattr and rejectattr.
func filterSelect(keep, byAttribute bool) method {
	return func(r *state, v Value, args callArgs) Value {
		get := func(item Value) Value { return item }
		if byAttribute {
			if len(args.pos) == 0 {
				failValue("missing parameter for attribute name")
			}
			get = r.getterFor(args.pos[0], absent{}, false)
			args.pos = args.pos[1:]
		}
		holds := func(_ *state, v Value, _ callArgs) bool { return truth(v) }
		if len(args.pos) > 0 {
			name, _ := asStr(args.pos[0])
			if holds = testTable[name]; holds == nil {
				fail(RuntimeError, "no test named '%s'", name)
			}
			args.pos = args.pos[1:]
		}
		out := &generator{}
		if !truth(v) {
			return out
		}
		for _, item := range r.items(v) {
			r.work(1)
			if holds(r, get(item), args) == keep {
				r.allocItems(1)
				out.items = append(out.items, item)
			}
		}
		return out
	}
}

func filterSort(r *state, v Value, args callArgs) Value {
	p := args.bind("sort", 0, "reverse", "case_sensitive", "attribute")
	items := r.items(v)
	if name, _ := asStr(p.values[2]); strings.Contains(name, ",") {
		failValue("sort: give one attribute, not %s", quote(name))
	}
	keys := r.keysOf(items, r.getterFor(p.values[2], absent{}, !p.truth(1)))
	return &List{Items: r.sortBy(items, keys, p.truth(0))}
}

func filterDictSort(r *state, v Value, args callArgs) Value {
	p := args.bind("dictsort", 0, "case_sensitive", "by", "reverse")
	mustDefine(v)
	m, ok := v.(*Map)
	if !ok {
		failType("'%s' object has no attribute 'items'", typeName(v))
	}
	subjects := m.keys
	switch p.str(1, "key") {
	case "key":
	case "value":
		subjects = m.vals
	default:
		failValue(`you can only sort by either "key" or "value"`)
	}
	keys := r.keysOf(subjects, r.getterFor(nil, absent{}, !p.truth(0)))
	return &List{Items: r.sortBy(r.pairs(m), keys, p.truth(2))}
}

func filterUnique(r *state, v Value, args callArgs) Value {
	p := args.bind("unique", 0, "case_sensitive", "attribute")
	get := r.getterFor(p.values[1], absent{}, !p.truth(0))
	seen := map[any]bool{}
	out := &generator{}
	for _, item := range r.items(v) {
		if hash := hashKey(get(item)); !seen[hash] {
			r.allocItems(3)
			seen[hash] = true
			out.items = append(out.items, item)
		}
	}
	return out
}

// filterExtreme is min and max: op says which of two items wins.
func filterExtreme(name, op string) method {
	return func(r *state, v Value, args callArgs) Value {
		p := args.bind(name, 0, "case_sensitive", "attribute")
		items := r.items(v)
		if len(items) == 0 {
			return undefinedHint("no aggregated item, sequence was empty")
		}
		keys := r.keysOf(items, r.getterFor(p.values[1], absent{}, !p.truth(0)))
		best := 0
		for i := range items {
			if i > 0 && comparisons[op](r, keys[i], keys[best]) {
				best = i
			}
		}
		return items[best]
	}
}

func filterSum(r *state, v Value, args callArgs) Value {
	p := args.bind("sum", 0, "attribute", "start")
	total := p.value(1, 0)
	get := r.getterFor(p.values[0], absent{}, false)
	for part := range slices.Values(r.items(v)) {
		if isString(total) {
			failType("sum() can't sum strings")
		}
		total = r.arith("+", total, get(part))
	}
	return total
}
