package models

import (
	"time"

	"parley"
	"parley/gateway/openai"
	"parley/token"
)

// Render turns a conversation into the tokens of its prompt, and reports
// whether the prompt ends inside thoughts. Control tokens come from the
// template's own text only: a message, a tool or a document that spells one is
// plain text to the model.
func (m *Model) Render(request *openai.ChatRequest) (prompt []parley.Token, thinking bool, err error) {
	return m.renderAt(request, m.now())
}

// RenderText turns a conversation into the text of its prompt.
func (m *Model) RenderText(request *openai.ChatRequest) (string, error) {
	rendered, err := m.template(request, m.now())
	return rendered.String(), err
}

// template has the chat template render a conversation.
func (m *Model) template(request *openai.ChatRequest, now time.Time) (rendered token.Prompt, err error) {
	if m.Template == nil {
		return rendered, parley.Invalid("model", "The model `%s` has no chat template. Use /v1/completions.", m.ID)
	}
	return m.Tools.Render(m.Template, request, now)
}

// renderAt renders as at a time, which templates may show.
func (m *Model) renderAt(
	request *openai.ChatRequest, now time.Time,
) (prompt []parley.Token, thinking bool, err error) {
	rendered, err := m.template(request, now)
	if err != nil {
		return nil, false, err
	}
	thinking = m.Tools.Thoughts != nil && rendered.EndsWith(m.Tools.Thoughts.Open)
	if err := m.checkText("messages", rendered.String(), request.Sinks); err != nil {
		return nil, false, err
	}
	if prompt, err = m.Tokenizer.EncodePrompt(rendered); err != nil {
		return nil, false, untokenizable("messages", err)
	}
	return prompt, thinking, nil
}

// PublicTokens returns how many leading tokens of a prompt are public.
func (m *Model) PublicTokens(prompt []parley.Token) (n int) {
	if m.public == nil {
		return 0
	}
	for _, tokens := range m.public.all() {
		same := 0
		for same < len(tokens) && same < len(prompt) && tokens[same] == prompt[same] {
			same++
		}
		n = max(n, same)
	}
	return n
}

// beginning returns what two conversations with this system message have in
// common, whatever is said in them; none if the template cannot say.
func (m *Model) beginning(system string, now time.Time) []parley.Token {
	var said [2][]parley.Token
	for i, word := range []string{"a", "1"} {
		tokens, _, err := m.renderAt(&openai.ChatRequest{OpenTurn: true, Messages: []openai.Message{
			{Role: "system", Content: system, HasContent: true}, {Role: "user", Content: word, HasContent: true}}}, now)
		if err != nil {
			return nil
		}
		said[i] = tokens
	}
	n := 0
	for n < len(said[0]) && n < len(said[1]) && said[0][n] == said[1][n] {
		n++
	}
	return said[0][:n]
}
