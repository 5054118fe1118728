package jinja

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// print is str(v) with provenance. Numbers, truth values and None have no text
// of their own that could be a control token, so they count as the author's.
func (r *state) print(v Value) Text {
	if t, ok := textOf(v); ok {
		return t
	}
	return Text{text: r.str(v), whole: r.isOwn(v, 0)}
}

// derived gives the result of an operation that keeps no spans its
// provenance: the author's if all operands are.
func (r *state) derived(v Value, self Value, args callArgs) Value {
	s, ok := v.(string)
	if !ok || !r.isOwn(self, 0) || !r.areOwn(args.pos, 0) || !r.areOwn(args.named, 0) {
		return v
	}
	return Own(s)
}

// ownDepthMax bounds how deep isOwn looks; deeper values count as data.
const ownDepthMax = 8

// isOwn says that no text in v is data. Values whose text cannot be inspected
// without running them, such as iterators, count as data.
func (r *state) isOwn(v Value, depth int) bool {
	r.work(1)
	switch v := v.(type) {
	case string:
		return v == ""
	case *Text:
		return v.whole
	case *List:
		return r.areOwn(v.Items, depth)
	case *Map:
		return r.areOwn(v.keys, depth) && r.areOwn(v.vals, depth)
	case nil, absent, *undefined:
		return true
	}
	return isNumber(v)
}

func (r *state) areOwn(items []Value, depth int) bool {
	for _, item := range items {
		if depth >= ownDepthMax || !r.isOwn(item, depth+1) {
			return false
		}
	}
	return true
}

// str is Python's str(v): what {{ v }} prints.
func (r *state) str(v Value) string {
	switch v := v.(type) {
	case string:
		return v
	case *Text:
		return v.text
	case int:
		return strconv.Itoa(v)
	case *undefined:
		return ""
	}
	return r.repr(v)
}

// repr is Python's repr(v).
func (r *state) repr(v Value) string {
	w := &valueWriter{r: r}
	w.write(v, 0)
	return w.text.String()
}

// A valueWriter writes a value and pays for it.
type valueWriter struct {
	r    *state
	text strings.Builder
}

func (w *valueWriter) put(s string) {
	if w.text.Len()+len(s) > w.r.limits.OutputBytes {
		failLimit("a printed value is longer than the %d bytes allowed", w.r.limits.OutputBytes)
	}
	w.r.alloc(len(s))
	w.text.WriteString(s)
}

func (w *valueWriter) enter(depth int) {
	if depth > valueDepthMax {
		failLimit("a printed value nests more than %d levels", valueDepthMax)
	}
	w.r.work(1)
}

func (w *valueWriter) write(v Value, depth int) {
	w.enter(depth)
	switch v := v.(type) {
	case *List:
		w.writeList(v, depth)
	case *Map:
		sep := "{"
		for i, key := range v.keys {
			w.put(sep)
			w.write(key, depth+1)
			w.put(": ")
			w.write(v.vals[i], depth+1)
			sep = ", "
		}
		w.put(strings.TrimSuffix(sep, ", ") + "}")
	default:
		w.put(scalarRepr(v))
	}
}

func (w *valueWriter) writeList(l *List, depth int) {
	open, end := "[", "]"
	switch {
	case l.kind == "range":
		failType("a range cannot be printed; use the filter list")
	case l.kind == "tuple" && len(l.Items) == 1:
		open, end = "(", ",)"
	case l.kind == "tuple":
		open, end = "(", ")"
	case l.isView():
		open, end = l.kind+"([", "])"
	}
	w.put(open)
	for i, item := range l.Items {
		if i > 0 {
			w.put(", ")
		}
		w.write(item, depth+1)
	}
	w.put(end)
}

func scalarRepr(v Value) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int:
		return strconv.Itoa(v)
	case *big.Int:
		return v.String()
	case float64:
		return formatFloat(v)
	case string:
		return quote(v)
	case *Text:
		return quote(v.text)
	case *undefined:
		return "Undefined"
	}
	return "<" + typeName(v) + " object>"
}

var quoteEscapes = map[rune]string{'\n': `\n`, '\r': `\r`, '\t': `\t`, '\\': `\\`}

// quote is Python's repr of a string: single quotes unless that would need
// escapes and double quotes would not.
func quote(s string) string {
	mark := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, "\"") {
		mark = '"'
	}
	var sb strings.Builder
	sb.WriteRune(mark)
	for _, r := range s {
		escape, ok := quoteEscapes[r]
		switch {
		case ok:
			sb.WriteString(escape)
		case r == mark:
			sb.WriteString(`\` + string(r))
		case isPrintable(r):
			sb.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&sb, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&sb, `\u%04x`, r)
		default:
			fmt.Fprintf(&sb, `\U%08x`, r)
		}
	}
	sb.WriteRune(mark)
	return sb.String()
}

// isPrintable is Python's str.isprintable for one character: not a control,
// format, surrogate, private, unassigned or separator character.
func isPrintable(r rune) bool {
	if r < 0x7f {
		return r >= ' '
	}
	return unicode.IsGraphic(r) && !unicode.Is(unicode.Z, r)
}
