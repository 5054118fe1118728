package openai

import (
	"slices"
	"strings"
)

// kwargsBytesMax bounds chat_template_kwargs, the only part of a body that is
// decoded into a tree.
const kwargsBytesMax = 64 << 10

// A ChatRequest is the body of POST /v1/chat/completions, and what the bodies
// of all other conversations are turned into.
type ChatRequest struct {
	Generation
	// Messages has at least one entry.
	Messages []Message
	// ContinueFinal asks to continue the last message, which is then the
	// assistant's, instead of opening a new turn.
	ContinueFinal bool
	// OpenTurn is false if the client asked for a prompt that does not end
	// with the opening of the assistant's turn.
	OpenTurn bool
	// PromptOnly asks that the prompt is computed, for the cache, and nothing is said.
	PromptOnly bool
	// Progress asks to be told how far the prompt is, before the first token.
	Progress bool
	// TemplateArgs are further variables for the chat template.
	TemplateArgs map[string]any
	// Tools are the functions that the model is told of, ToolChoice which of them
	// it calls.
	Tools      []Tool
	ToolChoice ToolChoice
}

// A Message is one turn of a conversation.
type Message struct {
	// Role is system, user, assistant, tool or function; the newer name
	// developer was already read as system.
	Role string
	// Content is the text. HasContent is false if the client sent null, as
	// assistants do who only call tools.
	Content    string
	HasContent bool
	// Name is the speaker's name, if one was given.
	Name string
	// Reasoning is what the assistant thought before it spoke.
	Reasoning string
	// ToolCalls are the calls an assistant made, ToolCallID the call that a
	// tool answers.
	ToolCalls  []ToolCall
	ToolCallID string
}

// A ToolCall is one call an assistant made in an earlier turn. Arguments is
// the JSON text the model wrote, which need not be valid.
type ToolCall struct {
	ID, Name, Arguments string
}

// ParseChat reads the body of a chat completion. An error is always a
// [parley.Error] that names the field at fault.
func ParseChat(body []byte) (*ChatRequest, error) {
	doc, err := document(body)
	if err != nil {
		return nil, err
	}
	f := doc.fields()
	r := &ChatRequest{Generation: readGeneration(f), OpenTurn: true}
	r.readMessages(f)
	r.readMaxTokens(f)
	r.readLogprobs(f)
	r.readProgress(f)
	r.readTemplateArgs(f)
	r.Format.readResponseFormat(f)
	r.readTools(f)
	refuseMedia(f)
	r.Application = f.metadata("metadata")["application"]
	f.with("echo", refuseUnless("false"))
	f.with("best_of", refuseUnless("1"))
	f.with("add_special_tokens", refuseUnless("false"))
	if f.err != nil {
		return nil, f.err
	}
	return r, nil
}

func (r *ChatRequest) readMaxTokens(f *fields) {
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		if _, ok := f.take(name); ok {
			f.integer(name, 1, tokensMax, &r.MaxTokens)
			r.MaxTokensParam, r.CutToFit = name, name == "max_completion_tokens"
		}
	}
}

func (r *ChatRequest) readLogprobs(f *fields) {
	f.flag("logprobs", &r.Logprobs)
	f.integer("top_logprobs", 0, 20, &r.TopLogprobs)
	if v, ok := f.take("top_logprobs"); ok && !r.Logprobs {
		f.fail(v.invalid("invalid_value", "'logprobs' must be true when 'top_logprobs' is given."))
	}
}

func (r *ChatRequest) readTemplateArgs(f *fields) {
	f.with("chat_template_kwargs", func(v value) error {
		switch {
		case !v.isObject():
			return v.wrongType("an object")
		case len(v.raw) > kwargsBytesMax:
			return v.invalid("invalid_value", "more than %d bytes.", kwargsBytesMax)
		}
		r.TemplateArgs, _ = v.free().(map[string]any)
		return nil
	})
	effort := ""
	f.oneOf("reasoning_effort", &effort, "none", "minimal", "low", "medium", "high", "xhigh", "max")
	if effort != "" {
		r.setTemplateArg("reasoning_effort", effort)
	}
	f.flag("add_generation_prompt", &r.OpenTurn)
	f.with("continue_final_message", r.readContinueFinal)
}

func (r *ChatRequest) setTemplateArg(name string, v any) {
	if r.TemplateArgs == nil {
		r.TemplateArgs = make(map[string]any)
	}
	if _, given := r.TemplateArgs[name]; !given {
		r.TemplateArgs[name] = v
	}
}

func (r *ChatRequest) readContinueFinal(v value) error {
	var err error
	if r.ContinueFinal, err = v.flag(); err != nil || !r.ContinueFinal {
		return err
	}
	if r.Messages[len(r.Messages)-1].Role != "assistant" {
		return v.invalid("invalid_value", "the last message must have the role 'assistant'.")
	}
	r.OpenTurn = false
	return nil
}

func (r *ChatRequest) readMessages(f *fields) {
	list, ok := f.take("messages")
	switch {
	case !ok:
		f.fail(f.missing("messages"))
		return
	case !list.isArray():
		f.fail(list.wrongType("an array of objects"))
		return
	}
	for _, v := range list.elements() {
		m, err := readMessage(v)
		if err != nil {
			f.fail(err)
			return
		}
		r.Messages = append(r.Messages, m)
	}
	if len(r.Messages) == 0 {
		f.fail(list.invalid("empty_array",
			"empty array. Expected an array with minimum length 1, but got an empty array instead."))
	}
}

