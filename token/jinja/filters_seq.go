package jinja

import (
	"strconv"
	"strings"
)

// A getter reads the attribute a filter was asked to work on.
type getter func(item Value) (Value, error)

// getterFor makes a getter for a dotted path. A nil or absent attribute is
// the item itself; fallback, unless nil, replaces what is undefined.
func (in *interp) getterFor(attribute, fallback Value, foldCase bool) getter {
	path := attributePath(attribute)
	return func(item Value) (Value, error) {
		var err error
		for _, part := range path {
			if item, err = in.item(item, part); err != nil {
				return nil, err
			}
			if fallback != nil && isUndefined(item) {
				item = fallback
			}
		}
		if foldCase {
			return in.foldCase(item)
		}
		return item, nil
	}
}

func attributePath(attribute Value) []Value {
	if attribute == nil || isAbsent(attribute) {
		return nil
	}
	name, ok := asStr(attribute)
	if !ok {
		return []Value{attribute}
	}
	var path []Value
	for part := range strings.SplitSeq(name, ".") {
		if n, err := strconv.Atoi(part); err == nil && textTests["isdigit"](part) {
			path = append(path, n)
		} else {
			path = append(path, part)
		}
	}
	return path
}

func (in *interp) foldCase(v Value) (Value, error) {
	s, ok := asStr(v)
	if !ok {
		return v, nil
	}
	if err := in.alloc(len(s)); err != nil {
		return nil, err
	}
	return strings.ToLower(s), nil
}

// keysOf applies a getter to every item.
func (in *interp) keysOf(items []Value, get getter) ([]Value, error) {
	if err := in.allocItems(3 * len(items)); err != nil {
		return nil, err
	}
	keys := make([]Value, len(items))
	for i, item := range items {
		if err := in.work(1); err != nil {
			return nil, err
		}
		key, err := get(item)
		if err != nil {
			return nil, err
		}
		keys[i] = key
	}
	return keys, nil
}

func filterMap(in *interp, v Value, args callArgs) (Value, error) {
	if !truth(v) {
		return in.generate("generator", in.iterateItems(nil)), nil
	}
	var apply func(Value) (Value, error)
	return in.lazily(v, func(item Value) (Value, bool, error) {
		if apply == nil {
			var err error
			if apply, err = in.mapping(args); err != nil {
				return nil, false, err
			}
		}
		out, err := apply(item)
		return out, true, err
	}), nil
}

// mapping is what map does to each item: read an attribute or call a filter.
func (in *interp) mapping(args callArgs) (func(Value) (Value, error), error) {
	if attribute, ok := args.take("attribute"); ok && len(args.pos) == 0 {
		fallback, _ := args.take("default")
		if len(args.names) > 0 {
			return nil, valueErrorf("unexpected keyword argument '%s'", args.names[0])
		}
		return in.getterFor(attribute, fallback, false), nil
	}
	if len(args.pos) == 0 {
		return nil, valueErrorf("map requires a filter argument")
	}
	name, _ := asStr(args.pos[0])
	filter := filterTable[name]
	if filter == nil {
		return nil, errorf(RuntimeError, "no filter named '%s'", name)
	}
	args.pos = args.pos[1:]
	return func(item Value) (Value, error) { return in.filter(filter, item, args) }, nil
}

// filterSelect is select, reject, selectattr and rejectattr.
func filterSelect(keep, byAttribute bool) filterFunc {
	return func(in *interp, v Value, args callArgs) (Value, error) {
		if !truth(v) {
			return in.generate("generator", in.iterateItems(nil)), nil
		}
		var holds func(Value) (bool, error)
		return in.lazily(v, func(item Value) (Value, bool, error) {
			if holds == nil {
				var err error
				if holds, err = in.selection(args, byAttribute); err != nil {
					return nil, false, err
				}
			}
			ok, err := holds(item)
			return item, ok == keep, err
		}), nil
	}
}

func (in *interp) selection(args callArgs, byAttribute bool) (func(Value) (bool, error), error) {
	get := func(item Value) (Value, error) { return item, nil }
	if byAttribute {
		if len(args.pos) == 0 {
			return nil, valueErrorf("missing parameter for attribute name")
		}
		get = in.getterFor(args.pos[0], nil, false)
		args.pos = args.pos[1:]
	}
	test := func(_ *interp, v Value, _ callArgs) (bool, error) { return truth(v), nil }
	if len(args.pos) > 0 {
		name, _ := asStr(args.pos[0])
		if test = testTable[name]; test == nil {
			return nil, errorf(RuntimeError, "no test named '%s'", name)
		}
		args.pos = args.pos[1:]
	}
	return func(item Value) (bool, error) {
		v, err := get(item)
		if err != nil {
			return false, err
		}
		return test(in, v, args)
	}, nil
}

