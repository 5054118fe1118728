package jinja

// A filterFunc computes "v|name(args)".
type filterFunc func(in *interp, v Value, args callArgs) (Value, error)

// filterTable is filled at start and never changed: some filters look others
// up, which Go does not allow in a plain declaration.
var filterTable map[string]filterFunc

func init() {
	filterTable = map[string]filterFunc{
		"abs":        filterAbs,
		"attr":       filterAttr,
		"capitalize": textMethod("capitalize"),
		"count":      filterLength,
		"d":          filterDefault,
		"default":    filterDefault,
		"dictsort":   filterDictSort,
		"first":      filterFirst,
		"float":      filterFloat,
		"format":     filterFormat,
		"groupby":    filterGroupBy,
		"indent":     filterIndent,
		"int":        filterInt,
		"items":      filterItems,
		"join":       filterJoin,
		"last":       filterLast,
		"length":     filterLength,
		"list":       filterList,
		"lower":      textMethod("lower"),
		"map":        filterMap,
		"max":        filterExtreme(opGt),
		"min":        filterExtreme(opLt),
		"reject":     filterSelect(false, false),
		"rejectattr": filterSelect(false, true),
		"replace":    filterReplace,
		"reverse":    filterReverse,
		"round":      filterRound,
		"safe":       filterSafe,
		"select":     filterSelect(true, false),
		"selectattr": filterSelect(true, true),
		"sort":       filterSort,
		"string":     filterString,
		"sum":        filterSum,
		"title":      filterTitle,
		"tojson":     filterToJSON,
		"trim":       textMethod("strip", "chars"),
		"unique":     filterUnique,
		"upper":      textMethod("upper"),
	}
}

// softStr is str(v) that keeps markup.
func (in *interp) softStr(v Value) (Value, error) {
	switch v.(type) {
	case string, *Text:
		return v, nil
	}
	return in.str(v)
}

// textMethod is a filter that calls a string method on the text of its
// operand.
func textMethod(name string, params ...string) filterFunc {
	return func(in *interp, v Value, args callArgs) (Value, error) {
		values, err := args.params(name, params...)
		if err != nil {
			return nil, err
		}
		text, err := in.softStr(v)
		if err != nil {
			return nil, err
		}
		var pos []Value
		for _, value := range values {
			if !isAbsent(value) {
				pos = append(pos, value)
			}
		}
		return strMethods[name](in, text, callArgs{pos: pos})
	}
}

func filterLength(_ *interp, v Value, args callArgs) (Value, error) {
	if loop, ok := v.(*loopState); ok {
		return loop.len()
	}
	n, ok := lenOf(v)
	if !ok {
		return nil, typeErrorf("object of type '%s' has no len()", typeName(v))
	}
	return n, args.none("length")
}

func filterDefault(_ *interp, v Value, args callArgs) (Value, error) {
	values, err := args.params("default", "default_value", "boolean")
	if err != nil {
		return nil, err
	}
	if isAbsent(values[0]) {
		values[0] = ""
	}
	if isUndefined(v) || (boolOr(values[1], false) && !truth(v)) {
		return values[0], nil
	}
	return v, nil
}

func filterFirst(in *interp, v Value, args callArgs) (Value, error) {
	next, err := in.iterate(v)
	if err != nil {
		return nil, err
	}
	item, ok, err := next()
	if err == nil && !ok {
		return undefinedHint("no first item, sequence was empty"), args.none("first")
	}
	return item, err
}

// isReversible says that Python's reversed(v) works.
func isReversible(v Value) bool {
	switch v.(type) {
	case *generator, *loopState:
		return false
	}
	_, ok := lenOf(v)
	return ok
}

func filterLast(in *interp, v Value, args callArgs) (Value, error) {
	if !isReversible(v) {
		return nil, typeErrorf("'%s' object is not reversible", typeName(v))
	}
	items, err := in.collect(v)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return undefinedHint("no last item, sequence was empty"), args.none("last")
	}
	return items[len(items)-1], nil
}

