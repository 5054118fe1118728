package foreign

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"

	"parley"
	"parley/worker/gbnf"
)

// written returns the field that gives an engine a grammar, and its value:
// under the name schema for a JSON schema, regex for an expression where the
// engine takes one, and notation for GBNF.
func written(g *parley.Grammar, schema, regex, notation string) (name string, value any, err error) {
	switch {
	case g.Kind == parley.GrammarSchema:
		return schema, g.Schema, nil
	case g.Kind == parley.GrammarObject:
		return schema, json.RawMessage(`{"type":"object"}`), nil
	case g.Kind == parley.GrammarRegex && regex != "":
		return regex, g.Text, nil
	}
	text, err := gbnf.Write(g)
	if err != nil {
		// The parameter is the one that engines of ours name, so that a grammar without
		// the schemas of tools that are not strict is tried next.
		return notation, nil, parley.Invalid("grammar", "this engine cannot enforce the grammar: %v", err)
	}
	return notation, text, nil
}

// readCall reads a call in the form of the schema that suits the request; there is none if it was cut off.
func readCall(text string) []parley.ToolCall {
	var call struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal([]byte(text), &call) != nil || call.Name == "" {
		return nil
	}
	return []parley.ToolCall{{ID: newCallID(), Name: call.Name, Arguments: string(call.Arguments)}}
}

// newCallID names a call that its engine gave no name.
func newCallID() string {
	var b [12]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return "call_" + hex.EncodeToString(b[:])
}
