package jinja

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A jsonWriter writes JSON in the style that Python's json.dumps was asked for.
type jsonWriter struct {
	valueWriter
	ascii, sortKeys bool
	// pretty begins each item on a line of its own, after indent for each level.
	pretty          bool
	indent          string
	itemSep, keySep string
}

func filterToJSON(r *state, v Value, args callArgs) Value {
	p := args.bind("tojson", 0, "ensure_ascii", "indent", "separators", "sort_keys")
	w := &jsonWriter{
		valueWriter: valueWriter{r: r},
		ascii:       p.truth(0),
		sortKeys:    truth(p.value(3, r.options.SortJSONKeys)),
		itemSep:     ", ",
		keySep:      ": ",
	}
	if p.has(1) {
		w.pretty, w.itemSep = true, ","
		if s, ok := asStr(p.values[1]); ok {
			w.indent = s
		} else {
			w.indent, _ = asStr(r.repeat(" ", p.integer(1, 0)))
		}
	}
	if p.has(2) {
		separators := params{"tojson", r.unpack(p.values[2], 2)}
		w.itemSep, w.keySep = separators.str(0, ""), separators.str(1, "")
	}
	w.write(v, 0)
	return w.text.String()
}

func (w *jsonWriter) write(v Value, depth int) {
	w.enter(depth)
	switch v := v.(type) {
	case *List:
		if v.kind == "" || v.kind == "tuple" || w.r.options.Lenient {
			w.writeArray(v.Items, depth)
			return
		}
	case *generator:
		if w.r.options.Lenient {
			w.writeArray(v.take(), depth)
			return
		}
	case *Map:
		w.writeObject(v, depth)
		return
	case string:
		w.put(w.quoted(v))
		return
	case *Text:
		w.put(w.quoted(v.text))
		return
	}
	text, ok := jsonScalar(v)
	if !ok {
		failType("Object of type %s is not JSON serializable", typeName(v))
	}
	w.put(text)
}

var jsonFloats = map[string]string{"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

func jsonScalar(v Value) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "null", true
	case bool:
		return strconv.FormatBool(v), true
	case int:
		return strconv.Itoa(v), true
	case *big.Int:
		return v.String(), true
	case float64:
		text := formatFloat(v)
		if special, ok := jsonFloats[text]; ok {
			text = special
		}
		return text, true
	}
	return "", false
}

// newline starts a line in the pretty style.
func (w *jsonWriter) newline(depth int) {
	if w.pretty {
		w.r.timesString(len(w.indent), depth)
		w.put("\n" + strings.Repeat(w.indent, depth))
	}
}

func (w *jsonWriter) writeArray(items []Value, depth int) {
	if len(items) == 0 {
		w.put("[]")
		return
	}
	sep := "["
	for _, item := range items {
		w.put(sep)
		w.newline(depth + 1)
		w.write(item, depth+1)
		sep = w.itemSep
	}
	w.newline(depth)
	w.put("]")
}

func (w *jsonWriter) writeObject(m *Map, depth int) {
	if m.Len() == 0 {
		w.put("{}")
		return
	}
	keys, values := m.keys, m.vals
	if w.sortKeys {
		keys, values = w.r.sortBy(keys, m.keys, false), w.r.sortBy(values, m.keys, false)
	}
	sep := "{"
	for i, key := range keys {
		w.put(sep)
		w.newline(depth + 1)
		name, ok := asStr(key)
		if !ok {
			name, _ = jsonScalar(key)
		}
		w.put(w.quoted(name))
		w.put(w.keySep)
		w.write(values[i], depth+1)
		sep = w.itemSep
	}
	w.newline(depth)
	w.put("}")
}

func (w *jsonWriter) quoted(s string) string {
	isPlain := true
	for i := range len(s) {
		c := s[i]
		isPlain = isPlain && c >= ' ' && c <= '~' && c != '"' && c != '\\'
	}
	if isPlain {
		return `"` + s + `"`
	}
	var sb strings.Builder
	sb.Grow(len(s) + 16)
	sb.WriteByte('"')
	for _, r := range s {
		w.writeRune(&sb, r)
	}
	sb.WriteByte('"')
	return sb.String()
}

var jsonEscapes = map[rune]string{
	'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\f': `\f`, '\b': `\b`,
}

func (w *jsonWriter) writeRune(sb *strings.Builder, r rune) {
	if r < utf8.RuneSelf {
		if text, ok := jsonEscapes[r]; ok {
			sb.WriteString(text)
			return
		}
	}
	switch {
	case r < ' ' || (w.ascii && r > '~' && r < 0x10000):
		fmt.Fprintf(sb, "\\u%04x", r)
	case w.ascii && r >= 0x10000:
		r -= 0x10000
		fmt.Fprintf(sb, "\\u%04x\\u%04x", 0xd800+(r>>10), 0xdc00+(r&0x3ff))
	default:
		sb.WriteRune(r)
	}
}
