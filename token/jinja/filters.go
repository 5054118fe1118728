package jinja

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// filterTable has what computes "v|name(args)", with v as self. It is filled at
// start and never changed: some filters look others up, which Go does not allow
// in a plain declaration.
var filterTable map[string]method

func init() {
	filterTable = map[string]method{
		"abs":        filterAbs,
		"capitalize": textFilter("capitalize"),
		"count":      filterLength,
		"d":          filterDefault,
		"default":    filterDefault,
		"dictsort":   filterDictSort,
		"first":      filterFirst,
		"float":      filterFloat,
		"format":     filterFormat,
		"indent":     filterIndent,
		"int":        filterInt,
		"items":      filterItems,
		"join":       filterJoin,
		"last":       filterLast,
		"length":     filterLength,
		"list":       filterList,
		"lower":      textFilter("lower"),
		"map":        filterMap,
		"max":        filterExtreme("max", ">"),
		"min":        filterExtreme("min", "<"),
		"reject":     filterSelect(false, false),
		"rejectattr": filterSelect(false, true),
		"replace":    filterReplace,
		"reverse":    filterReverse,
		"round":      filterRound,
		"safe":       filterString, // a prompt is not HTML, and nothing is escaped
		"select":     filterSelect(true, false),
		"selectattr": filterSelect(true, true),
		"sort":       filterSort,
		"string":     filterString,
		"sum":        filterSum,
		"title":      filterTitle,
		"tojson":     filterToJSON,
		"trim":       filterTrim,
		"unique":     filterUnique,
		"upper":      textFilter("upper"),
	}
}

// filter applies f. A filter that keeps no spans may return a plain string;
// that string is the author's if all operands are.
func (r *state) filter(f method, v Value, args callArgs) Value {
	return r.derived(f(r, v, args), v, args)
}

// textFilter calls a method without arguments on the text of its operand.
func textFilter(name string) method {
	return func(r *state, v Value, args callArgs) Value { return strMethods[name](r, r.print(v).value(), args) }
}

func filterTrim(r *state, v Value, args callArgs) Value {
	p := args.bind("trim", 0, "chars")
	return strMethods["strip"](r, r.print(v).value(), callArgs{pos: []Value{p.value(0, nil)}})
}

func filterString(r *state, v Value, args callArgs) Value {
	args.none("string")
	return r.print(v).value()
}

func filterLength(_ *state, v Value, args callArgs) Value {
	args.none("length")
	n, ok := lenOf(v)
	if !ok {
		failType("object of type '%s' has no len()", typeName(v))
	}
	return n
}

func filterDefault(_ *state, v Value, args callArgs) Value {
	p := args.bind("default", 0, "default_value", "boolean")
	if is[*undefined](v) || p.truth(1) && !truth(v) {
		return p.value(0, "")
	}
	return v
}

func filterFirst(r *state, v Value, args callArgs) Value {
	args.none("first")
	g, isGenerator := v.(*generator)
	items := r.items(v)
	if isGenerator && len(items) > 0 {
		g.items = items[1:]
	}
	if len(items) > 0 {
		return items[0]
	}
	return undefinedHint("no first item, sequence was empty")
}

func filterLast(r *state, v Value, args callArgs) Value {
	args.none("last")
	if is[*generator](v) {
		failType("'%s' object is not reversible", typeName(v))
	}
	if items := r.items(v); len(items) > 0 {
		return items[len(items)-1]
	}
	return undefinedHint("no last item, sequence was empty")
}

func filterReverse(r *state, v Value, args callArgs) Value {
	args.none("reverse")
	if isString(v) {
		return r.slice(v, nil, nil, -1)
	}
	items := r.items(v)
	r.allocItems(len(items))
	items = slices.Clone(items)
	slices.Reverse(items)
	return &generator{items: items}
}

func filterList(r *state, v Value, args callArgs) Value {
	args.none("list")
	items := r.items(v)
	r.allocItems(len(items))
	return &List{Items: slices.Clone(items)}
}

