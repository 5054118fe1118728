package screening

import (
	"encoding/json"
	"maps"
	"slices"

	"parley/gateway/openai"
	"parley/gateway/safety"
)

// originOf returns where the text of a message with this role comes from.
func originOf(role string) safety.Origin {
	switch role {
	case "system", "developer":
		return safety.FromSystem
	case "assistant":
		return safety.FromAssistant
	case "tool", "function":
		return safety.FromTool
	}
	return safety.FromUser
}

// screenParts are the texts of a prompt.
type screenParts []screenPart

// add lists a text that is replaced in place.
func (p *screenParts) add(text *string, origin safety.Origin, index int) {
	if *text != "" {
		*p = append(*p, screenPart{text: text, origin: origin, index: index})
	}
}

// addCode lists a text that programs read as well as models do, such as the name of
// a tool: what has a form is looked for in it, names of people and places are not.
// "Bash" is a tool, not a person.
func (p *screenParts) addCode(text *string, origin safety.Origin, index int) {
	if *text != "" {
		*p = append(*p, screenPart{text: text, origin: origin, index: index, code: true})
	}
}

// addTool lists what is said of a tool. Its parameters are judged as JSON text.
func (p *screenParts) addTool(t *openai.Tool, index int) {
	p.addCode(&t.Name, safety.FromDefinition, index)
	p.addCode(&t.Description, safety.FromDefinition, index)
	if parameters := string(t.Parameters); parameters != "" {
		set := func(text string) {
			if t.Parameters = nil; json.Valid([]byte(text)) {
				t.Parameters = json.RawMessage(text)
			}
		}
		*p = append(*p, screenPart{
			text:   &parameters,
			origin: safety.FromDefinition,
			index:  index,
			set:    set,
			code:   true,
		})
	}
}

// addArguments lists the texts among a template's arguments, such as documents,
// which are judged like what a search brought.
func (p *screenParts) addArguments(args map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(args)) {
		p.addValue(args[name], func(v any) { args[name] = v })
	}
}

func (p *screenParts) addValue(v any, set func(any)) {
	switch v := v.(type) {
	case string:
		*p = append(*p, screenPart{text: &v, origin: safety.FromTool, set: func(text string) { set(text) }})
	case []any:
		for i := range v {
			p.addValue(v[i], func(changed any) { v[i] = changed })
		}
	case map[string]any:
		p.addArguments(v)
	}
}

// A screenPart is a text of a prompt that is judged, and may be replaced.
type screenPart struct {
	text   *string
	origin safety.Origin
	index  int
	// set takes the text that replaces it, where that is not *text.
	set func(string)
	// code is read by programs, too.
	code bool
}
