package answer

import (
	"encoding/json"
	"time"

	"parley/gateway/dialect"
	"parley/gateway/openai"
	"parley/token"
)

// A Tools is how a model is told of tools and calls them.
type Tools struct{ dialect.Tools }

// OpenToolbox finds out how a model calls tools.
func OpenToolbox(t *token.Tokenizer, template *token.ChatTemplate, now time.Time) Tools {
	return Tools{dialect.Open(t, template, now)}
}

// Readers returns what makes a reader for each choice of the answer to a request, nil if all of the answer is text.
func (box *Tools) Readers(r *openai.ChatRequest, thinking bool) func() *dialect.Reader {
	written, _ := grammarsOf(Callable(r))
	return box.Reader(written, r.ToolChoice.Mode == openai.ToolsRequired, thinking)
}

// Render has a template write the conversation and the tools of a request.
func (box *Tools) Render(template *token.ChatTemplate, request *openai.ChatRequest,
	now time.Time) (token.Prompt, error) {
	c := dialect.ChatInput{
		Messages:      make([]token.Message, len(request.Messages)),
		OpenTurn:      request.OpenTurn,
		ContinueFinal: request.ContinueFinal,
		Kwargs:        request.TemplateArgs,
		Now:           now,
	}
	for i, message := range request.Messages {
		c.Messages[i] = templateMessage(message)
	}
	if request.ToolChoice.Mode != openai.ToolsNone && len(request.Tools) > 0 {
		var err error
		if c.Tools, err = definitions(request.Tools); err != nil {
			return token.Prompt{}, err
		}
	}
	return box.Tools.Render(template, &c)
}

// definitions lists tools as templates know them.
func definitions(tools []openai.Tool) (json.RawMessage, error) {
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	type definition struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	var list []definition
	for _, t := range tools {
		if t.Parameters == nil {
			t.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		list = append(list, definition{"function", function{t.Name, t.Description, t.Parameters}})
	}
	return openai.Encode(list)
}

func templateMessage(message openai.Message) token.Message {
	m := token.Message{
		Role:             message.Role,
		Name:             message.Name,
		ReasoningContent: message.Reasoning,
		ToolCallID:       message.ToolCallID,
	}
	if message.HasContent {
		m.Content = message.Content
	}
	for _, call := range message.ToolCalls {
		m.ToolCalls = append(m.ToolCalls, token.ToolCall(call))
	}
	return m
}
