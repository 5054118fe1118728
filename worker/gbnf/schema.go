package gbnf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"parley"
)

// depthMax bounds how deep schemas nest.
const depthMax = 64

// space may stand between the parts of a JSON value. Space without a bound would let a model write nothing else.
func (w *writer) space() string { return w.shared("ws", `(" " | "\n" [ \t]{0,20})?`) }

// anyString is any JSON string.
func (w *writer) anyString() string {
	w.shared("char", `[^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})`)
	return w.shared("string", `"\"" char* "\""`)
}

func (w *writer) integer() string { return w.shared("integer", `"-"? ("0" | [1-9] [0-9]{0,15})`) }

func (w *writer) number() string {
	return w.shared("number", w.integer()+` ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})?`)
}

// value is any JSON value.
func (w *writer) value() string {
	if _, ok := w.rules["value"]; ok {
		return "value"
	}
	w.shared("value", w.anyString()+" | "+w.number()+` | object | array | "true" | "false" | "null"`)
	s := w.space()
	w.shared("pair", `string `+s+` ":" `+s+` value`)
	w.shared("object", `"{" `+s+` (pair (`+s+` "," `+s+` pair)*)? `+s+` "}"`)
	w.shared("array", `"[" `+s+` (value (`+s+` "," `+s+` value)*)? `+s+` "]"`)
	return "value"
}

func (w *writer) object() string {
	w.value()
	return "object"
}

// A reader translates one schema.
type reader struct {
	*writer
	root   json.RawMessage
	strict bool
	// rules are those of definitions, by reference.
	refs map[string]string
}

func (w *writer) schema(g *parley.Grammar) (string, error) {
	r := &reader{writer: w, root: g.Schema, strict: g.Strict, refs: map[string]string{}}
	return r.schema(g.Schema, 0)
}

// A schema is the part of JSON Schema that is translated.
type schema struct {
	Type                 json.RawMessage   `json:"type"`
	Enum                 []json.RawMessage `json:"enum"`
	Const                json.RawMessage   `json:"const"`
	AnyOf                []json.RawMessage `json:"anyOf"`
	OneOf                []json.RawMessage `json:"oneOf"`
	AllOf                []json.RawMessage `json:"allOf"`
	Ref                  string            `json:"$ref"`
	Properties           json.RawMessage   `json:"properties"`
	Required             []string          `json:"required"`
	AdditionalProperties json.RawMessage   `json:"additionalProperties"`
	Items                json.RawMessage   `json:"items"`
	MinItems             int               `json:"minItems"`
	MaxItems             *int              `json:"maxItems"`
	MinLength            int               `json:"minLength"`
	Pattern              string            `json:"pattern"`
	MaxLength            *int              `json:"maxLength"`
}

// known are the keywords that are translated, or that allow and forbid nothing.
var known = []string{
	"type", "enum", "const", "anyOf", "allOf", "$ref", "properties", "required", "additionalProperties",
	"items", "minItems", "maxItems", "minLength", "maxLength", "pattern", "title", "description",
	"default", "examples", "$schema", "$id", "$defs", "definitions", "$comment", "deprecated", "readOnly",
	"writeOnly",
}

// errPoint is wrapped by what a strict schema is refused for.
var errPoint = errors.New("cannot be enforced by this engine")

func (r *reader) schema(raw json.RawMessage, depth int) (string, error) {
	if depth > depthMax {
		return "", fmt.Errorf("the schema is nested more than %d deep", depthMax)
	}
	switch string(bytes.TrimSpace(raw)) {
	case "", "true", "{}":
		return r.value(), nil
	case "false":
		return "", fmt.Errorf("the schema false allows no value")
	}
	var s schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("the schema is not one: %w", err)
	}
	if err := r.strictly(raw); err != nil {
		return "", err
	}
	switch {
	case s.Ref != "":
		return r.reference(s.Ref, depth)
	case len(s.Const) > 0:
		return constant(s.Const)
	case len(s.Enum) > 0:
		return alternatives(s.Enum, constant)
	case len(s.AnyOf) > 0 || len(s.OneOf) > 0:
		return alternatives(append(s.AnyOf, s.OneOf...), func(one json.RawMessage) (string, error) {
			return r.schema(one, depth+1)
		})
	case len(s.AllOf) == 1 && len(s.Properties) == 0:
		return r.schema(s.AllOf[0], depth+1)
	case len(s.AllOf) > 0 && r.strict:
		return "", fmt.Errorf("allOf of several schemas %w", errPoint)
	}
	return r.typed(&s, depth)
}