func filterReverse(in *interp, v Value, args callArgs) (Value, error) {
	if err := args.none("reverse"); err != nil {
		return nil, err
	}
	if isString(v) {
		return in.slice(v, nil, nil, -1)
	}
	items, err := in.collect(v)
	if err != nil {
		return nil, err
	}
	if !isReversible(v) {
		r, err := sliceRange(len(items), nil, nil, -1)
		if err != nil {
			return nil, err
		}
		backwards, err := in.sliceItems(items, r)
		return &List{Items: backwards}, err
	}
	i := len(items)
	return in.generate("list_reverseiterator", func() (Value, bool, error) {
		if i == 0 {
			return nil, false, nil
		}
		i--
		return items[i], true, in.work(1)
	}), nil
}

func filterList(in *interp, v Value, args callArgs) (Value, error) {
	items, err := in.collect(v)
	if err != nil {
		return nil, err
	}
	return &List{Items: items}, args.none("list")
}

func filterItems(in *interp, v Value, args callArgs) (Value, error) {
	if err := args.none("items"); err != nil {
		return nil, err
	}
	m, ok := v.(*Map)
	if !ok && !isUndefined(v) {
		return in.generate("generator", func() (Value, bool, error) {
			return nil, false, typeErrorf("can only get item pairs from a mapping")
		}), nil
	}
	if !ok {
		m = NewMap()
	}
	view := &dictView{of: m, kind: "dict_items"}
	return in.generate("generator", in.iterateIndex(m.Len(), view.at)), nil
}

func filterString(in *interp, v Value, args callArgs) (Value, error) {
	if err := args.none("string"); err != nil {
		return nil, err
	}
	return in.softStr(v)
}

// filterSafe changes nothing: a prompt is not HTML, and nothing is escaped.
func filterSafe(in *interp, v Value, args callArgs) (Value, error) {
	if err := args.none("safe"); err != nil {
		return nil, err
	}
	return in.softStr(v)
}

func filterAttr(in *interp, v Value, args callArgs) (Value, error) {
	values, err := args.required("attr", 1, "name")
	if err != nil {
		return nil, err
	}
	name, err := strOr("attr", values[0], "")
	if err != nil {
		return nil, err
	}
	if u, ok := v.(*Undefined); ok {
		return nil, u.err()
	}
	if found, ok, err := in.attribute(v, name); ok || err != nil {
		return found, err
	}
	return undefinedAttr(v, name), nil
}

// filterFormat is the % operator with the arguments as a tuple or mapping.
func filterFormat(in *interp, v Value, args callArgs) (Value, error) {
	text, err := in.print(v)
	if err != nil {
		return nil, err
	}
	if len(args.names) == 0 {
		return in.percentFormat(text.value(), &Tuple{Items: args.pos})
	}
	if len(args.pos) > 0 {
		return nil, valueErrorf("can't handle positional and keyword arguments at the same time")
	}
	m := NewMap()
	for i, name := range args.names {
		m.Set(name, args.named[i])
	}
	return in.percentFormat(text.value(), m)
}

func filterToJSON(in *interp, v Value, args callArgs) (Value, error) {
	values, err := args.params("tojson", "ensure_ascii", "indent", "separators", "sort_keys")
	if err != nil {
		return nil, err
	}
	style := jsonStyle{
		ascii:    boolOr(values[0], false),
		sortKeys: boolOr(values[3], in.template.options.SortJSONKeys),
		itemSep:  ", ",
		keySep:   ": ",
	}
	if err := style.setIndent(in, values[1]); err != nil {
		return nil, err
	}
	if !isAbsent(values[2]) && values[2] != nil {
		pair, err := in.unpack(values[2], 2)
		if err != nil {
			return nil, err
		}
		if style.itemSep, err = strOr("tojson", pair[0], ""); err != nil {
			return nil, err
		}
		if style.keySep, err = strOr("tojson", pair[1], ""); err != nil {
			return nil, err
		}
	}
	return in.toJSON(v, style)
}

func (style *jsonStyle) setIndent(in *interp, v Value) error {
	if isAbsent(v) || v == nil {
		return nil
	}
	style.pretty, style.itemSep = true, ","
	if s, ok := asStr(v); ok {
		style.indent = s
		return nil
	}
	n, ok := asInt(v)
	if !ok {
		return typeErrorf("tojson: indent must be an integer or a string, not %s", typeName(v))
	}
	text, err := in.repeat(" ", n)
	style.indent = selfText(text)
	return err
}