func filterSort(in *interp, v Value, args callArgs) (Value, error) {
	values, err := args.params("sort", "reverse", "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	items, err := in.collect(v)
	if err != nil {
		return nil, err
	}
	get := in.multiGetter(values[2], !boolOr(values[1], false))
	keys, err := in.keysOf(items, get)
	if err != nil {
		return nil, err
	}
	sorted, err := in.sortBy(items, keys, boolOr(values[0], false))
	return &List{Items: sorted}, err
}

// multiGetter reads several attributes, given with commas, as a list. One
// attribute makes a list too: lists of equal items need no order between
// them, which lets undefined values be sorted.
func (in *interp) multiGetter(attribute Value, foldCase bool) getter {
	parts := []Value{attribute}
	if name, ok := asStr(attribute); ok {
		parts = nil
		for part := range strings.SplitSeq(name, ",") {
			parts = append(parts, part)
		}
	}
	var getters []getter
	for _, part := range parts {
		getters = append(getters, in.getterFor(part, nil, foldCase))
	}
	return func(item Value) (Value, error) {
		if err := in.allocItems(len(getters)); err != nil {
			return nil, err
		}
		key := &List{Items: make([]Value, len(getters))}
		for i, get := range getters {
			v, err := get(item)
			if err != nil {
				return nil, err
			}
			key.Items[i] = v
		}
		return key, nil
	}
}

func filterDictSort(in *interp, v Value, args callArgs) (Value, error) {
	values, err := args.params("dictsort", "case_sensitive", "by", "reverse")
	if err != nil {
		return nil, err
	}
	by, err := strOr("dictsort", values[1], "key")
	if err != nil {
		return nil, err
	}
	if u, ok := v.(*Undefined); ok {
		return nil, u.err()
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, typeErrorf("'%s' object has no attribute 'items'", typeName(v))
	}
	subjects := m.keys
	switch by {
	case "key":
	case "value":
		subjects = m.vals
	default:
		return nil, valueErrorf(`you can only sort by either "key" or "value"`)
	}
	keys, err := in.keysOf(subjects, in.getterFor(nil, nil, !boolOr(values[0], false)))
	if err != nil {
		return nil, err
	}
	pairs, err := in.collect(&dictView{of: m, kind: "dict_items"})
	if err != nil {
		return nil, err
	}
	sorted, err := in.sortBy(pairs, keys, boolOr(values[2], false))
	return &List{Items: sorted}, err
}

func filterUnique(in *interp, v Value, args callArgs) (Value, error) {
	values, err := args.params("unique", "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	get := in.getterFor(values[1], nil, !boolOr(values[0], false))
	seen := map[any]bool{}
	return in.lazily(v, func(item Value) (Value, bool, error) {
		key, err := get(item)
		if err != nil {
			return nil, false, err
		}
		hash, err := hashKey(key)
		if err != nil || seen[hash] {
			return nil, false, err
		}
		seen[hash] = true
		return item, true, in.allocItems(2)
	}), nil
}

// filterExtreme is min and max: op says which of two items wins.
func filterExtreme(op compareOp) filterFunc {
	return func(in *interp, v Value, args callArgs) (Value, error) {
		values, err := args.params("min", "case_sensitive", "attribute")
		if err != nil {
			return nil, err
		}
		items, err := in.collect(v)
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			return undefinedHint("no aggregated item, sequence was empty"), nil
		}
		keys, err := in.keysOf(items, in.getterFor(values[1], nil, !boolOr(values[0], false)))
		if err != nil {
			return nil, err
		}
		best := 0
		for i := 1; i < len(items); i++ {
			wins, err := in.compare(op, keys[i], keys[best])
			if err != nil {
				return nil, err
			}
			if wins {
				best = i
			}
		}
		return items[best], nil
	}
}

func filterGroupBy(in *interp, v Value, args callArgs) (Value, error) {
	values, err := args.required("groupby", 1, "attribute", "default", "case_sensitive")
	if err != nil {
		return nil, err
	}
	fallback := values[1]
	if isAbsent(fallback) {
		fallback = nil
	}
	foldCase := !boolOr(values[2], false)
	items, err := in.collect(v)
	if err != nil {
		return nil, err
	}
	get := in.getterFor(values[0], fallback, foldCase)
	keys, err := in.keysOf(items, get)
	if err != nil {
		return nil, err
	}
	if items, err = in.sortBy(items, keys, false); err != nil {
		return nil, err
	}
	return in.groups(items, get, in.getterFor(values[0], fallback, false))
}

// groups collects runs of items with equal keys. The name of a group is the
// key of its first item, without case folding.
func (in *interp) groups(items []Value, get, name getter) (Value, error) {
	out := &List{}
	var last Value
	for i, item := range items {
		key, err := get(item)
		if err != nil {
			return nil, err
		}
		same := false
		if i > 0 {
			if same, err = in.equal(key, last); err != nil {
				return nil, err
			}
		}
		if err := in.allocItems(4); err != nil {
			return nil, err
		}
		if same {
			group, _ := out.Items[len(out.Items)-1].(*Tuple)
			members, _ := group.Items[1].(*List)
			members.Items = append(members.Items, item)
			continue
		}
		title, err := name(item)
		if err != nil {
			return nil, err
		}
		last = key
		out.Items = append(out.Items, &Tuple{Items: []Value{title, NewList(item)}, fields: []string{"grouper", "list"}})
	}
	return out, nil
}

func filterSum(in *interp, v Value, args callArgs) (Value, error) {
	values, err := args.params("sum", "attribute", "start")
	if err != nil {
		return nil, err
	}
	total := values[1]
	if isAbsent(total) {
		total = 0
	}
	if isString(total) {
		return nil, typeErrorf("sum() can't sum strings")
	}
	items, err := in.collect(v)
	if err != nil {
		return nil, err
	}
	get := in.getterFor(values[0], nil, false)
	for _, item := range items {
		part, err := get(item)
		if err != nil {
			return nil, err
		}
		if total, err = in.arith('+', total, part); err != nil {
			return nil, err
		}
	}
	return total, nil
}
