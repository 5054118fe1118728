package openai

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"parley"
)

const (
	// stopSequencesMax bounds stop_sequences, which the interface does not.
	stopSequencesMax = stopStringsMax
	// blocksMax bounds the blocks of one message.
	blocksMax  = 10_000
	retainHour = time.Hour
)

// A MessagesRequest is the body of POST /v1/messages, of the Anthropic
// interface, turned into a chat.
type MessagesRequest struct {
	ChatRequest
	// CacheAt is how many of the messages the client marked as worth keeping in
	// memory: those up to its last cache_control, 0 if there is none.
	CacheAt int
}

// ParseMessages reads the body of POST /v1/messages. An error is always a
// [parley.Error] that names the field at fault.
func ParseMessages(body []byte) (*MessagesRequest, error) { return parseMessages(body, true) }

// ParseCountTokens reads the body of POST /v1/messages/count_tokens, which is
// the same but for what concerns the answer.
func ParseCountTokens(body []byte) (*MessagesRequest, error) { return parseMessages(body, false) }

func parseMessages(body []byte, answered bool) (*MessagesRequest, error) {
	doc, err := document(body)
	if err != nil {
		return nil, err
	}
	f := doc.fields()
	r := &MessagesRequest{ChatRequest: ChatRequest{OpenTurn: true,
		Generation: Generation{Choices: 1, Sampling: parley.Sampling{Temperature: 1, TopP: 1}}}}
	f.text("model", &r.Model)
	if _, ok := f.take("max_tokens"); !ok && answered {
		f.fail(f.missing("max_tokens"))
	}
	f.integer("max_tokens", 1, tokensMax, &r.MaxTokens)
	r.MaxTokensParam, r.CutToFit = "max_tokens", true
	r.readAnthropicSampling(f)
	f.with("system", r.readSystem)
	f.with("messages", r.readTurns)
	if _, ok := f.take("messages"); !ok {
		f.fail(f.missing("messages"))
	}
	f.with("tools", r.readAnthropicTools)
	r.readAnthropicChoice(f)
	f.object("output_config", func(c *fields) { c.object("format", r.readOutputFormat) })
	f.flag("stream", &r.Stream)
	f.object("metadata", func(m *fields) {
		user := ""
		m.text("user_id", &user)
		r.readSession(user)
	})
	if f.err != nil {
		return nil, f.err
	}
	return r, nil
}

// readOutputFormat takes a schema that the answer must match.
func (r *MessagesRequest) readOutputFormat(f *fields) {
	kind := ""
	f.oneOf("type", &kind, "json_schema")
	f.needed("schema")
	f.with("schema", func(v value) error { return r.Format.setSchema(v, true) })
}

func (r *MessagesRequest) readAnthropicSampling(f *fields) {
	s := &r.Sampling
	f.decimal("temperature", 0, 1, &s.Temperature)
	f.decimal("top_p", 0, 1, &s.TopP)
	s.TopP = max(s.TopP, topPNothing)
	f.integer("top_k", 0, tokensMax, &s.TopK)
	f.with("stop_sequences", func(v value) error {
		if !v.isArray() {
			return v.wrongType("an array of strings")
		}
		for i, element := range v.elements() {
			if i == stopSequencesMax {
				return v.invalid("array_above_max_length", "array too long. Expected an array with maximum length %d.",
					stopSequencesMax)
			}
			if err := r.addStop(element); err != nil {
				return err
			}
		}
		return nil
	})
	thinking, budget := "disabled", 0
	f.object("thinking", func(t *fields) {
		t.oneOf("type", &thinking, "enabled", "disabled", "adaptive")
		t.integer("budget_tokens", 1, tokensMax, &budget)
	})
	if r.setTemplateArg("enable_thinking", thinking != "disabled"); thinking == "enabled" && budget > 0 {
		r.setTemplateArg("thinking_budget", budget)
	}
}

// readSystem takes the system prompt: a text, or blocks of it.
func (r *MessagesRequest) readSystem(v value) error {
	text, err := r.readTexts(v, "a system prompt")
	if err == nil && text != "" {
		r.Messages = append(r.Messages, Message{Role: "system", Content: text, HasContent: true})
		r.keepSoFar()
	}
	return err
}

