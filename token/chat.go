package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"parley"
	"parley/token/jinja"
)

// A Message is one turn of a conversation as a chat template sees it. Fields left empty do not exist for the
// template, except that every message has a role and a content.
type Message struct {
	Role string
	// Content is a string, a list of parts made with [jinja.FromJSON], or nil for no content, which templates see
	// as None. Like every other field it is data: none of it becomes a control token, except for parts made with
	// [jinja.Own].
	Content jinja.Value
	Name    string
	// ToolCalls are the calls an assistant made.
	ToolCalls []ToolCall
	// ToolCallID says which call a tool message answers.
	ToolCallID       string
	ReasoningContent string
	// Extra holds further keys that only some templates know.
	Extra *jinja.Map
}

// A ToolCall is one call of a function by the model.
type ToolCall struct {
	ID   string
	Name string
	// Arguments is the JSON text of the arguments. Templates get it as a dict, which is what they are written
	// for, and as the text itself if it is not a JSON object.
	Arguments string
}

// RenderOptions say how a conversation is rendered.
type RenderOptions struct {
	// Tools is a JSON list of tool definitions, or empty for none.
	Tools json.RawMessage
	// TextArguments gives templates the arguments of calls as the text of their JSON instead of as a dict.
	TextArguments bool
	// AddGenerationPrompt ends the text where the assistant's answer begins.
	AddGenerationPrompt bool
	// ContinueFinal ends the text inside the last message, which the model then continues. It excludes
	// AddGenerationPrompt.
	ContinueFinal bool
	// Kwargs are further variables, such as enable_thinking.
	Kwargs map[string]any
	// Now is the date for templates that print one.
	Now time.Time
	// Limits bound the work; zero fields mean defaults.
	Limits jinja.Limits
}

// A ChatTemplate turns conversations into the text a model was trained on. It may be used by many goroutines at once.
type ChatTemplate struct {
	Source   string // what was parsed
	template *jinja.Template
	special  *jinja.Map
}

// NewChatTemplate parses a template. Special has the model's special tokens by the names templates use: bos_token,
// eos_token and so on.
func NewChatTemplate(source string, special map[string]string) (*ChatTemplate, error) {
	template, err := jinja.Parse("chat_template", source, jinja.Options{Lenient: true})
	if err != nil {
		return nil, fmt.Errorf("parse the chat template: %w", err)
	}
	tokens := jinja.NewMap()
	for _, name := range slices.Sorted(maps.Keys(special)) {
		tokens.Set(name, jinja.Own(special[name]))
	}
	return &ChatTemplate{Source: source, template: template, special: tokens}, nil
}

// Render writes the conversation as a prompt. A conversation the template refuses is a [parley.InvalidRequest] with
// the template's own message.
func (c *ChatTemplate) Render(messages []Message, opts RenderOptions) (Prompt, error) {
	if opts.ContinueFinal && opts.AddGenerationPrompt {
		return Prompt{}, parley.Invalid("continue_final_message",
			"continue_final_message and add_generation_prompt exclude each other; send one of them")
	}
	vars, err := c.variables(messages, opts)
	if err != nil {
		return Prompt{}, err
	}
	text, err := c.template.RenderText(jinja.Context{Vars: vars, Now: opts.Now, Limits: opts.Limits})
	if err != nil {
		return Prompt{}, renderError(err)
	}
	if opts.ContinueFinal {
		end, err := endOfFinal(text, messages)
		if err != nil {
			return Prompt{}, err
		}
		text = text.Cut(0, end)
	}
	return Prompt{text: text.String(), own: text.Spans()}, nil
}

// reservedNames are variables that Kwargs must not replace.
var reservedNames = []string{"messages", "tools", "add_generation_prompt"}

// variables are what transformers gives a template: tools and documents exist even where there are none.
func (c *ChatTemplate) variables(messages []Message, opts RenderOptions) (*jinja.Map, error) {
	vars := c.special.Copy(len(reservedNames) + 1 + len(opts.Kwargs))
	var names []string
	if len(opts.Kwargs) > 0 {
		names = slices.Sorted(maps.Keys(opts.Kwargs))
	}
	for _, name := range names {
		if slices.Contains(reservedNames, name) {
			return nil, parley.Invalid("chat_template_kwargs",
				"chat_template_kwargs cannot set %q; use the request field of that name", name)
		}
		v, err := jinja.FromGo(opts.Kwargs[name])
		if err != nil {
			return nil, parley.Invalid("chat_template_kwargs", "chat_template_kwargs: %q: %v", name, err)
		}
		vars.Set(name, v)
	}
	if _, ok := vars.Get("documents"); !ok {
		vars.Set("documents", nil)
	}
	tools, err := readTools(opts.Tools)
	if err != nil {
		return nil, err
	}
	list := &jinja.List{Items: make([]jinja.Value, len(messages))}
	for i := range messages {
		list.Items[i] = messages[i].value(opts.TextArguments)
	}
	vars.Set("messages", list)
	vars.Set("tools", tools)
	vars.Set("add_generation_prompt", opts.AddGenerationPrompt)
	return vars, nil
}