func readMessage(v value) (Message, error) {
	f := v.fields()
	var m Message
	if _, ok := f.take("role"); !ok {
		f.fail(f.missing("role"))
	}
	f.oneOf("role", &m.Role, "system", "developer", "user", "assistant", "tool", "function")
	if m.Role == "developer" {
		m.Role = "system"
	}
	f.text("name", &m.Name)
	f.text("tool_call_id", &m.ToolCallID)
	f.text("reasoning", &m.Reasoning)
	f.text("reasoning_content", &m.Reasoning)
	f.with("content", m.readContent)
	f.with("refusal", m.readRefusal)
	f.with("tool_calls", m.readToolCalls)
	f.object("function_call", func(call *fields) { m.addCall("", call) })
	if !m.HasContent && len(m.ToolCalls) == 0 {
		f.fail(f.missing("content"))
	}
	if m.Role == "function" && m.Name == "" {
		f.fail(f.missing("name"))
	}
	return m, f.err
}

// readContent takes a string, or a list of parts whose texts are joined by
// line breaks, as other servers of open models do.
func (m *Message) readContent(v value) error {
	if v.isString() {
		m.Content, m.HasContent = unquote(v.raw), true
		return nil
	}
	if !v.isArray() {
		return v.wrongType("a string or an array of parts")
	}
	var texts []string
	for _, part := range v.elements() {
		text, err := readPart(part)
		if stand, ok := standIn(part); ok && (m.Role == "tool" || m.Role == "function") {
			text, err = stand, nil
		}
		if err != nil {
			return err
		}
		texts = append(texts, text)
	}
	m.HasContent = len(texts) > 0 // an empty list is how some clients spell null
	m.Content = strings.Join(texts, "\n")
	return nil
}

// readRefusal takes a refusal as it stands in answers, in the place of a content of null.
func (m *Message) readRefusal(v value) error {
	switch {
	case !v.isString():
		return v.wrongType("a string")
	case m.Role == "assistant" && !m.HasContent:
		m.Content, m.HasContent = unquote(v.raw), true
	}
	return nil
}

var mediaKinds = []string{"image", "document", "search_result", "image_url", "input_image", "input_audio", "audio_url",
	"video_url", "file", "input_file"}

// standIn returns the text that stands for a part of a tool's result that is not text. To refuse it would end the
// session, as it stays in the conversation.
func standIn(v value) (string, bool) {
	kind := ""
	v.fields().text("type", &kind)
	return "[" + kind + ": left out, as this model reads text only]", slices.Contains(mediaKinds, kind)
}

func readPart(v value) (string, error) {
	f := v.fields()
	kind, text := "", ""
	f.text("type", &kind)
	name := ""
	switch kind {
	case "text", "input_text", "output_text":
		name = "text"
	case "refusal":
		name = "refusal"
	case "":
		f.fail(f.missing("type"))
	case "image_url", "input_image", "input_audio", "audio_url", "video_url", "file", "input_file":
		f.fail(v.invalid("unsupported_content_type", "a part of type '%s'. This model takes text only.", kind))
	default:
		f.fail(v.invalid("invalid_value",
			"a part of type '%s'. Supported values are: 'text'. This model takes text only.", shorten(kind)))
	}
	if _, ok := f.take(name); !ok {
		f.fail(f.missing(name))
	}
	f.text(name, &text)
	return text, f.err
}

func (m *Message) readToolCalls(v value) error {
	if !v.isArray() {
		return v.wrongType("an array of objects")
	}
	for _, element := range v.elements() {
		f := element.fields()
		id := ""
		f.text("id", &id)
		if _, ok := f.take("custom"); ok {
			f.object("custom", func(call *fields) { m.readCustomCall(id, call) })
		} else {
			f.needed("function")
			f.object("function", func(call *fields) { m.addCall(id, call) })
		}
		if f.err != nil {
			return f.err
		}
	}
	return nil
}

func (m *Message) addCall(id string, f *fields) {
	call := ToolCall{ID: id}
	for _, name := range []string{"name", "arguments"} {
		if _, ok := f.take(name); !ok {
			f.fail(f.missing(name))
		}
	}
	f.text("name", &call.Name)
	f.text("arguments", &call.Arguments)
	m.ToolCalls = append(m.ToolCalls, call)
}

// readCustomCall takes an earlier call of a custom tool.
func (m *Message) readCustomCall(id string, f *fields) {
	call, input := ToolCall{ID: id}, ""
	f.need("name", &call.Name)
	f.need("input", &input)
	call.Arguments = CustomArguments(input)
	m.ToolCalls = append(m.ToolCalls, call)
}

// refuseMedia rejects answers that are not text.
func refuseMedia(f *fields) {
	f.with("modalities", func(v value) error {
		if !v.isArray() {
			return v.wrongType("an array of strings")
		}
		for _, element := range v.elements() {
			if s, err := element.text(); err != nil || s != "text" {
				return element.unsupported("this model writes text only.")
			}
		}
		return nil
	})
	for _, name := range []string{"audio", "web_search_options"} {
		f.with(name, func(v value) error { return v.unsupported("this model writes text only.") })
	}
}

func (r *ChatRequest) readProgress(f *fields) { f.flag("return_progress", &r.Progress) }
