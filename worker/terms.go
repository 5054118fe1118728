package worker

import (
	"encoding/json"
	"slices"

	"parley"
)

// suit returns q as an engine of kind k can answer it, or says what of the
// format or the tools it cannot do. An answer that may be any text needs no
// grammar: calls are read from the text.
func suit(q *parley.Request, k Kind) (*parley.Request, error) {
	asked := q.Terms
	if q.Grammar == nil || PromisesOf(k).Grammar == HoldGBNF && (asked == nil || !asked.Free()) {
		return q, nil
	}
	suited := *q
	if asked == nil {
		asked = &parley.Terms{Format: q.Grammar}
	}
	switch {
	case asked.Free():
		suited.Grammar = nil
		return &suited, nil
	case PromisesOf(k).Tools == CallOwn:
		suited.Grammar = asked.Format
	case PromisesOf(k).Tools == CallSchema && asked.CallRequired:
		call, err := callSchema(asked.Tools)
		if err != nil {
			return nil, err
		}
		suited.Grammar = call
	case len(asked.Tools) > 0:
		return nil, refuseTools(asked, k)
	default:
		suited.Grammar = asked.Format
	}
	if g := suited.Grammar; g != nil && (PromisesOf(k).Grammar == HoldNone ||
		g.Kind != parley.GrammarSchema && g.Kind != parley.GrammarObject) {
		return nil, parley.Invalid("response_format", "engines of kind %s do not support this grammar", k)
	}
	return &suited, nil
}

// refuseTools says why tools cannot be called as they were asked for.
func refuseTools(asked *parley.Terms, k Kind) error {
	switch {
	case asked.CallRequired:
		return parley.Invalid("tool_choice",
			"engines of kind %s cannot be made to call a tool: use \"tool_choice\": \"auto\"", k)
	case asked.Format != nil:
		return parley.Invalid("response_format",
			"engines of kind %s cannot enforce a format on answers that may also call tools: leave out one of them", k)
	}
	i := slices.IndexFunc(asked.Tools, func(t parley.ToolFunction) bool { return t.Strict })
	return parley.Invalid("tools",
		"engines of kind %s cannot enforce a schema where the model may call or not: function %q is strict; "+
			"set \"strict\": false, or require a call", k, asked.Tools[i].Name)
}

// callSchema is the grammar of one call of any of the tools as a JSON object:
// {"name": …, "arguments": …}. It is for engines that know schemas alone.
func callSchema(tools []parley.ToolFunction) (*parley.Grammar, error) {
	var calls []any
	for _, t := range tools {
		arguments := t.Parameters
		switch {
		case arguments == nil:
			arguments = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
		case refers(arguments) && t.Strict:
			return nil, parley.Invalid("tools",
				"engines of this kind cannot enforce a schema with \"$ref\" inside a call: function %q is strict",
				t.Name)
		case refers(arguments):
			arguments = json.RawMessage(`{"type":"object"}`)
		}
		calls = append(calls, map[string]any{
			"type":                 "object",
			"properties":           map[string]any{"name": map[string]any{"const": t.Name}, "arguments": arguments},
			"required":             []string{"name", "arguments"},
			"additionalProperties": false,
		})
	}
	schema := any(map[string]any{"anyOf": calls})
	if len(calls) == 1 {
		schema = calls[0]
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		return nil, parley.Invalid("tools", "the tools are not JSON: %v", err)
	}
	g := parley.JSONSchema(raw, false)
	return &g, nil
}

// refers reports whether a schema has references, which are lost when it becomes
// a part of another one.
func refers(schema json.RawMessage) bool {
	var v any
	if json.Unmarshal(schema, &v) != nil {
		return true
	}
	var found func(v any) bool
	found = func(v any) bool {
		switch v := v.(type) {
		case map[string]any:
			for name, inner := range v {
				if name == "$ref" || found(inner) {
					return true
				}
			}
		case []any:
			return slices.ContainsFunc(v, found)
		}
		return false
	}
	return found(v)
}
