package gateway

import (
	"errors"
	"strings"
	"time"

	"parley"
	"parley/gateway/openai"
	"parley/token"
	"parley/token/jinja"
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
		Kwargs:              request.TemplateArgs,
		Now:                 now,
	})
	if err == nil && request.ContinueFinal {
		text, err = cutAfter(text, request.Messages[len(request.Messages)-1].Content)
	}
	if err != nil {
		return nil, templateError(err)
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

// templateError is the error for a conversation that the template does not
// take. Templates say what they want in their own words, which are passed on.
func templateError(err error) error {
	reason := err.Error()
	if e, ok := errors.AsType[*jinja.Error](err); ok && e.Kind == jinja.Raised {
		reason = e.Message
	}
	return parley.Invalid("messages", "Invalid 'messages': the model's chat template does not take this conversation: %s", reason)
}

// cutAfter ends a rendered conversation with its last message, so that the
// model goes on with it. Templates trim messages: the space at the end of
// content stays only if the template left it there.
func cutAfter(text, content string) (string, error) {
	core := strings.TrimSpace(content)
	start := strings.LastIndex(text, core)
	if core == "" || start < 0 {
		return "", errors.New("it does not show the last message, which continue_final_message wants continued")
	}
	end := start + len(core)
	if tail := content[strings.LastIndex(content, core)+len(core):]; strings.HasPrefix(text[end:], tail) {
		end += len(tail)
	}
	return text[:end], nil
}