// readTexts joins a text, or blocks of nothing but text, and keeps what their
// cache_control says for [MessagesRequest.keepSoFar].
func (r *MessagesRequest) readTexts(v value, where string) (string, error) {
	if v.isString() {
		return unquote(v.raw), nil
	}
	if !v.isArray() {
		return "", v.wrongType("a string or an array of blocks")
	}
	var texts []string
	for _, element := range v.elements() {
		f := element.fields()
		kind, text := "", ""
		f.text("type", &kind)
		if f.err == nil && kind != "text" {
			stand, ok := standIn(element)
			if !ok || where != "the result of a tool" {
				return "", refuseBlock(&element, kind, where)
			}
			texts = append(texts, stand)
			continue
		}
		f.text("text", &text)
		r.readCacheControl(f)
		if f.err != nil {
			return "", f.err
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n"), nil
}

// refuseBlock is the error for a block that cannot stand where it does.
func refuseBlock(v *value, kind, where string) error {
	switch kind {
	case "image", "document", "search_result", "container_upload":
		return v.invalid("unsupported_content_type", "a block of type '%s'. This model takes text only.", kind)
	case "":
		return v.invalid("missing_required_parameter", "a block without a type.")
	}
	return v.invalid("invalid_value", "a block of type '%s' cannot stand in %s.", shorten(kind), where)
}

// readCacheControl takes the hint that the prompt up to here is sent again.
func (r *MessagesRequest) readCacheControl(f *fields) {
	f.object("cache_control", func(c *fields) {
		kind, life := "", "5m"
		c.oneOf("type", &kind, "ephemeral")
		c.oneOf("ttl", &life, "5m", "1h")
		if kind == "" {
			c.fail(c.missing("type"))
		}
		r.CacheAt = -1 // to be settled once the message is known
		r.Retain = max(r.Retain, retainDefault)
		if life == "1h" {
			r.Retain = max(r.Retain, retainHour)
		}
	})
}

// keepSoFar settles where the latest cache_control stands: at the last message.
func (r *MessagesRequest) keepSoFar() {
	if r.CacheAt < 0 {
		r.CacheAt = len(r.Messages)
	}
}

func (r *MessagesRequest) readTurns(v value) error {
	if !v.isArray() {
		return v.wrongType("an array of objects")
	}
	settled := r.CacheAt
	turns := 0
	for _, element := range v.elements() {
		turns++
		if err := r.readTurn(element); err != nil {
			return err
		}
		if r.CacheAt < 0 {
			r.keepSoFar()
			settled = r.CacheAt
		}
		r.CacheAt = settled
	}
	if turns == 0 {
		return v.invalid("empty_array", "empty array. Expected at least one message.")
	}
	if last := &r.Messages[len(r.Messages)-1]; last.Role == "assistant" && len(last.ToolCalls) == 0 {
		r.ContinueFinal, r.OpenTurn = true, false // the answer continues it
	}
	return nil
}

func (r *MessagesRequest) readTurn(v value) error {
	f := v.fields()
	role := ""
	f.oneOf("role", &role, "user", "assistant", "system")
	if role == "" {
		f.fail(f.missing("role"))
	}
	content, ok := f.take("content")
	if !ok {
		f.fail(f.missing("content"))
	}
	switch {
	case f.err != nil:
		return f.err
	case content.isString():
		r.say(role, unquote(content.raw))
		return nil
	case !content.isArray():
		return content.wrongType("a string or an array of blocks")
	case content.isEmptyArray():
		return content.invalid("empty_array", "empty array. Expected at least one block.")
	}
	if role == "assistant" {
		return r.readAssistant(content)
	}
	for i, block := range content.elements() {
		if i == blocksMax {
			return content.invalid("array_above_max_length", "array too long. Expected at most %d blocks.", blocksMax)
		}
		if err := r.readUserBlock(block, role); err != nil {
			return err
		}
	}
	return nil
}

// say adds a text to what was said last in the same role, or as a new message:
// the interface joins turns that follow each other.
func (r *MessagesRequest) say(role, text string) {
	if n := len(r.Messages); n > 0 && role == "user" {
		if last := &r.Messages[n-1]; last.Role == role {
			last.Content += "\n" + text
			return
		}
	}
	r.Messages = append(r.Messages, Message{Role: role, Content: text, HasContent: true})
}

func (r *MessagesRequest) readUserBlock(v value, role string) error {
	f := v.fields()
	kind, text := "", ""
	f.text("type", &kind)
	switch {
	case f.err != nil:
	case kind == "text":
		f.text("text", &text)
		r.readCacheControl(f)
		if f.err == nil {
			r.say(role, text)
		}
	case kind == "tool_result" && role == "user":
		r.readToolResult(f)
	default:
		return refuseBlock(&v, kind, "a message of the role '"+role+"'")
	}
	return f.err
}

func (r *MessagesRequest) readToolResult(f *fields) {
	m := Message{Role: "tool", HasContent: true}
	f.text("tool_use_id", &m.ToolCallID)
	if m.ToolCallID == "" {
		f.fail(f.missing("tool_use_id"))
	}
	failed := false
	f.flag("is_error", &failed)
	f.with("content", func(v value) (err error) {
		m.Content, err = r.readTexts(v, "the result of a tool")
		return err
	})
	if failed {
		m.Content = "Error: " + m.Content
	}
	r.readCacheControl(f)
	if f.err == nil {
		r.Messages = append(r.Messages, m)
	}
}

// readAssistant takes a message of the assistant: thoughts, texts and calls.
func (r *MessagesRequest) readAssistant(content value) error {
	m := Message{Role: "assistant"}
	var texts []string
	for i, v := range content.elements() {
		if i == blocksMax {
			return content.invalid("array_above_max_length", "array too long. Expected at most %d blocks.", blocksMax)
		}
		f := v.fields()
		kind, text := "", ""
		f.text("type", &kind)
		switch kind {
		case "text":
			f.text("text", &text)
			texts = append(texts, text)
		case "thinking":
			f.text("thinking", &m.Reasoning)
		case "redacted_thinking":
		case "tool_use":
			m.ToolCalls = append(m.ToolCalls, readToolUse(f))
		default:
			f.fail(refuseBlock(&v, kind, "a message of the role 'assistant'"))
		}
		r.readCacheControl(f)
		if f.err != nil {
			return f.err
		}
	}
	m.Content, m.HasContent = strings.Join(texts, "\n"), len(texts) > 0 || len(m.ToolCalls) == 0
	r.Messages = append(r.Messages, m)
	return nil
}

func readToolUse(f *fields) ToolCall {
	call := ToolCall{Arguments: "{}"}
	f.text("id", &call.ID)
	f.toolName(&call.Name)
	if call.ID == "" {
		f.fail(f.missing("id"))
	}
	f.with("input", func(v value) error {
		if !v.isObject() {
			return v.wrongType("an object")
		}
		call.Arguments = string(v.raw)
		return nil
	})
	return call
}

func (r *MessagesRequest) readAnthropicTools(v value) error {
	switch {
	case !v.isArray():
		return v.wrongType("an array of objects")
	case len(v.raw) > toolBytesMax:
		return v.invalid("invalid_value", "more than %d bytes.", toolBytesMax)
	}
	for i, element := range v.elements() {
		if i == toolsMax {
			return v.invalid("array_above_max_length", "array too long. Expected an array with maximum length %d.",
				toolsMax)
		}
		t, err := r.readAnthropicTool(element)
		if err != nil {
			return err
		}
		if r.tool(t.Name) {
			return element.invalid("invalid_value", "there are two tools called '%s'.", t.Name)
		}
		r.Tools = append(r.Tools, t)
	}
	if r.CacheAt < 0 { // the tools stand at the beginning, with the system prompt
		r.CacheAt = min(1, len(r.Messages))
	}
	return nil
}

func (r *MessagesRequest) readAnthropicTool(v value) (t Tool, err error) {
	f := v.fields()
	kind := "custom"
	f.text("type", &kind)
	if kind != "custom" {
		return t, v.invalid("invalid_value",
			"a tool of type '%s'. This server has no tools of its own: describe yours with 'input_schema'.",
			shorten(kind))
	}
	f.toolName(&t.Name)
	f.text("description", &t.Description)
	f.flag("strict", &t.Strict)
	settled := r.CacheAt
	r.readCacheControl(f)
	if settled > 0 {
		r.CacheAt = settled // a later one counts
	}
	f.with("input_schema", func(v value) error {
		if !v.isObject() {
			return v.wrongType("an object")
		}
		t.Parameters, t.Param = json.RawMessage(bytes.Clone(v.raw)), v.path()
		return nil
	})
	if t.Parameters == nil {
		f.fail(f.missing("input_schema"))
	}
	return t, f.err
}

func (r *MessagesRequest) readAnthropicChoice(f *fields) {
	r.ToolChoice.Mode = ToolsNone
	if len(r.Tools) > 0 {
		r.ToolChoice.Mode = ToolsAuto
	}
	choice, given := f.take("tool_choice")
	if !given {
		return
	}
	c := choice.fields()
	kind, name, single := "", "", false
	c.oneOf("type", &kind, "auto", "any", "tool", "none")
	c.flag("disable_parallel_tool_use", &single)
	r.ToolChoice.Single = single
	switch {
	case c.err != nil:
	case kind == "":
		c.fail(c.missing("type"))
	case kind == "none":
		r.ToolChoice.Mode = ToolsNone
	case len(r.Tools) == 0:
		c.fail(choice.invalid("invalid_value", "'tool_choice' is only allowed when 'tools' are given."))
	case kind == "any":
		r.ToolChoice.Mode = ToolsRequired
	case kind == "tool":
		c.toolName(&name)
		if c.err == nil && !r.tool(name) {
			c.fail(choice.invalid("invalid_value", "there is no tool called '%s'.", name))
		}
		r.ToolChoice = ToolChoice{Mode: ToolsRequired, Allowed: []string{name}, Single: true}
	}
	f.fail(c.err)
}
