package openai

import (
	"bytes"
	"encoding/json"
	"regexp"

	"parley"
	"parley/worker/foreign"
)

// choicesMax and choiceBytesMax bound the answers that guided_choice offers.
const (
	choicesMax     = 1000
	choiceBytesMax = 64 << 10
	patternMax     = 4 << 10
)

// formatName is what a schema may be called.
var formatName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// A Format says what the text of an answer must be. The zero value is any text.
type Format struct {
	// Kind names the format in logs: json_object, json_schema, regex or choice;
	// empty for text.
	Kind string
	// Grammar is what holds the answer to it; nil for text.
	Grammar *parley.Grammar
	// Param is the path of the field that says so, which is at fault if the
	// grammar cannot be held.
	Param string
	// Name is the client's name for the schema, if it has one.
	Name string
}

// Refusal is the error for a format that answers cannot be held to.
func (r *Format) Refusal(why string) error {
	switch {
	case r.Name != "":
		return withCode("invalid_json_schema",
			parley.Invalid(r.Param, "Invalid schema for response_format '%s': %s.", r.Name, why))
	case r.Kind == "json_schema":
		return withCode("invalid_json_schema", parley.Invalid(r.Param, "Invalid schema for '%s': %s.", r.Param, why))
	}
	return withCode("invalid_value", parley.Invalid(r.Param, "Invalid '%s': %s.", r.Param, why))
}

// set makes g the format, which may be given only once.
func (r *Format) set(v value, kind string, g parley.Grammar) error {
	if r.Kind != "" {
		return v.invalid("invalid_value", "the answer's form is already given by '%s'. Send one of them.", r.Param)
	}
	*r = Format{Kind: kind, Grammar: &g, Param: v.path()}
	return nil
}

// readResponseFormat takes response_format.
func (r *Format) readResponseFormat(f *fields) {
	f.object("response_format", func(format *fields) {
		kind := ""
		format.oneOf("type", &kind, "text", "json_object", "json_schema")
		switch {
		case format.err != nil:
		case kind == "":
			format.fail(format.missing("type"))
		case kind == "json_object":
			format.fail(r.set(format.at, kind, parley.JSONObject()))
		case kind == "json_schema":
			if _, ok := format.take(kind); !ok {
				format.fail(format.missing(kind))
			}
			format.object(kind, r.readSchema)
		}
	})
}

// readSchema takes a schema with its name. Strict refuses one that cannot be
// held in every point.
func (r *Format) readSchema(f *fields) {
	v, ok := f.take("name")
	if !ok {
		f.fail(f.missing("name"))
		return
	}
	name, strict := "", false
	f.text("name", &name)
	if f.err == nil && !formatName.MatchString(name) {
		f.fail(v.invalid("invalid_value", "'%s'. Expected a name of %s.", shorten(name), toolNamePhrase))
	}
	f.flag("strict", &strict)
	f.with("schema", func(v value) error { return r.setSchema(v, strict) })
	if _, ok := f.take("schema"); !ok && f.err == nil {
		f.fail(r.set(f.at, "json_schema", parley.JSONObject()))
	}
	r.Name = name
}

// readGuided takes what other servers of open models call guided decoding:
// single fields, and the newer object that holds them all.
func (r *Format) readGuided(f *fields) {
	read := func(f *fields, prefix string) {
		f.with(prefix+"json", r.readGuidedJSON)
		f.with(prefix+"regex", r.readGuidedRegex)
		f.with(prefix+"choice", r.readGuidedChoice)
		for _, name := range []string{"grammar", "structural_tag"} {
			f.with(prefix+name, func(v value) error {
				return v.unsupported(
					"this server holds answers to a JSON schema, a regular expression or a list of choices.")
			})
		}
		f.with(prefix+"json_object", func(v value) error {
			wanted, err := v.flag()
			if err != nil || !wanted {
				return err
			}
			return r.set(v, "json_object", parley.JSONObject())
		})
	}
	f.with("json_schema", r.readGuidedJSON)
	f.with("regex", r.readGuidedRegex)
	for _, name := range foreign.FieldNames() {
		f.with(name, func(v value) error {
			if !foreign.FieldAsks(name, string(v.raw)) {
				return nil
			}
			return v.unsupported("this server does not support it: leave it out.")
		})
	}
	read(f, "guided_")
	f.object("structured_outputs", func(inner *fields) { read(inner, "") })
}

func (r *Format) setSchema(v value, strict bool) error {
	if !v.isObject() {
		return v.wrongType("an object")
	}
	return r.set(v, "json_schema", parley.JSONSchema(bytes.Clone(v.raw), strict))
}

// readGuidedJSON takes a schema, also as a string that holds one.
func (r *Format) readGuidedJSON(v value) error {
	raw := v.raw
	if v.isString() {
		raw = []byte(unquote(v.raw))
	}
	if !v.isString() && !v.isObject() || !json.Valid(raw) {
		return v.wrongType("a JSON schema")
	}
	return r.set(v, "json_schema", parley.JSONSchema(bytes.Clone(raw), false))
}

func (r *Format) readGuidedRegex(v value) error {
	pattern, err := v.text()
	switch {
	case err != nil:
		return err
	case pattern == "" || len(pattern) > patternMax:
		return v.invalid("invalid_value", "a pattern of %d bytes. Expected 1 to %d.", len(pattern), patternMax)
	}
	return r.set(v, "regex", parley.Regex(pattern))
}

func (r *Format) readGuidedChoice(v value) error {
	switch {
	case !v.isArray():
		return v.wrongType("an array of strings")
	case v.isEmptyArray():
		return v.invalid("empty_array", "empty array. Expected at least one choice.")
	case len(v.raw) > choiceBytesMax:
		return v.invalid("invalid_value", "more than %d bytes.", choiceBytesMax)
	}
	var literals []parley.Grammar
	for i, element := range v.elements() {
		text, err := element.text()
		switch {
		case err != nil:
			return err
		case text == "":
			return element.invalid("empty_string", "empty string. A choice has at least one character.")
		case i == choicesMax:
			return v.invalid("array_above_max_length", "array too long. Expected an array with maximum length %d.",
				choicesMax)
		}
		literals = append(literals, parley.Literal(text))
	}
	return r.set(v, "choice", parley.Choice(literals...))
}
