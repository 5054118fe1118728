package models

import (
	"strings"

	"parley/gateway/openai"
)

// Texts are refused by their bytes before they are screened and made tokens of:
// where not even the longest tokens of the vocabulary make few enough of them, the
// tokens need not be counted. So what is done for a text that cannot fit is no more
// than reading it, and the memory that tokenizing takes is bounded by the context.

// sinkContexts is how many contexts long a prompt may be that may outgrow the
// context (attention_sink_tokens).
const sinkContexts = 64

// leastTokens is how many tokens a text has at least, by its bytes alone.
func (m *Model) leastTokens(bytes int) int {
	if bytes <= m.ContextTokens { // a token has at least a byte, so this cannot matter
		return 0
	}
	per := m.BytesPerToken()
	if per == 0 {
		return 0
	}
	return bytes / per
}

// checkBytes refuses text of which the bytes alone say that it cannot fit.
func (m *Model) checkBytes(param string, bytes, sinks int) error {
	room := m.ContextTokens
	if sinks > 0 {
		room *= sinkContexts
	}
	if least := m.leastTokens(bytes); least > room {
		return openai.BytesTooLong(param, room, bytes, least)
	}
	return nil
}

// CheckChat refuses a conversation by its bytes. It counts what every template
// shows: not what an assistant said, of which thoughts may be left out, nor space
// around a message.
func (m *Model) CheckChat(request *openai.ChatRequest) error {
	bytes := 0
	for i := range request.Messages {
		if said := &request.Messages[i]; said.Role != "assistant" {
			bytes += len(strings.TrimSpace(said.Content))
		}
	}
	return m.checkBytes("messages", bytes, request.Sinks)
}

// CheckPrompts refuses plain prompts, and what stands behind their gap, by their
// bytes.
func (m *Model) CheckPrompts(prompts []openai.Prompt, gap *openai.Gap, sinks int) error {
	if gap != nil {
		prompts = append(prompts[:len(prompts):len(prompts)], gap.After)
	}
	for i := range prompts {
		if err := m.checkBytes(prompts[i].Param, len(prompts[i].Text), sinks); err != nil {
			return err
		}
	}
	return nil
}
