package models

import (
	"strings"
	"unicode/utf8"

	"parley"
	"parley/gateway/openai"
	"parley/token"
)

// Texts are refused by their bytes before they are screened and made tokens of:
// where not even the longest tokens of the vocabulary make few enough of them, the
// tokens need not be counted. So what is done for a text that cannot fit is no more
// than reading it, and the memory that tokenizing takes is bounded by the context.
// Some vocabularies have tokens of a hundred bytes, or drop text: what is long for its
// context and may fit by its bytes is first counted in parts, each in little memory.

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

const (
	// plainBytes is how many bytes of text for each token of the context are tokenized
	// at once: more than usual text has.
	plainBytes = 16
	// partBytes is how much of a longer text is counted at a time.
	partBytes = 16 << 10
	// partsFactor is how many times as many tokens as the whole the parts of a text may
	// have: at each end a word is cut.
	partsFactor = 2
)

// leastOf is how many tokens a text has at least if these are more than room, by its
// bytes or counted in parts; otherwise it is room at most.
func (m *Model) leastOf(text string, room int) int {
	least := m.leastTokens(len(text))
	if least > room || len(text) <= plainBytes*room {
		return least
	}
	var tokens []parley.Token
	for count := 0; text != "" && least <= room; least = count / partsFactor {
		end := min(partBytes, len(text))
		for end < len(text) && end > 1 && !utf8.RuneStart(text[end]) {
			end--
		}
		var err error
		if tokens, err = m.Tokenizer.AppendEncode(tokens[:0], text[:end], token.Options{}); err != nil {
			return 0 // the whole text has the same fault
		}
		count += len(tokens)
		text = text[end:]
	}
	return least
}

// checkText refuses text that cannot fit.
func (m *Model) checkText(param, text string, sinks int) error {
	room := m.ContextTokens
	if sinks > 0 {
		room *= sinkContexts
	}
	if least := m.leastOf(text, room); least > room {
		return openai.BytesTooLong(param, room, len(text), least)
	}
	return nil
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
		if err := m.checkText(prompts[i].Param, prompts[i].Text, sinks); err != nil {
			return err
		}
	}
	return nil
}