func filterItems(r *state, v Value, args callArgs) Value {
	args.none("items")
	m, ok := v.(*Map)
	if !ok && !is[*undefined](v) {
		failType("can only get item pairs from a mapping")
	}
	if !ok {
		m = NewMap()
	}
	return &generator{items: r.pairs(m)}
}

func filterReplace(r *state, v Value, args callArgs) Value {
	p := args.bind("replace", 2, "old", "new", "count")
	return r.replace(r.print(v), r.str(p.values[0]), r.print(p.values[1]), p.integer(2, -1))
}

func filterIndent(r *state, v Value, args callArgs) Value {
	p := args.bind("indent", 0, "width", "first", "blank")
	mustDefine(v)
	t, ok := textOf(v)
	if !ok {
		failType("indent: expected a string, not %s", typeName(v))
	}
	indent, ok := textOf(p.value(0, 4))
	if !ok {
		spaces, _ := asStr(r.repeat(" ", p.integer(0, 4)))
		indent = Text{text: spaces, whole: true}
	}
	lines := splitLines(t.text+"\n", false)
	r.timesString(len(indent.text)+1, len(lines)+1)
	r.allocString(len(t.text) + len(lines)*len(indent.text))
	var b textBuffer
	for i, line := range r.textList(t, lines, -1).Items {
		if i > 0 {
			b.add(Text{text: "\n"})
		}
		if i == 0 && p.truth(1) || i > 0 && (lines[i] != "" || p.truth(2)) {
			b.add(indent)
		}
		b.add(selfText(line))
	}
	return b.value()
}

// filterTitle starts words with capitals; unlike the string method, a word
// begins only after white space, a hyphen or an opening bracket.
func filterTitle(r *state, v Value, args callArgs) Value {
	args.none("title")
	s := r.str(v)
	r.allocString(3 * len(s))
	var sb strings.Builder
	begins := true
	for _, c := range s {
		if begins {
			sb.WriteString(toUpper(string(c)))
		} else {
			sb.WriteRune(unicode.ToLower(c))
		}
		begins = isSpace(c) || strings.ContainsRune("-({[<", c)
	}
	return sb.String()
}

func filterInt(_ *state, v Value, args callArgs) Value {
	p := args.bind("int", 0, "default")
	mustDefine(v)
	if isInteger(v) {
		return v
	}
	s, _ := asStr(v)
	if n, ok := readInt(s); ok {
		return n
	}
	f, ok := readFloat(v)
	if !ok || math.IsNaN(f) || math.Abs(f) >= 1<<63 {
		return p.value(0, 0)
	}
	return int(f)
}

func filterFloat(_ *state, v Value, args callArgs) Value {
	p := args.bind("float", 0, "default")
	mustDefine(v)
	if f, ok := readFloat(v); ok {
		return f
	}
	return p.value(0, 0.0)
}

func filterAbs(_ *state, v Value, args callArgs) Value {
	args.none("abs")
	if order, _ := compareNumbers(signed(v, false), 0); order < 0 {
		return signed(v, true)
	}
	return signed(v, false)
}

// roundDigitsMax bounds the precision of round; a float has no more digits.
const roundDigitsMax = 300

func filterRound(_ *state, v Value, args callArgs) Value {
	p := args.bind("round", 0, "precision")
	mustDefine(v)
	f, isFloat := v.(float64)
	if !isNumber(v) {
		failType("type %s doesn't define __round__ method", typeName(v))
	}
	precision := max(min(p.integer(0, 0), roundDigitsMax), -roundDigitsMax)
	scale := math.Pow(10, float64(precision))
	switch {
	case !isFloat && precision < 0:
		return int(math.RoundToEven(toFloat(v)*scale) / scale)
	case !isFloat:
		return signed(v, false)
	case precision < 0:
		return math.RoundToEven(f*scale) / scale
	}
	f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'f', precision, 64), 64)
	return f
}