// strictly refuses keywords of a strict schema that are not translated.
func (r *reader) strictly(raw json.RawMessage) error {
	if !r.strict {
		return nil
	}
	var all map[string]json.RawMessage
	_ = json.Unmarshal(raw, &all)
	for name := range all {
		if !slices.Contains(known, name) {
			return fmt.Errorf("the keyword %q %w", name, errPoint)
		}
	}
	return nil
}

// alternatives writes a choice.
func alternatives(list []json.RawMessage, write func(json.RawMessage) (string, error)) (string, error) {
	texts := make([]string, len(list))
	for i, one := range list {
		var err error
		if texts[i], err = write(one); err != nil {
			return "", err
		}
	}
	return "(" + strings.Join(texts, " | ") + ")", nil
}

// constant writes one JSON value in its shortest form.
func constant(raw json.RawMessage) (string, error) {
	var b bytes.Buffer
	err := json.Compact(&b, raw)
	return quote(b.String()), err
}

// reference writes the rule of a definition, which may refer to itself.
func (r *reader) reference(ref string, depth int) (string, error) {
	if name, ok := r.refs[ref]; ok {
		return name, nil
	}
	path, local := strings.CutPrefix(ref, "#")
	if !local {
		return "", fmt.Errorf("the reference %q leads out of the schema", ref)
	}
	at := r.root
	for step := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if step == "" {
			continue
		}
		step = strings.NewReplacer("~1", "/", "~0", "~", "%20", " ").Replace(step)
		var members map[string]json.RawMessage
		if json.Unmarshal(at, &members) != nil || members[step] == nil {
			return "", fmt.Errorf("the reference %q leads nowhere", ref)
		}
		at = members[step]
	}
	name := r.reserve()
	r.refs[ref] = name
	body, err := r.schema(at, depth+1)
	if err != nil {
		return "", err
	}
	return name, r.define(name, body)
}

// typed writes a schema of one or more types.
func (r *reader) typed(s *schema, depth int) (string, error) {
	var names []string
	var one string
	switch {
	case json.Unmarshal(s.Type, &one) == nil && one != "":
		names = []string{one}
	case json.Unmarshal(s.Type, &names) == nil && len(names) > 0:
	case len(s.Properties) > 0:
		names = []string{"object"}
	case len(s.Items) > 0:
		names = []string{"array"}
	default:
		return r.value(), nil
	}
	texts := make([]string, len(names))
	for i, name := range names {
		var err error
		if texts[i], err = r.ofType(name, s, depth); err != nil {
			return "", err
		}
	}
	if len(texts) == 1 {
		return texts[0], nil
	}
	return "(" + strings.Join(texts, " | ") + ")", nil
}

func (r *reader) ofType(name string, s *schema, depth int) (string, error) {
	switch name {
	case "string":
		return r.text(s)
	case "integer":
		return r.integer(), nil
	case "number":
		return r.number(), nil
	case "boolean":
		return `("true" | "false")`, nil
	case "null":
		return `"null"`, nil
	case "array":
		return r.list(s, depth)
	case "object":
		return r.members(s, depth)
	}
	return "", fmt.Errorf("%q is not a type of JSON Schema", name)
}

