package jinja

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// str is Python's str(v): what {{ v }} prints.
func (in *interp) str(v Value) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case *Text:
		return v.text, nil
	case int:
		return strconv.Itoa(v), nil
	case *Undefined:
		return "", nil
	}
	return in.repr(v)
}

// repr is Python's repr(v).
func (in *interp) repr(v Value) (string, error) {
	w := &reprWriter{in: in}
	if err := w.write(v, 0); err != nil {
		return "", err
	}
	return w.text.String(), nil
}

type reprWriter struct {
	in   *interp
	text strings.Builder
	// sortKeys writes dicts in the order of their keys, as pprint does.
	sortKeys bool
	own      authorSpans
}

func (w *reprWriter) put(s string) error {
	if w.text.Len()+len(s) > w.in.limits.OutputBytes {
		return limitErrorf("a printed value is longer than the %d bytes allowed", w.in.limits.OutputBytes)
	}
	if err := w.in.alloc(len(s)); err != nil {
		return err
	}
	w.text.WriteString(s)
	return nil
}

// putText is put that keeps the provenance of t.
func (w *reprWriter) putText(t Text) error {
	w.own.add(t, w.text.Len())
	if err := w.put(t.text); err != nil {
		return err
	}
	return w.in.alloc(spanBytes * len(t.own))
}

// result is what was written.
func (w *reprWriter) result() Text { return w.own.of(w.text.String()) }

func (w *reprWriter) write(v Value, depth int) error {
	if depth > valueDepthMax {
		return limitErrorf("a printed value nests more than %d levels", valueDepthMax)
	}
	if err := w.in.work(1); err != nil {
		return err
	}
	switch v := v.(type) {
	case *List:
		return w.writeItems("[", v.Items, "]", depth)
	case *Tuple:
		if len(v.Items) == 1 {
			return w.writeItems("(", v.Items, ",)", depth)
		}
		return w.writeItems("(", v.Items, ")", depth)
	case *Map:
		return w.writeMap(v, depth)
	case *dictView:
		items, err := w.in.collect(v)
		if err != nil {
			return err
		}
		return w.writeItems(v.kind+"([", items, "])", depth)
	case *namespace:
		if err := w.put("<Namespace "); err != nil {
			return err
		}
		if err := w.writeMap(v.attrs, depth+1); err != nil {
			return err
		}
		return w.put(">")
	}
	return w.put(w.in.scalarRepr(v))
}

func (w *reprWriter) writeItems(open string, items []Value, end string, depth int) error {
	if err := w.put(open); err != nil {
		return err
	}
	for i, item := range items {
		if i > 0 {
			if err := w.put(", "); err != nil {
				return err
			}
		}
		if err := w.write(item, depth+1); err != nil {
			return err
		}
	}
	return w.put(end)
}

func (w *reprWriter) writeMap(m *Map, depth int) error {
	if w.sortKeys {
		var err error
		if m, err = w.in.sortedMap(m); err != nil {
			return err
		}
	}
	sep := "{"
	for i, key := range m.keys {
		if err := w.put(sep); err != nil {
			return err
		}
		if err := w.write(key, depth+1); err != nil {
			return err
		}
		if err := w.put(": "); err != nil {
			return err
		}
		if err := w.write(m.vals[i], depth+1); err != nil {
			return err
		}
		sep = ", "
	}
	if m.Len() == 0 {
		return w.put("{}")
	}
	return w.put("}")
}

// sortedMap returns m with its keys in order, or m itself if they have none.
func (in *interp) sortedMap(m *Map) (*Map, error) {
	if err := in.allocItems(8 * m.Len()); err != nil {
		return nil, err
	}
	places := make([]Value, m.Len())
	for i := range places {
		places[i] = i
	}
	order, err := in.sortBy(places, m.keys, false)
	if err != nil {
		return m, nil
	}
	out := NewMap()
	for _, place := range order {
		i, _ := place.(int)
		if err := out.setValue(m.keys[i], m.vals[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (in *interp) scalarRepr(v Value) string {
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
	case rangeValue:
		if v.step == 1 {
			return fmt.Sprintf("range(%d, %d)", v.start, v.stop)
		}
		return fmt.Sprintf("range(%d, %d, %d)", v.start, v.stop, v.step)
	case *Undefined:
		return "Undefined"
	case *macro:
		if v.syntax.name == "" {
			return "<Macro anonymous>"
		}
		return "<Macro " + quote(v.syntax.name) + ">"
	case *function:
		return "<function " + v.name + ">"
	case *loopState:
		n, err := v.len()
		if err != nil {
			n = 0
		}
		return fmt.Sprintf("<LoopContext %d/%d>", v.index0+1, n)
	}
	return "<" + typeName(v) + " object>"
}

// quote is Python's repr of a string: single quotes unless that would need
// escapes and double quotes would not.
func quote(s string) string {
	mark := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, "\"") {
		mark = '"'
	}
	var sb strings.Builder
	sb.WriteByte(mark)
	for _, r := range s {
		switch {
		case r == rune(mark) || r == '\\':
			sb.WriteByte('\\')
			sb.WriteRune(r)
		case r == '\n':
			sb.WriteString("\\n")
		case r == '\r':
			sb.WriteString("\\r")
		case r == '\t':
			sb.WriteString("\\t")
		case r == ' ' || isPrintable(r):
			sb.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&sb, "\\x%02x", r)
		case r < 0x10000:
			fmt.Fprintf(&sb, "\\u%04x", r)
		default:
			fmt.Fprintf(&sb, "\\U%08x", r)
		}
	}
	sb.WriteByte(mark)
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
