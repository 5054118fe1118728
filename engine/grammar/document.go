package grammar

import (
	"bytes"
	"encoding/json"
	"net/url"
	"parley/engine/automaton"
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

// schemaBytesMax bounds the text of a schema.
const schemaBytesMax = 256 << 10

// parseDocument reads a schema.
func parseDocument(m *automaton.Meter, raw []byte) *value {
	if len(raw) > schemaBytesMax {
		m.Refuse("the schema has %d bytes, more than %d", len(raw), schemaBytesMax)
	}
	if !json.Valid(raw) {
		m.Refuse("the schema is not valid JSON")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v := (&documentReader{m, d}).value(0)
	m.Bytes += v.bytes()
	return v
}

// isDescription are the keywords of mere description that are often long.
var isDescription = map[string]bool{"title": true, "description": true, "default": true, "examples": true,
	"example": true, "$comment": true}

// bytes is how much a schema says, less what only describes it.
func (v *value) bytes() int {
	sum := len(v.text)
	for i, member := range v.values {
		if v.kind == isObject {
			if isDescription[v.names[i]] {
				continue
			}
			sum += len(v.names[i])
		}
		sum += member.bytes()
	}
	return sum
}

type documentReader struct {
	meter   *automaton.Meter
	decoder *json.Decoder
}

func (r *documentReader) value(depth int) *value {
	if r.meter.Step(1); depth > automaton.NestingMax {
		r.meter.Refuse("the schema is nested more than %d deep", automaton.NestingMax)
	}
	token, err := r.decoder.Token()
	if err != nil {
		r.meter.Refuse("the schema is not valid JSON: %v", err)
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
		a, b := automaton.Decimal(&automaton.Meter{}, v.text), automaton.Decimal(&automaton.Meter{}, w.text)
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
		b.WriteString(`"` + automaton.Quote(v.text) + `"`)
	case isArray, isObject:
		b.WriteByte("[{"[v.kind/isObject])
		for i, member := range v.values {
			if i > 0 {
				b.WriteByte(',')
			}
			if v.kind == isObject {
				b.WriteString(`"` + automaton.Quote(v.names[i]) + `":`)
			}
			member.write(b)
		}
		b.WriteByte("]}"[v.kind/isObject])
	default:
		b.WriteString(v.text)
	}
}

// pointerEscapes are the escapes of a JSON pointer.
var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

// pointer follows a JSON pointer.
func (v *value) pointer(path string) (*value, bool) {
	if path == "" {
		return v, true
	}
	for elem := range strings.SplitSeq(path[1:], "/") {
		elem = pointerEscapes.Replace(elem)
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

// A home is the addresses by which a schema reads its references. Older dialects do not read
// the $id that stands beside a $ref: without it the address is outer.
type home struct{ address, outer *url.URL }

// An addressBook finds the parts of a document that a $ref names.
type addressBook struct {
	// resources are by address, anchors by address and name.
	resources, anchors map[string]*value
	// homes are those of the schemas with a $ref.
	homes map[*value]home
	// dynamic counts the anchors that another of the same name may replace.
	dynamic map[string]int
}

// newAddressBook reads the addresses and anchors of a document.
func newAddressBook(m *automaton.Meter, root *value) *addressBook {
	b := &addressBook{
		resources: map[string]*value{},
		anchors:   map[string]*value{},
		homes:     map[*value]home{},
		dynamic:   map[string]int{},
	}
	b.resources[""] = root
	b.add(m, root, &url.URL{})
	return b
}

// schemasIn says how a keyword holds schemas; any other holds data.
var schemasIn = map[string]int{
	"properties": inMembers, "patternProperties": inMembers, "$defs": inMembers, "definitions": inMembers,
	"dependentSchemas": inMembers, "dependencies": inMembers,
	"items": itself, "additionalItems": itself, "unevaluatedItems": itself, "contains": itself, "prefixItems": itself,
	"additionalProperties": itself, "unevaluatedProperties": itself, "propertyNames": itself, "not": itself,
	"if": itself, "then": itself, "else": itself, "allOf": itself, "anyOf": itself, "oneOf": itself,
}

const (
	itself = iota + 1
	inMembers
)

// add reads a schema, whose address without an $id of its own is outer.
func (b *addressBook) add(m *automaton.Meter, v *value, outer *url.URL) {
	m.Step(1)
	at := outer
	if id := v.text1("$id", "id"); id != "" {
		if u, err := url.Parse(id); err == nil {
			address := outer.ResolveReference(u)
			if u.Fragment != "" {
				b.anchors[address.String()] = v
			} else {
				at = address
				b.resources[address.String()] = v
			}
		}
	}
	for _, name := range []string{"$anchor", "$dynamicAnchor"} {
		if anchor := v.text1(name); anchor != "" {
			b.anchors[at.String()+"#"+anchor] = v
			if name == "$dynamicAnchor" {
				b.dynamic[anchor]++
			}
		}
	}
	if v.get("$recursiveAnchor") != nil {
		b.dynamic[""]++
	}
	if v.get("$ref") != nil || v.get("$dynamicRef") != nil || v.get("$recursiveRef") != nil {
		b.homes[v] = home{at, outer}
	}
	for i, member := range v.values {
		switch {
		case v.kind == isArray || schemasIn[v.names[i]] == itself:
			b.add(m, member, at)
		case schemasIn[v.names[i]] == inMembers && member.kind == isObject:
			for _, schema := range member.values {
				b.add(m, schema, at)
			}
		}
	}
}

// text1 returns the first of the named members that is a string.
func (v *value) text1(names ...string) string {
	for _, name := range names {
		if member := v.get(name); member != nil && member.kind == isString {
			return member.text
		}
	}
	return ""
}

// find returns what a reference in a schema names. It must be the same in all dialects.
func (b *addressBook) find(holder *value, reference string) (*value, bool) {
	u, err := url.Parse(reference)
	if err != nil {
		return nil, false
	}
	h, known := b.homes[holder]
	if !known { // within what looks like data
		h = home{&url.URL{}, &url.URL{}}
	}
	target, found := b.lookup(h.address.ResolveReference(u), reference)
	if h.address != h.outer {
		other, known := b.lookup(h.outer.ResolveReference(u), reference)
		found = found && (!known || other == target)
	}
	return target, found
}

func (b *addressBook) lookup(address *url.URL, reference string) (*value, bool) {
	fragment := address.Fragment
	address.Fragment, address.RawFragment = "", ""
	root, known := b.resources[address.String()]
	if !known {
		return nil, false
	}
	if fragment != "" && fragment[0] != '/' {
		target, known := b.anchors[address.String()+"#"+fragment]
		return target, known
	}
	target, known := root.pointer(fragment)
	if !known && strings.HasPrefix(reference, "#") {
		return b.resources[""].pointer(fragment) // where an id is a mere name, as some tools write it
	}
	return target, known
}
