package ollama

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"parley"
	"parley/gateway/exchange"
	"parley/gateway/openai"
)

// A Common is what all requests for an answer have in common.
type Common struct {
	Model string
	// Stream asks for lines as the answer grows. It is on unless a client says otherwise.
	Stream bool
	// KeepAlive is how long the model stays in memory afterwards: 0 unloads it, less
	// than 0 keeps it; nil leaves that to the server.
	KeepAlive *time.Duration
	// Thinks is true if the client asks for thoughts, which some models do not have.
	Thinks bool
	// Idle requests ask for nothing but that the model is loaded or unloaded.
	Idle bool
}

// A Chat is the body of POST /api/chat.
type Chat struct {
	Common
	// Request is nil if the request is idle.
	Request *openai.ChatRequest
}

// A Generate is the body of POST /api/generate: a prompt that the model's template turns
// into a conversation of one turn, or plain text.
type Generate struct {
	Common
	// Request is a conversation, Plain a text to continue or to fill a gap in; one of the
	// two is nil, and both are if the request is idle.
	Request *openai.ChatRequest
	Plain   *openai.CompletionRequest
	// Context are tokens of earlier turns, which stand before the prompt.
	Context []parley.Token
}

// sharedFields are the fields that chat and generate share.
type sharedFields struct {
	Model       string                     `json:"model"`
	Stream      *bool                      `json:"stream"`
	Format      json.RawMessage            `json:"format"`
	Options     map[string]json.RawMessage `json:"options"`
	KeepAlive   json.RawMessage            `json:"keep_alive"`
	Think       json.RawMessage            `json:"think"`
	Logprobs    bool                       `json:"logprobs"`
	TopLogprobs int                        `json:"top_logprobs"`
	Truncate    *bool                      `json:"truncate"`
	Shift       *bool                      `json:"shift"`
}

// A chatMessage is a message as clients send it.
type chatMessage struct {
	Role       string            `json:"role"`
	Content    string            `json:"content"`
	Thinking   string            `json:"thinking"`
	Images     []json.RawMessage `json:"images"`
	ToolCalls  []sentCall        `json:"tool_calls"`
	ToolName   string            `json:"tool_name"`
	ToolCallID string            `json:"tool_call_id"`
}

// A sentCall is a call as clients send it back: its arguments are an object.
type sentCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// ParseChat reads the body of POST /api/chat. An error is always a [parley.Error].
func ParseChat(body []byte) (*Chat, error) {
	var asked struct {
		sharedFields
		Messages []chatMessage     `json:"messages"`
		Tools    []json.RawMessage `json:"tools"`
	}
	if err := exchange.Decode(body, &asked); err != nil {
		return nil, err
	}
	call, fields, err := asked.read()
	if err != nil {
		return nil, err
	}
	chat := &Chat{Common: call}
	if chat.Idle = len(asked.Messages) == 0; chat.Idle {
		return chat, nil
	}
	messages, err := messagesOf(asked.Messages)
	if err != nil {
		return nil, err
	}
	fields["messages"] = messages
	if len(asked.Tools) > 0 {
		fields["tools"] = asked.Tools
	}
	chat.Request, err = parseChat(fields)
	return chat, err
}

// ParseGenerate reads the body of POST /api/generate. An error is always a [parley.Error].
func ParseGenerate(body []byte) (*Generate, error) {
	var asked struct {
		sharedFields
		Prompt   string            `json:"prompt"`
		Suffix   string            `json:"suffix"`
		System   string            `json:"system"`
		Template string            `json:"template"`
		Context  []int64           `json:"context"`
		Raw      bool              `json:"raw"`
		Images   []json.RawMessage `json:"images"`
	}
	if err := exchange.Decode(body, &asked); err != nil {
		return nil, err
	}
	call, fields, err := asked.read()
	g := &Generate{Common: call}
	switch {
	case err != nil:
		return nil, err
	case len(asked.Images) > 0:
		return nil, refusedImages("images")
	case asked.Template != "":
		return nil, parley.Invalid("template",
			"Unsupported 'template': this server renders prompts with the model's own template. Send 'raw': true and "+
				"a prompt that you rendered yourself.")
	case asked.Raw && (asked.System != "" || len(asked.Context) > 0):
		return nil, parley.Invalid("raw", "Invalid 'raw': a raw prompt takes neither 'system' nor 'context'.")
	case asked.Prompt == "" && asked.Suffix == "":
		g.Idle = true
		return g, nil
	}
	if g.Context, err = tokensOf(asked.Context); err != nil {
		return nil, err
	}
	if asked.Raw || asked.Suffix != "" {
		fields["prompt"], fields["suffix"] = asked.Prompt, asked.Suffix
		g.Plain, err = parsePlain(fields, asked.Logprobs, asked.TopLogprobs)
		return g, err
	}
	said := []chatMessage{{Role: "user", Content: asked.Prompt}}
	if asked.System != "" {
		said = append([]chatMessage{{Role: "system", Content: asked.System}}, said...)
	}
	if fields["messages"], err = messagesOf(said); err != nil {
		return nil, err
	}
	g.Request, err = parseChat(fields)
	return g, err
}