func readTools(raw json.RawMessage) (jinja.Value, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	v, err := jinja.FromJSON(raw)
	if err != nil {
		return nil, parley.Invalid("tools", "tools is not valid JSON: %v", err)
	}
	list, ok := v.(*jinja.List)
	if v != nil && !ok {
		return nil, parley.Invalid("tools", "tools must be a list of tool definitions")
	}
	if list == nil || len(list.Items) == 0 {
		return nil, nil
	}
	return list, nil
}

// value is the message as a dict, in the order clients write the keys.
func (m *Message) value(textArguments bool) *jinja.Map {
	v := jinja.NewMap()
	v.Set("role", roleValue(m.Role))
	v.Set("content", m.Content)
	if m.Name != "" {
		v.Set("name", m.Name)
	}
	if m.ReasoningContent != "" {
		v.Set("reasoning_content", m.ReasoningContent)
	}
	if len(m.ToolCalls) > 0 {
		calls := &jinja.List{}
		for _, call := range m.ToolCalls {
			calls.Items = append(calls.Items, call.value(textArguments))
		}
		v.Set("tool_calls", calls)
	}
	if m.ToolCallID != "" {
		v.Set("tool_call_id", m.ToolCallID)
	}
	if m.Extra != nil {
		for _, key := range m.Extra.Keys() {
			extra, _ := m.Extra.Get(key)
			v.Set(key, extra)
		}
	}
	return v
}

// templateRoles are the roles of which templates make control tokens, as in '<|' + role + '|>'. Any other role is
// data.
var templateRoles = []string{"system", "developer", "user", "assistant", "tool", "function"}

func roleValue(role string) jinja.Value {
	if slices.Contains(templateRoles, role) {
		return jinja.Own(role)
	}
	return role
}

func (c ToolCall) value(textArguments bool) *jinja.Map {
	function := jinja.NewMap()
	function.Set("name", c.Name)
	function.Set("arguments", c.Arguments)
	if parsed, err := jinja.FromJSON([]byte(c.Arguments)); err == nil && !textArguments {
		if object, ok := parsed.(*jinja.Map); ok {
			function.Set("arguments", object)
		}
	}
	call := jinja.NewMap()
	if c.ID != "" {
		call.Set("id", c.ID)
	}
	call.Set("type", "function")
	call.Set("function", function)
	return call
}

func renderError(err error) error {
	var failure *jinja.Error
	if !errors.As(err, &failure) {
		return fmt.Errorf("render the chat template: %w", err)
	}
	switch failure.Kind {
	case jinja.Raised:
		return parley.Invalid("messages", "%s", failure.Message)
	case jinja.LimitError:
		return parley.Errorf(parley.TooLarge, "the conversation is too large for the model's chat template: %s",
			failure.Message)
	}
	return parley.Invalid("messages", "the model's chat template cannot render this conversation: %v", failure)
}

// endOfFinal returns where the content of the last message ends. White space at the end of the content is kept only
// if the template kept it.
func endOfFinal(rendered jinja.Text, messages []Message) (int, error) {
	text := rendered.String()
	content, ok := finalText(messages)
	if !ok {
		return 0, parley.Invalid("messages", "continue_final_message needs a last message with text")
	}
	trimmed := strings.TrimSpace(content)
	at := lastData(rendered, trimmed)
	if at < 0 {
		return 0, parley.Invalid("messages",
			"continue_final_message: the chat template does not print the last message as it is, so it cannot be "+
				"continued")
	}
	startsPlain := strings.TrimLeftFunc(content, unicode.IsSpace) == content
	if startsPlain && strings.HasPrefix(text[at:], content) {
		return at + len(content), nil
	}
	return at + len(trimmed), nil
}

// lastData returns where the last occurrence of content begins of which the template wrote nothing itself; -1 without
// any. The template's own text after the content may spell the same.
func lastData(rendered jinja.Text, content string) int {
	text, authored := rendered.String(), authorship{own: rendered.Spans()}
	for end := len(text); ; {
		at := strings.LastIndex(text[:end], content)
		if at < 0 {
			return -1
		}
		if _, data := authored.covers(at, at+len(content)); data {
			return at
		}
		end = at + len(content) - 1
	}
}

// finalText is the content of the last message, or its last text part.
func finalText(messages []Message) (string, bool) {
	if len(messages) == 0 {
		return "", false
	}
	content := messages[len(messages)-1].Content
	if parts, ok := content.(*jinja.List); ok {
		for _, part := range slices.Backward(parts.Items) {
			if object, ok := part.(*jinja.Map); ok {
				if text, ok := object.Get("text"); ok {
					content = text
					break
				}
			}
		}
	}
	text, ok := content.(string)
	return text, ok
}
