package answer

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"parley/gateway/openai"
	"parley/token"
)

// A Tools is what is known of a model's tools.
type Tools struct {
	syntax *toolSyntax
	// native: the template itself describes tools to the model, and writes calls in
	// the syntax. Otherwise the model is told in a plain message.
	native bool
	// writesCalls: the template writes earlier calls and their results, in
	// whatever way. wantsText: it fails on a message without content, and takes
	// one with an empty text.
	writesCalls, wantsText bool
	Thoughts               *thoughtMarks
}

// Readers returns what makes a reader for each choice of the answer to a request, nil
// if all of the answer is text.
func (box *Tools) Readers(r *openai.ChatRequest, thinking bool) func() *Reader {
	syntax, thoughts, onlyCalls := box.syntax, box.Thoughts, r.ToolChoice.Mode == openai.ToolsRequired
	if len(Callable(r)) == 0 {
		syntax = nil
	}
	if syntax == nil && thoughts == nil {
		return nil
	}
	return func() *Reader {
		return newReader(syntax, thoughts, thinking, newCallID).expectCalls(onlyCalls)
	}
}

// newCallID names a call. Only the client has to remember it.
func newCallID() string {
	var b [12]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return "call_" + hex.EncodeToString(b[:])
}

// The tool that is put to a template to see what it makes of it.
const (
	probeName      = "probe_tool"
	probeParameter = "probe_parameter"
	probeValue     = "probe value"
	probeArguments = `{"` + probeParameter + `": "` + probeValue + `"}`
	probeResult    = "probe result"
	probeID        = "abcDEF123"
)

// OpenToolbox finds out how a model calls tools, by having its template write a
// call.
func OpenToolbox(t *token.Tokenizer, template *token.ChatTemplate, now time.Time) Tools {
	box := Tools{syntax: Syntaxes[0]}
	for _, marks := range ThoughtMarkers {
		_, opens := t.ID(marks.Open)
		_, shuts := t.ID(marks.shut)
		if opens && shuts && box.Thoughts == nil {
			box.Thoughts = marks
		}
	}
	if template == nil {
		return box
	}
	tells := tellsOfTools(template, now)
	for _, content := range []any{nil, ""} {
		prompt, err := template.Render([]token.Message{
			{Role: "user", Content: "probe"},
			{Role: "assistant", Content: content,
				ToolCalls: []token.ToolCall{{ID: probeID, Name: probeName, Arguments: probeArguments}}},
			{Role: "tool", Content: probeResult, ToolCallID: probeID, Name: probeName},
		}, token.RenderOptions{Tools: probeTools(), Now: now})
		text := prompt.String()
		if err != nil || !strings.Contains(text, probeResult) || !strings.Contains(text, probeValue) {
			continue
		}
		box.wantsText = content != nil && !box.writesCalls
		box.writesCalls = true
		for _, s := range Syntaxes {
			if tells && s.wrote(text) {
				box.syntax, box.native = s, true
				return box
			}
		}
	}
	return box
}

func probeTools() json.RawMessage {
	return json.RawMessage(
		`[{"type":"function","function":{"name":"` + probeName +
			`","description":"","parameters":{"type":"object","properties":{"` +
			probeParameter + `":{"type":"string","description":""}},"required":["` + probeParameter + `"]}}}]`)
}

// tellsOfTools reports whether a template describes tools to the model.
func tellsOfTools(template *token.ChatTemplate, now time.Time) bool {
	prompt, err := template.Render([]token.Message{{Role: "user", Content: "probe"}},
		token.RenderOptions{Tools: probeTools(), AddGenerationPrompt: true, Now: now})
	return err == nil && strings.Contains(prompt.String(), probeParameter)
}

// wrote reports whether text holds the probe's call in this syntax.
func (s *toolSyntax) wrote(text string) bool {
	anywhere := *s
	anywhere.onlyFirst = false
	r := newReader(&anywhere, nil, false, func() string { return "" })
	r.read(text)
	r.end(false)
	var all CollectedChoice
	for _, p := range r.pieces() {
		all.Add(p)
	}
	for _, c := range all.Calls {
		var arguments map[string]string
		err := json.Unmarshal([]byte(c.Arguments.String()), &arguments)
		if err == nil && c.Name == probeName && arguments[probeParameter] == probeValue {
			return true
		}
	}
	return false
}
