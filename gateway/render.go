package gateway

import (
	"time"

	"parley"
	"parley/gateway/openai"
	"parley/token"
)

// renderChat turns a conversation into the tokens of its prompt, and reports
// whether the prompt ends inside thoughts. Control tokens come from the
// template's own text only: a message, a tool or a document that spells one is
// plain text to the model.
func (m *model) renderChat(request *openai.ChatRequest,
	now time.Time) (prompt []parley.Token, thinking bool, err error) {
	if m.Template == nil {
		return nil, false, parley.Invalid("model", "The model `%s` has no chat template. Use /v1/completions.", m.ID)
	}
	messages, tools, err := m.tools.Messages(request)
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
	thinking = m.tools.Thoughts != nil && rendered.EndsWith(m.tools.Thoughts.Open)
	if err := m.checkBytes("messages", len(rendered.String()), request.Sinks); err != nil {
		return nil, false, err
	}
	if prompt, err = m.Tokenizer.EncodePrompt(rendered); err != nil {
		return nil, false, untokenizable("messages", err)
	}
	return prompt, thinking, nil
}