// text writes strings of a pattern, or of a length.
func (r *reader) text(s *schema) (string, error) {
	bounded := s.MinLength > 0 || s.MaxLength != nil
	if s.Pattern != "" {
		text, err := r.pattern(s.Pattern)
		switch {
		case err == nil && !(bounded && r.strict):
			return text, nil
		case r.strict && err != nil:
			return "", err
		case r.strict:
			return "", fmt.Errorf("a pattern beside a length %w", errPoint)
		}
	}
	if !bounded {
		return r.anyString(), nil
	}
	r.anyString()
	most := 0
	if s.MaxLength != nil {
		if most = *s.MaxLength; most == 0 {
			return quote(`""`), nil
		}
	}
	return `"\"" char` + times(s.MinLength, most) + ` "\""`, nil
}

func (r *reader) list(s *schema, depth int) (string, error) {
	item, err := r.schema(s.Items, depth+1)
	if err != nil {
		return "", err
	}
	if s.MaxItems != nil && *s.MaxItems == 0 {
		return `"[" ` + r.space() + ` "]"`, nil
	}
	name, err := r.rule(item)
	if err != nil {
		return "", err
	}
	more := ""
	if s.MaxItems == nil || *s.MaxItems > 1 {
		most := 0
		if s.MaxItems != nil {
			most = *s.MaxItems - 1
		}
		more = " (" + r.space() + ` "," ` + r.space() + " " + name + ")" + times(max(0, s.MinItems-1), most)
	}
	all := name + more
	if s.MinItems == 0 {
		all = "(" + all + ")?"
	}
	return `"[" ` + r.space() + " " + all + " " + r.space() + ` "]"`, nil
}

// A property is one of an object.
type property struct {
	name     string
	rule     string
	required bool
}

// members writes an object. Its properties stand in the order in which the schema has them, and others, if there
// may be any, after them.
func (r *reader) members(s *schema, depth int) (string, error) {
	list, err := r.properties(s, depth)
	if err != nil {
		return "", err
	}
	extra, err := r.others(s, depth)
	if err != nil {
		return "", err
	}
	if len(list) == 0 && extra == r.value() {
		return r.object(), nil
	}
	// later[i] writes what may follow once a property before the i-th was written, first[i] where none was.
	comma := r.space() + ` "," ` + r.space()
	later, first := empty, empty
	if extra != "" {
		pair := r.anyString() + " " + r.space() + ` ":" ` + r.space() + " " + extra
		later = "(" + comma + " " + pair + ")*"
		first = "(" + pair + " " + later + ")?"
	}
	for _, m := range slices.Backward(list) {
		key, _ := json.Marshal(m.name)
		pair := quote(string(key)) + " " + r.space() + ` ":" ` + r.space() + " " + m.rule
		begun, none := pair+" "+later, first
		after := comma + " " + begun
		if m.required {
			if later, err = r.rule(after); err == nil {
				first, err = r.rule(begun)
			}
		} else {
			rest := later
			if later, err = r.rule("(" + after + ") | " + rest); err == nil {
				first, err = r.rule("(" + begun + ") | " + none)
			}
		}
		if err != nil {
			return "", err
		}
	}
	return `"{" ` + r.space() + " " + first + " " + r.space() + ` "}"`, nil
}

// properties returns the properties in the order of the schema.
func (r *reader) properties(s *schema, depth int) (list []property, err error) {
	if len(s.Properties) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(s.Properties))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok {
			return nil, fmt.Errorf("the properties are not an object")
		}
		text, err := r.schema(raw, depth+1)
		if err != nil {
			return nil, err
		}
		rule, err := r.rule(text)
		if err != nil {
			return nil, err
		}
		list = append(list, property{name, rule, slices.Contains(s.Required, name)})
	}
	for _, name := range s.Required {
		if !slices.ContainsFunc(list, func(m property) bool { return m.name == name }) {
			list = append(list, property{name, r.value(), true})
		}
	}
	return list, nil
}

// others returns the rule of the properties that are not listed, "" if there are none.
func (r *reader) others(s *schema, depth int) (string, error) {
	switch string(s.AdditionalProperties) {
	case "false":
		return "", nil
	case "", "true", "{}":
		return r.value(), nil
	}
	text, err := r.schema(s.AdditionalProperties, depth+1)
	if err != nil {
		return "", err
	}
	return r.rule(text)
}