func tokensOf(list []int64) (tokens []parley.Token, err error) {
	for _, id := range list {
		if id < 0 || id > math.MaxInt32 {
			return nil, parley.Invalid("context", "Invalid 'context': %d is not a token.", id)
		}
		tokens = append(tokens, parley.Token(id))
	}
	return tokens, nil
}

// read turns the shared fields into those of OpenAI's API.
func (c *sharedFields) read() (call Common, fields map[string]any, err error) {
	call = Common{Model: c.Model, Stream: c.Stream == nil || *c.Stream}
	if call.KeepAlive, err = ParseKeepAlive(c.KeepAlive); err != nil {
		return call, nil, err
	}
	for name, flag := range map[string]*bool{"truncate": c.Truncate, "shift": c.Shift} {
		if flag != nil && *flag {
			return call, nil, parley.Invalid(name, "Unsupported '%s': a prompt that does not fit is refused.", name)
		}
	}
	fields = map[string]any{"model": c.Model}
	if err := apply(c.Options, fields); err != nil {
		return call, nil, err
	}
	if err := readFormat(c.Format, fields); err != nil {
		return call, nil, err
	}
	if call.Thinks, err = readThink(c.Think, fields); err != nil {
		return call, nil, err
	}
	if c.Logprobs {
		fields["logprobs"], fields["top_logprobs"] = true, c.TopLogprobs
	}
	return call, fields, nil
}

// ParseKeepAlive reads a duration: a text such as "5m", or a number of seconds.
func ParseKeepAlive(raw json.RawMessage) (*time.Duration, error) {
	text := strings.Trim(string(raw), `"`)
	if text == "" || text == "null" {
		return nil, nil
	}
	var seconds float64
	if json.Unmarshal([]byte(text), &seconds) == nil && math.Abs(seconds) < 1<<32 {
		return new(time.Duration(seconds * float64(time.Second))), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return nil, parley.Invalid("keep_alive",
			"Invalid 'keep_alive': %s. Expected a time such as \"5m\", or seconds.", shorten(text))
	}
	return &d, nil
}

// readFormat takes "json" or a schema.
func readFormat(raw json.RawMessage, fields map[string]any) error {
	switch text := strings.TrimSpace(string(raw)); {
	case text == "" || text == "null" || text == `""`:
	case text == `"json"`:
		fields["response_format"] = map[string]any{"type": "json_object"}
	case text[0] == '{':
		fields["response_format"] = map[string]any{"type": "json_schema",
			"json_schema": map[string]any{"name": "format", "schema": raw}}
	default:
		return parley.Invalid("format", "Invalid 'format': %s. Expected \"json\" or a JSON schema.", shorten(text))
	}
	return nil
}

// readThink takes whether, or how hard, a model thinks.
func readThink(raw json.RawMessage, fields map[string]any) (thinks bool, err error) {
	arguments := map[string]any{}
	switch text := string(raw); text {
	case "", "null":
		return false, nil
	case "true", "false":
		thinks = text == "true"
	case `"low"`, `"medium"`, `"high"`:
		thinks = true
		arguments["reasoning_effort"] = strings.Trim(text, `"`)
	default:
		return false, parley.Invalid("think",
			"Invalid 'think': %s. Expected true, false, \"low\", \"medium\" or \"high\".", shorten(text))
	}
	arguments["enable_thinking"] = thinks
	fields["chat_template_kwargs"] = arguments
	return thinks, nil
}

func refusedImages(param string) error {
	return parley.Invalid(param, "Unsupported '%s': this model takes text only.", param)
}

