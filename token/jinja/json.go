package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jsonDepthMax bounds the nesting of JSON that is read; Python's own reader
// stops near it too.
const jsonDepthMax = 500

// FromJSON reads one JSON value. Objects keep the order of their keys and
// numbers keep the difference between 1 and 1.0, because both show in what a
// template prints.
func FromJSON(data []byte) (Value, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := readJSON(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("data after the JSON value at byte %d", dec.InputOffset())
	}
	return v, nil
}

func readJSON(dec *json.Decoder, depth int) (Value, error) {
	if depth > jsonDepthMax {
		return nil, fmt.Errorf("JSON nests more than %d levels at byte %d", jsonDepthMax, dec.InputOffset())
	}
	t, err := dec.Token()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("JSON ends early at byte %d: %w", dec.InputOffset(), io.ErrUnexpectedEOF)
	}
	if err != nil {
		return nil, fmt.Errorf("JSON is invalid at byte %d: %w", dec.InputOffset(), err)
	}
	switch t := t.(type) {
	case json.Number:
		return readNumber(t.String())
	case json.Delim:
		if t == '[' {
			return readJSONList(dec, depth)
		}
		return readJSONMap(dec, depth)
	}
	return t, nil
}

func readNumber(text string) (Value, error) {
	if n, err := strconv.Atoi(text); err == nil {
		return n, nil
	}
	if !strings.ContainsAny(text, ".eE") {
		if n, ok := new(big.Int).SetString(text, 10); ok && n.BitLen() <= intBitsMax {
			return n, nil
		}
		return nil, fmt.Errorf("a JSON integer of %d digits is too long", len(text))
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return nil, fmt.Errorf("bad JSON number %q: %w", text, err)
	}
	return f, nil
}

func readJSONList(dec *json.Decoder, depth int) (Value, error) {
	list := &List{}
	for dec.More() {
		item, err := readJSON(dec, depth+1)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, item)
	}
	return list, endJSON(dec)
}

func readJSONMap(dec *json.Decoder, depth int) (Value, error) {
	m := NewMap()
	for dec.More() {
		key, err := readJSON(dec, depth+1)
		if err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok {
			return nil, fmt.Errorf("a JSON object has a key that is not a string at byte %d", dec.InputOffset())
		}
		v, err := readJSON(dec, depth+1)
		if err != nil {
			return nil, err
		}
		m.Set(name, v)
	}
	return m, endJSON(dec)
}

func endJSON(dec *json.Decoder) error {
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("JSON is invalid at byte %d: %w", dec.InputOffset(), err)
	}
	return nil
}

// jsonStyle is how Python's json.dumps was asked to write.
type jsonStyle struct {
	ascii    bool
	sortKeys bool
	indent   string
	pretty   bool
	itemSep  string
	keySep   string
}

func (in *interp) toJSON(v Value, style jsonStyle) (string, error) {
	w := &jsonWriter{reprWriter: reprWriter{in: in}, style: style}
	if err := w.write(v, 0); err != nil {
		return "", err
	}
	return w.text.String(), nil
}

type jsonWriter struct {
	reprWriter
	style jsonStyle
}

func (w *jsonWriter) write(v Value, depth int) error {
	if depth > valueDepthMax {
		return limitErrorf("a value written as JSON nests more than %d levels", valueDepthMax)
	}
	if err := w.in.work(1); err != nil {
		return err
	}
	switch v := v.(type) {
	case *List:
		return w.writeArray(v.Items, depth)
	case *Tuple:
		return w.writeArray(v.Items, depth)
	case *Map:
		return w.writeObject(v, depth)
	case *generator:
		if w.in.template.options.Lenient {
			items, err := w.in.collect(v)
			if err != nil {
				return err
			}
			return w.writeArray(items, depth)
		}
	case string:
		return w.put(w.quoted(v))
	case *Text:
		return w.put(w.quoted(v.text))
	}
	text, ok := jsonScalar(v)
	if !ok {
		return typeErrorf("Object of type %s is not JSON serializable", typeName(v))
	}
	return w.put(text)
}

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
		switch text := formatFloat(v); text {
		case "nan":
			return "NaN", true
		case "inf":
			return "Infinity", true
		case "-inf":
			return "-Infinity", true
		default:
			return text, true
		}
	}
	return "", false
}

// newline starts a line in the pretty style.
func (w *jsonWriter) newline(depth int) error {
	if !w.style.pretty {
		return nil
	}
	if err := w.in.timesString(len(w.style.indent), depth); err != nil {
		return err
	}
	return w.put("\n" + strings.Repeat(w.style.indent, depth))
}

func (w *jsonWriter) writeArray(items []Value, depth int) error {
	if len(items) == 0 {
		return w.put("[]")
	}
	sep := "["
	for _, item := range items {
		if err := w.put(sep); err != nil {
			return err
		}
		if err := w.newline(depth + 1); err != nil {
			return err
		}
		if err := w.write(item, depth+1); err != nil {
			return err
		}
		sep = w.style.itemSep
	}
	if err := w.newline(depth); err != nil {
		return err
	}
	return w.put("]")
}

func (w *jsonWriter) writeObject(m *Map, depth int) error {
	if m.Len() == 0 {
		return w.put("{}")
	}
	places, err := w.places(m)
	if err != nil {
		return err
	}
	sep := "{"
	for _, place := range places {
		if err := w.put(sep); err != nil {
			return err
		}
		if err := w.newline(depth + 1); err != nil {
			return err
		}
		if err := w.writeKey(m.keys[place.(int)]); err != nil {
			return err
		}
		if err := w.write(m.vals[place.(int)], depth+1); err != nil {
			return err
		}
		sep = w.style.itemSep
	}
	if err := w.newline(depth); err != nil {
		return err
	}
	return w.put("}")
}

// places returns the order in which the keys are written.
func (w *jsonWriter) places(m *Map) ([]Value, error) {
	if err := w.in.allocItems(m.Len()); err != nil {
		return nil, err
	}
	places := make([]Value, m.Len())
	for i := range places {
		places[i] = i
	}
	if !w.style.sortKeys {
		return places, nil
	}
	return w.in.sortBy(places, m.keys, false)
}

func (w *jsonWriter) writeKey(key Value) error {
	text, ok := asStr(key)
	if !ok {
		if text, ok = jsonScalar(key); !ok {
			return typeErrorf("keys must be str, int, float, bool or None, not %s", typeName(key))
		}
	}
	if err := w.put(w.quoted(text)); err != nil {
		return err
	}
	return w.put(w.style.keySep)
}

func (w *jsonWriter) quoted(s string) string {
	if isPlainJSON(s) {
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

func isPlainJSON(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
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
	case r < ' ' || (w.style.ascii && r > '~' && r < 0x10000):
		fmt.Fprintf(sb, "\\u%04x", r)
	case w.style.ascii && r >= 0x10000:
		r -= 0x10000
		fmt.Fprintf(sb, "\\u%04x\\u%04x", 0xd800+(r>>10), 0xdc00+(r&0x3ff))
	default:
		sb.WriteRune(r)
	}
}
