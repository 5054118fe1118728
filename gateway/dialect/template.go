package dialect

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/token"
)

// A Tools is what is known of how a model is told of tools and calls them.
type Tools struct {
	*Syntax
	// Thoughts are the marks of thoughts; nil if the model marks none.
	Thoughts *Thoughts
	// describes: the template describes tools to the model. writes: it writes earlier calls in the dialect, whatever
	// their arguments are, and their results. Otherwise plain messages do.
	describes, writes bool
	// results: the template writes results of calls, whether or not it writes the calls. somehow: it writes both, in a
	// way that is not in the table; that is good enough for earlier calls if no tools are described.
	results, somehow bool
	messageShape
}

// A messageShape is how a template wants messages.
type messageShape struct {
	// text: a message without content has an empty one. textArguments: arguments are the text of their JSON.
	// functions: tools are given as a text under the name functions. preambleFirst: tools are
	// described in the first message, whatever its role, as the template takes no system message.
	text, textArguments, functions, preambleFirst bool
}

// Reader makes a reader for one choice of an answer; nil if all of the answer is text. The tools are those that the
// model may call, onlyCalls says that the answer is nothing but calls, thinking that the prompt ends inside thoughts.
func (t *Tools) Reader(tools []Tool, onlyCalls, thinking bool) func() *Reader {
	if len(tools) == 0 {
		tools = nil
	}
	if tools == nil && t.Thoughts == nil && t.isPlain() {
		return nil
	}
	return func() *Reader {
		return newReader(t.Syntax, tools, t.Thoughts, thinking, newCallID).expectCalls(onlyCalls)
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
	probeQuestion  = "probe question"
	probeName      = "probe_tool"
	probeParameter = "probe_parameter"
	probeValue     = "probe value"
	probeArguments = `{"` + probeParameter + `": "` + probeValue + `"}`
	probeSchema    = `{"type":"object","properties":{"` + probeParameter + `":{"type":"string","description":""}},` +
		`"required":["` + probeParameter + `"]}`
	probeTools = `[{"type":"function","function":{"name":"` + probeName + `","description":"","parameters":` +
		probeSchema + `}}]`
	probeResult = "probe result"
	probeID     = "abcDEF123"
)

// A prober has a template render conversations.
type prober struct {
	template *token.ChatTemplate
	now      time.Time
}

// Open finds out how a model calls tools, by having its template write a call.
func Open(t *token.Tokenizer, template *token.ChatTemplate, now time.Time) Tools {
	tools := Tools{Syntax: Table[0]}
	if template != nil {
		p := prober{template, now}
		tools.probe(t, p)
		tools.preambleFirst = !p.takesSystem(tools.messageShape)
	}
	own := tools.Syntax.thoughts
	for _, marks := range append([]*Thoughts{own}, Thinking...) {
		if tools.Thoughts == nil && marks != nil && (marks == own && tools.writes || hasMarks(t, marks)) {
			tools.Thoughts = marks
		}
	}
	return tools
}

func hasMarks(t *token.Tokenizer, marks *Thoughts) bool {
	_, opens := t.ID(marks.Open)
	_, shuts := t.ID(marks.shut)
	return opens && shuts
}

// probe tries the shapes in which a template may want messages.
func (t *Tools) probe(vocabulary *token.Tokenizer, p prober) {
	unknown := messageShape{text: true}
	for i := range 4 {
		t.messageShape = messageShape{textArguments: i&1 > 0, functions: i&2 > 0}
		told := p.render(t.messageShape, false)
		t.describes = strings.Contains(told, probeParameter)
		for _, t.text = range []bool{false, true} {
			rendered := p.render(t.messageShape, true)
			_, said, _ := strings.Cut(rendered, probeQuestion)
			t.results = t.results || strings.Contains(said, probeResult)
			if found := writtenIn(said); len(found) > 0 && strings.Contains(said, probeResult) {
				t.text = t.text || p.saysNone(t.messageShape)
				t.Syntax, t.writes = found[0], false
				for _, d := range found {
					if !t.writes && p.writesAny(t.messageShape, d) {
						t.Syntax, t.writes = d, true
					}
				}
				t.text = t.text || !t.writes
				return
			}
			if !t.somehow && strings.Contains(said, probeResult) && strings.Contains(said, probeValue) {
				t.somehow, unknown = true, t.messageShape
			}
		}
		if t.describes {
			if d := t.toldIn(vocabulary, told); d != nil {
				t.Syntax, t.text = d, true
				return
			}
		}
	}
	t.messageShape, t.describes = unknown, false
}

// render returns a conversation in the given shape, with a call and its result if wanted; empty if the template
// refuses it.
func (p prober) render(s messageShape, call bool) string {
	if !call {
		return p.renderCalls(s, probeSchema)
	}
	return p.renderCalls(s, probeSchema, probeArguments)
}

// renderCalls returns a conversation in which a tool with a schema is called with each of the arguments.
func (p prober) renderCalls(s messageShape, schema string, arguments ...string) string {
	messages := []token.Message{{Role: "user", Content: probeQuestion}}
	if len(arguments) > 0 {
		said := token.Message{Role: "assistant"}
		if s.text {
			said.Content = ""
		}
		messages = append(messages, said)
	}
	for i, text := range arguments {
		id := probeID[:len(probeID)-1] + strconv.Itoa(i)
		messages[1].ToolCalls = append(messages[1].ToolCalls, token.ToolCall{ID: id, Name: probeName, Arguments: text})
		messages = append(messages, token.Message{Role: "tool", Content: probeResult, ToolCallID: id, Name: probeName})
	}
	options := s.options(json.RawMessage(strings.Replace(probeTools, probeSchema, schema, 1)), nil, p.now)
	options.AddGenerationPrompt = len(arguments) == 0
	prompt, err := p.template.Render(messages, options)
	if err != nil {
		return ""
	}
	return prompt.String()
}

// What templates that write calls badly get wrong: quotes, values that are not texts, a second member, a second call.
const (
	hardSchema = `{"type":"object","properties":{"` + probeParameter + `":{"type":"string","description":""},` +
		`"n":{"type":"integer","description":""},"list":{"type":"array","description":"","items":{"type":"string"}}},` +
		`"required":["` + probeParameter + `"]}`
	hardArguments = `{"` + probeParameter + `": "a \"b\" <c>\nd", "n": 3, "list": ["e"]}`
)

// writesAny reports whether a template writes calls in dialect d, whatever their arguments are: what it writes is read
// back as it was.
func (p prober) writesAny(s messageShape, d *Syntax) bool {
	calls := []string{hardArguments, probeArguments}
	if d.single {
		calls = calls[:1]
	}
	_, said, _ := strings.Cut(p.renderCalls(s, hardSchema, calls...), probeQuestion)
	read := callsIn(said, d, hardSchema)
	return slices.EqualFunc(read, calls, func(got, want string) bool {
		var a, b any
		return json.Unmarshal([]byte(got), &a) == nil && json.Unmarshal([]byte(want), &b) == nil &&
			reflect.DeepEqual(a, b)
	})
}

// takesSystem reports whether a template takes a system message.
func (p prober) takesSystem(s messageShape) bool {
	messages := []token.Message{{Role: "system", Content: probeResult}, {Role: "user", Content: probeQuestion}}
	prompt, err := p.template.Render(messages, s.options(nil, nil, p.now))
	return err == nil && strings.Contains(prompt.String(), probeResult)
}

// options are what a template is given beside messages.
func (s messageShape) options(tools json.RawMessage, kwargs map[string]any, now time.Time) token.RenderOptions {
	if !s.functions {
		return token.RenderOptions{Tools: tools, TextArguments: s.textArguments, Kwargs: kwargs, Now: now}
	}
	text := "[]"
	if tools != nil {
		text = string(tools)
	}
	given := map[string]any{"functions": text, "datetime": now.Format("2006-01-02")}
	maps.Copy(given, kwargs)
	return token.RenderOptions{TextArguments: s.textArguments, Kwargs: given, Now: now}
}

// saysNone reports whether a template prints the content of a message that has none.
func (p prober) saysNone(s messageShape) bool {
	count := func(s messageShape) int {
		text := p.render(s, true)
		return strings.Count(text, "None") + strings.Count(text, "null")
	}
	empty := s
	empty.text = true
	return count(s) > count(empty)
}

// toldIn finds the dialect of a template that describes tools and writes no calls: by a mark that the prompt or the
// vocabulary has.
func (t *Tools) toldIn(vocabulary *token.Tokenizer, prompt string) *Syntax {
	if !t.results {
		return nil
	}
	for _, d := range Table {
		if d.told == "" {
			continue
		}
		if _, ok := vocabulary.ID(d.told); ok || strings.Contains(prompt, d.told) {
			return d
		}
	}
	return nil
}

// writtenIn finds the dialects in which a text holds the probe's call.
func writtenIn(text string) (found []*Syntax) {
	for _, d := range Table {
		var read map[string]string
		calls := callsIn(text, d, probeSchema)
		if len(calls) > 0 && json.Unmarshal([]byte(calls[0]), &read) == nil && read[probeParameter] == probeValue {
			found = append(found, d)
		}
	}
	return found
}

// callsIn returns the arguments of the calls of the probe's tool that a text holds in a dialect.
func callsIn(text string, d *Syntax, schema string) (calls []string) {
	tool := Tool{Name: probeName, Schema: json.RawMessage(schema)}
	r := newReader(d.anywhere(), []Tool{tool}, d.thoughts, false, func() string { return "" })
	r.Read(text)
	r.End(false)
	for _, p := range r.Parts() {
		if p.Call == nil {
			continue
		}
		if p.Call.Name == probeName {
			calls = append(calls, "")
		}
		if len(calls) > 0 {
			calls[len(calls)-1] += p.Call.Arguments
		}
	}
	return calls
}
