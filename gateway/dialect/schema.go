package dialect

import (
	"encoding/json"
	"slices"
	"strings"
)

// A schema is what the definition of a tool says of its arguments, as far as it matters to how they are written. A nil
// schema says nothing.
type schema struct {
	raw      map[string]json.RawMessage
	Type     any                        `json:"type"`
	Members  map[string]json.RawMessage `json:"properties"`
	Required []string                   `json:"required"`
	Items    json.RawMessage            `json:"items"`
	Enum     []any                      `json:"enum"`
	// strict: all of it must be held.
	strict bool
}

func parseSchema(raw json.RawMessage) *schema {
	s := &schema{}
	if len(raw) == 0 || json.Unmarshal(raw, s) != nil || json.Unmarshal(raw, &s.raw) != nil {
		return nil
	}
	return s
}

// member returns the schema of a member; nil if it is unknown.
func (s *schema) member(name string) *schema {
	if s == nil {
		return nil
	}
	return parseSchema(s.Members[name])
}

// inner returns the schema of an element of a list or of a member.
func (s *schema) inner(name string) *schema {
	if s != nil && name == "item" && s.Items != nil {
		return parseSchema(s.Items)
	}
	return s.member(name)
}

// annotations are keywords that say nothing about which values are valid.
var annotations = []string{"description", "title", "default", "examples", "$comment", "deprecated", "readOnly",
	"writeOnly", "$schema", "$id"}

// isText reports whether the value is any string, or one of several strings: then it is written as it is.
func (s *schema) isText() bool {
	if s == nil || s.Type != "string" && s.Enum == nil {
		return false
	}
	for keyword := range s.raw {
		if keyword != "type" && keyword != "enum" && !slices.Contains(annotations, keyword) {
			return false
		}
	}
	return !slices.ContainsFunc(s.Enum, func(v any) bool { _, ok := v.(string); return !ok })
}

// value returns the JSON of a value: as the text says, or as a string where it has to be one or is nothing else.
func (s *schema) value(text string) string {
	trimmed := strings.TrimSpace(text)
	if s.isText() || s != nil && s.Type == "string" && !(strings.HasPrefix(trimmed, `"`) && json.Valid([]byte(trimmed))) {
		return quote(text)
	}
	if json.Valid([]byte(trimmed)) {
		return trimmed
	}
	if value, ok := readLiteral(trimmed, ""); ok {
		return value
	}
	return quote(text)
}

// isMembersOnly reports whether the schema says nothing but which members there are and what they are.
func (s *schema) isMembersOnly() bool {
	if s == nil || s.Type != "object" {
		return false
	}
	known := append([]string{"type", "properties", "required", "additionalProperties", "$defs", "definitions"},
		annotations...)
	for keyword := range s.raw {
		if !slices.Contains(known, keyword) {
			return false
		}
	}
	return !slices.ContainsFunc(s.Required, func(name string) bool { return s.Members[name] == nil })
}

// names lists the members in the order of the schema.
func (s *schema) names() (names []string) {
	decoder := json.NewDecoder(strings.NewReader(string(s.raw["properties"])))
	if _, err := decoder.Token(); err != nil {
		return nil
	}
	for decoder.More() {
		name, err := decoder.Token()
		var value json.RawMessage
		if err != nil || decoder.Decode(&value) != nil {
			return nil
		}
		names = append(names, name.(string))
	}
	return names
}

// alone returns the schema of a member so that it can stand by itself: with the definitions it may refer to.
func (s *schema) alone(name string) json.RawMessage {
	member := parseSchema(s.Members[name])
	if member == nil {
		return s.Members[name]
	}
	for _, keyword := range []string{"$defs", "definitions"} {
		if defs, ok := s.raw[keyword]; ok && member.raw[keyword] == nil {
			member.raw[keyword] = defs
		}
	}
	whole, err := json.Marshal(member.raw)
	if err != nil {
		return s.Members[name]
	}
	return whole
}