// messagesOf turns messages into those of OpenAI's API. There, a result names the call
// that it answers: where a client names the tool or nothing, it is the oldest call without
// a result.
func messagesOf(list []chatMessage) (messages []map[string]any, err error) {
	var open []sentCall
	for i, m := range list {
		if len(m.Images) > 0 {
			return nil, refusedImages(fmt.Sprintf("messages[%d].images", i))
		}
		to := map[string]any{"role": m.Role, "content": m.Content}
		if m.Thinking != "" {
			to["reasoning_content"] = m.Thinking
		}
		if m.Role == "tool" {
			var id string
			if id, open = answered(open, m); id != "" {
				to["tool_call_id"] = id
			}
		}
		var calls []map[string]any
		for j, c := range m.ToolCalls {
			if c.ID == "" {
				c.ID = fmt.Sprintf("call_%d_%d", i, j)
			}
			open = append(open, c)
			calls = append(calls, map[string]any{"id": c.ID, "type": "function",
				"function": map[string]any{"name": c.Function.Name, "arguments": argumentsText(c.Function.Arguments)}})
		}
		if len(calls) > 0 {
			to["tool_calls"] = calls
		}
		messages = append(messages, to)
	}
	return messages, nil
}

// answered returns the id of the call that a result answers, and the calls that are left.
func answered(open []sentCall, m chatMessage) (id string, left []sentCall) {
	for i, c := range open {
		if m.ToolCallID == c.ID || m.ToolCallID == "" && (m.ToolName == "" || m.ToolName == c.Function.Name) {
			return c.ID, append(open[:i:i], open[i+1:]...)
		}
	}
	return m.ToolCallID, open
}

// argumentsText returns arguments as the text of an object.
func argumentsText(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return "{}"
	}
	var text string
	if json.Unmarshal(raw, &text) == nil { // as OpenAI's API has them
		return text
	}
	return string(raw)
}

// parseChat reads the body of a conversation in OpenAI's shape.
func parseChat(fields map[string]any) (*openai.ChatRequest, error) {
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	r, err := openai.ParseChat(body)
	if err != nil {
		return nil, Rename(err)
	}
	r.MaxTokensParam = "" // what does not fit the context is cut, as Ollama does
	return r, nil
}

// parsePlain reads the body of a completion in OpenAI's shape.
func parsePlain(fields map[string]any, logprobs bool, top int) (*openai.CompletionRequest, error) {
	delete(fields, "top_logprobs")
	delete(fields, "chat_template_kwargs")
	format := fields["response_format"]
	delete(fields, "response_format")
	if logprobs {
		fields["logprobs"] = top
	}
	switch f, _ := format.(map[string]any); {
	case f == nil:
	case f["type"] == "json_object":
		fields["guided_json_object"] = true
	default:
		fields["guided_json"] = f["json_schema"].(map[string]any)["schema"]
	}
	_, limited := fields[maxTokensName]
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	r, err := openai.ParseCompletion(body)
	if err != nil {
		return nil, Rename(err)
	}
	if r.MaxTokensParam = ""; !limited {
		r.MaxTokens = math.MaxInt32
	}
	return r, nil
}

// An Embed is the body of POST /api/embed, and of POST /api/embeddings, which is older.
type Embed struct {
	Common
	// Request is nil if the request is idle.
	Request *openai.EmbeddingRequest
	// Truncate cuts inputs that are longer than the context.
	Truncate bool
}

// ParseEmbed reads the body of POST /api/embed. An error is always a [parley.Error].
func ParseEmbed(body []byte) (*Embed, error) { return parseEmbed(body, false) }

// ParseEmbedOne reads the body of POST /api/embeddings. An error is always a [parley.Error].
func ParseEmbedOne(body []byte) (*Embed, error) { return parseEmbed(body, true) }

func parseEmbed(body []byte, older bool) (*Embed, error) {
	var asked struct {
		Model      string                     `json:"model"`
		Input      json.RawMessage            `json:"input"`
		Prompt     string                     `json:"prompt"`
		Truncate   *bool                      `json:"truncate"`
		Dimensions int                        `json:"dimensions"`
		KeepAlive  json.RawMessage            `json:"keep_alive"`
		Options    map[string]json.RawMessage `json:"options"`
	}
	if err := exchange.Decode(body, &asked); err != nil {
		return nil, err
	}
	if err := apply(asked.Options, map[string]any{}); err != nil {
		return nil, err
	}
	keep, err := ParseKeepAlive(asked.KeepAlive)
	if err != nil {
		return nil, err
	}
	e := &Embed{Common: Common{Model: asked.Model, KeepAlive: keep}, Truncate: asked.Truncate == nil || *asked.Truncate}
	fields := map[string]any{"model": asked.Model, "input": asked.Input}
	if older {
		fields["input"] = asked.Prompt
		e.Idle = asked.Prompt == ""
	} else {
		input := strings.Join(strings.Fields(string(asked.Input)), "")
		e.Idle = input == "" || input == `""` || input == "[]" || input == "null"
	}
	if e.Idle {
		return e, nil
	}
	if asked.Dimensions != 0 {
		fields["dimensions"] = asked.Dimensions
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	e.Request, err = openai.ParseEmbedding(raw)
	return e, Rename(err)
}
