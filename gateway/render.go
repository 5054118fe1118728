package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"time"

	"parley"
	"parley/gateway/openai"
	"parley/token"
)

// renderChat turns a conversation into the tokens of its prompt, and reports
// whether the prompt ends inside thoughts. Control tokens come from the
// template's own text only: a message, a tool or a document that spells one is
// plain text to the model.
func (m *model) renderChat(request *openai.ChatRequest, now time.Time) (prompt []parley.Token, thinking bool, err error) {
	if m.Template == nil {
		return nil, false, parley.Invalid("model", "The model `%s` has no chat template. Use /v1/completions.", m.ID)
	}
	messages, tools, err := m.tools.messages(request)
	if err != nil {
		return nil, false, err
	}
	rendered, err := m.Template.Render(messages, token.RenderOptions{
		Tools:               tools,
		AddGenerationPrompt: request.OpenTurn,
		ContinueFinal:       request.ContinueFinal,
		Kwargs:              request.TemplateArgs,
		Now:                 now,
	})
	if err != nil {
		return nil, false, err
	}
	thinking = m.tools.thoughts != nil && rendered.EndsWith(m.tools.thoughts.open)
	if err := m.checkBytes("messages", len(rendered.String()), request.Sinks); err != nil {
		return nil, false, err
	}
	if prompt, err = m.Tokenizer.EncodePrompt(rendered); err != nil {
		return nil, false, untokenizable("messages", err)
	}
	return prompt, thinking, nil
}

// messages returns a conversation as the template takes it, with the tools the
// model is told of. A template that knows no tools gets both in plain messages.
func (box *toolbox) messages(request *openai.ChatRequest) ([]token.Message, json.RawMessage, error) {
	var tools json.RawMessage
	if request.ToolChoice.Mode != openai.ToolsNone && len(request.Tools) > 0 {
		var err error
		if tools, err = definitions(request.Tools); err != nil {
			return nil, nil, err
		}
	}
	if !box.native && (tools != nil || !box.writesCalls) {
		return box.plainMessages(request.Messages, tools), nil, nil
	}
	messages := make([]token.Message, len(request.Messages))
	for i, message := range request.Messages {
		if box.wantsText {
			message.HasContent = true
		}
		messages[i] = templateMessage(message)
		if box.syntax.shortIDs {
			shortenIDs(&messages[i])
		}
	}
	return messages, tools, nil
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

// shortenIDs gives the calls of a message ids of nine letters and digits, which
// is all that some templates take. The same id always becomes the same.
func shortenIDs(m *token.Message) {
	m.ToolCallID = shortID(m.ToolCallID)
	for i := range m.ToolCalls {
		m.ToolCalls[i].ID = shortID(m.ToolCalls[i].ID)
	}
}

var nineCharacters = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

func shortID(id string) string {
	if id == "" || nineCharacters.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])[:9]
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
