package openai

import (
	"encoding/json"
	"regexp/syntax"
	"slices"

	"parley/gateway/lark"
)

// A CustomTool is what makes a tool one that takes a text instead of arguments. To the model it is a function with one
// argument, called input.
type CustomTool struct {
	// Schema is that of the arguments, with what the text is held to; Tool.Parameters has what the model is shown.
	Schema json.RawMessage
	// Format repeats what the client asked for.
	Format json.RawMessage
}

// customParameters is what a model is shown of the arguments of a custom tool.
const customParameters = `{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],` +
	`"additionalProperties":false}`

// CustomArguments returns the arguments of a call of a custom tool with an input.
func CustomArguments(input string) string {
	arguments, _ := Encode(struct { // a string can always be written
		Input string `json:"input"`
	}{input})
	return string(arguments)
}

// Held returns the schema that arguments of the tool are held to.
func (t *Tool) Held() json.RawMessage {
	if t.Custom != nil {
		return t.Custom.Schema
	}
	return t.Parameters
}

// readCustom takes a custom tool. Flat says that the members of a grammar stand beside the type of the format.
func (t *Tool) readCustom(f *fields, flat bool) {
	f.toolName(&t.Name)
	f.text("description", &t.Description)
	t.Parameters, t.Param = json.RawMessage(customParameters), f.at.path()
	t.Custom = &CustomTool{Schema: t.Parameters, Format: json.RawMessage(`{"type":"text"}`)}
	f.with("format", func(v value) error {
		inner := v.fields()
		kind := ""
		inner.need("type", &kind)
		inner.oneOf("type", &kind, "text", "grammar")
		t.Custom.Format = slices.Clone(v.raw)
		switch {
		case kind != "grammar" || inner.err != nil:
		case flat:
			t.readGrammar(inner)
		default:
			inner.needed("grammar")
			inner.object("grammar", t.readGrammar)
		}
		return inner.err
	})
}

// readGrammar takes what the input of a custom tool has to match.
func (t *Tool) readGrammar(f *fields) {
	language, definition := "", ""
	f.needed("syntax")
	f.oneOf("syntax", &language, "lark", "regex")
	f.need("definition", &definition)
	v, ok := f.take("definition")
	if !ok {
		return
	}
	expression, err := definition, error(nil)
	if language == "lark" {
		expression, err = lark.Regexp(definition)
	} else {
		_, err = syntax.Parse(definition, syntax.Perl)
	}
	if err != nil {
		f.fail(v.invalid("invalid_grammar", "the grammar cannot be used: %v.", err))
		return
	}
	pattern, err := Encode("^(?:" + expression + ")$")
	f.fail(err)
	t.Strict, t.Param = true, v.path()
	t.Custom.Schema = json.RawMessage(`{"type":"object","properties":{"input":{"type":"string","pattern":` +
		string(pattern) + `}},"required":["input"],"additionalProperties":false}`)
	name := map[string]string{"lark": "Lark grammar", "regex": "regular expression"}[language]
	if t.Description != "" {
		t.Description += "\n\n"
	}
	t.Description += "The input is a text that matches this " + name + ":\n" + definition
}
