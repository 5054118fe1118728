package grammar

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// A value is a part of a parsed schema. Unlike Go's maps it keeps the order of
// an object's members, in which properties are written.
type value struct {
	kind kind
	// text is a string's content or a number as it was written.
	text string
	// names and values are an object's members, values alone an array's.
	names  []string
	values []*value
	index  map[string]int
}

// A kind is a type of JSON value, or, as a bit set, several.
type kind uint8

const (
	isNull kind = 1 << iota
	isBoolean
	isNumber
	isString
	isArray
	isObject
	// isInteger stands in schemas for the numbers without a fraction. Where
	// isNumber is allowed, it is, too.
	isInteger

	isAnything = isNull | isBoolean | isNumber | isString | isArray | isObject | isInteger
)

// kinds are the names of types in a schema.
var kinds = map[string]kind{"null": isNull, "boolean": isBoolean, "number": isNumber | isInteger, "integer": isInteger,
	"string": isString, "array": isArray, "object": isObject}

// parseDocument reads a schema.
func parseDocument(m *meter, raw []byte) *value {
	if len(raw) > schemaBytesMax {
		m.refuse("the schema has %d bytes, more than %d", len(raw), schemaBytesMax)
	}
	if !json.Valid(raw) {
		m.refuse("the schema is not valid JSON")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v := (&documentReader{m, d}).value(0)
	m.bytes += v.bytes()
	return v
}

// bytes is how much a schema says, less what only describes it.
func (v *value) bytes() int {
	sum := len(v.text)
	for i, member := range v.values {
		if v.kind == isObject {
			if isSilent(v.names[i]) {
				continue
			}
			sum += len(v.names[i])
		}
		sum += member.bytes()
	}
	return sum
}

type documentReader struct {
	meter   *meter
	decoder *json.Decoder
}

func (r *documentReader) value(depth int) *value {
	if r.meter.step(1); depth > nestingMax {
		r.meter.refuse("the schema is nested more than %d deep", nestingMax)
	}
	token, err := r.decoder.Token()
	if err != nil {
		r.meter.refuse("the schema is not valid JSON: %v", err)
	}
	switch t := token.(type) {
	case bool:
		return &value{kind: isBoolean, text: strconv.FormatBool(t)}
	case json.Number:
		return &value{kind: isNumber, text: t.String()}
	case string:
		return &value{kind: isString, text: t}
	case json.Delim:
		return r.members(t, depth)
	}
	return &value{kind: isNull, text: "null"}
}

// members reads the inside of an object or an array. Of members of one name
// the last counts.
func (r *documentReader) members(open json.Delim, depth int) *value {
	v := &value{kind: isArray, index: map[string]int{}}
	if open == '{' {
		v.kind = isObject
	}
	for r.decoder.More() {
		if v.kind == isArray {
			v.values = append(v.values, r.value(depth+1))
			continue
		}
		token, _ := r.decoder.Token()
		name, _ := token.(string)
		member := r.value(depth + 1)
		if at, known := v.index[name]; known {
			v.values[at] = member
			continue
		}
		v.index[name] = len(v.names)
		v.names, v.values = append(v.names, name), append(v.values, member)
	}
	_, _ = r.decoder.Token() // the closing bracket: the document is valid
	return v
}

// get returns a member, or nil.
func (v *value) get(name string) *value {
	if at, ok := v.index[name]; ok && v.kind == isObject {
		return v.values[at]
	}
	return nil
}

// is reports whether a value is the boolean b.
func (v *value) is(b bool) bool { return v.kind == isBoolean && v.text == strconv.FormatBool(b) }

// equal reports whether two values are the same JSON value.
func (v *value) equal(w *value) bool {
	switch {
	case v.kind != w.kind || len(v.values) != len(w.values):
		return false
	case v.kind == isNumber:
		a, b := decimal(&meter{}, v.text), decimal(&meter{}, w.text)
		return *a == *b
	case v.kind == isObject:
		for i, name := range v.names {
			if other := w.get(name); other == nil || !v.values[i].equal(other) {
				return false
			}
		}
		return true
	case v.kind == isArray:
		return slices.EqualFunc(v.values, w.values, (*value).equal)
	}
	return v.text == w.text
}

// json returns the value as compact JSON.
func (v *value) json() string {
	var b strings.Builder
	v.write(&b)
	return b.String()
}

func (v *value) write(b *strings.Builder) {
	switch v.kind {
	case isString:
		b.WriteString(`"` + quote(v.text) + `"`)
	case isArray, isObject:
		b.WriteByte("[{"[v.kind/isObject])
		for i, member := range v.values {
			if i > 0 {
				b.WriteByte(',')
			}
			if v.kind == isObject {
				b.WriteString(`"` + quote(v.names[i]) + `":`)
			}
			member.write(b)
		}
		b.WriteByte("]}"[v.kind/isObject])
	default:
		b.WriteString(v.text)
	}
}

// pointer finds the value that a $ref within the document names.
func (v *value) pointer(ref string) (*value, bool) {
	rest, ok := strings.CutPrefix(ref, "#")
	if !ok || rest != "" && rest[0] != '/' {
		return nil, false
	}
	if rest == "" {
		return v, true
	}
	for elem := range strings.SplitSeq(rest[1:], "/") {
		elem = strings.NewReplacer("~1", "/", "~0", "~", "%25", "%").Replace(elem)
		if v.kind == isArray {
			at, err := strconv.Atoi(elem)
			if err != nil || at < 0 || at >= len(v.values) {
				return nil, false
			}
			v = v.values[at]
		} else if v = v.get(elem); v == nil {
			return nil, false
		}
	}
	return v, true
}
