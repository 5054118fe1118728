package gateway

import (
	"time"

	"parley"
	"parley/gateway/openai"
	"parley/token"
)

// renderChat turns a conversation into the tokens of its prompt. The template
// makes one text of it, which is then read with special tokens, as the
// reference implementation does: the template's own markers become special
// tokens, and so would markers that a user typed.
func (m *model) renderChat(request *openai.ChatRequest, now time.Time) ([]parley.Token, error) {
	if m.Template == nil {
		return nil, parley.Invalid("model", "The model `%s` has no chat template. Use /v1/completions.", m.ID)
	}
	messages := make([]token.Message, len(request.Messages))
	for i, message := range request.Messages {
		messages[i] = templateMessage(message)
	}
	text, err := m.Template.Render(messages, token.RenderOptions{
		AddGenerationPrompt: request.OpenTurn,
		ContinueFinal:       request.ContinueFinal,
		Kwargs:              request.TemplateArgs,
		Now:                 now,
	})
	if err != nil {
		return nil, err
	}
	return m.encode("messages", text, token.Options{ParseSpecial: true})
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
