package job

import (
	"context"
	"fmt"
	"unicode/utf8"

	"parley"
	"parley/gateway/models"
	"parley/gateway/openai"
	"parley/token"
)

const summaryTask = "Summarise the conversation you are given, so that it can be continued from the summary alone: " +
	"who wants what, what was found out and decided, names, numbers and open questions. Answer with the summary alone."

// SummaryTokens is how long a summary may be: an eighth of what is shown.
func (j *Job) SummaryTokens(m *models.Model) int {
	return min(512, j.Tier().Within(m.ContextTokens)/8)
}

// Summarise has the model sum up messages, and what earlier says of those before
// them. What does not fit its context at once is read in pieces, each with the
// summary of those before it.
func (j *Job) Summarise(
	ctx context.Context, m *models.Model, earlier string, messages []openai.Message,
) (text string, used parley.Usage, err error) {
	j.payer.Several()
	text = earlier
	var ids []parley.Token
	for i := range messages {
		for _, part := range textPieces(fmt.Sprintf("%s: %s\n\n", messages[i].Role, messages[i].Content)) {
			more, err := m.Encode("messages", part, token.Options{})
			if err != nil {
				return "", used, err
			}
			ids = append(ids, more...)
		}
	}
	task, err := m.Encode("messages", summaryTask, token.Options{})
	if err != nil {
		return "", used, err
	}
	room := max(32, m.ContextTokens-2*j.SummaryTokens(m)-len(task)-64)
	for len(ids) > 0 {
		n := min(len(ids), room)
		part := m.Tokenizer.Decode(ids[:n], false)
		ids = ids[n:]
		if text != "" {
			part = "The conversation before: " + text + "\n\n" + part
		}
		var more parley.Usage
		if text, more, err = j.Ask(ctx, m, summaryTask, part, j.SummaryTokens(m)); err != nil {
			return "", used, err
		}
		used.PromptTokens += more.PromptTokens
		used.CachedTokens += more.CachedTokens
		used.OutputTokens += more.OutputTokens
	}
	return text, used, nil
}

// pieceBytes bounds the text that is made tokens of at once, where all of it together
// may be much longer than a context.
const pieceBytes = 64 << 10

// textPieces cuts a text into pieces of whole characters.
func textPieces(text string) (parts []string) {
	for len(text) > pieceBytes {
		end := pieceBytes
		for end > pieceBytes-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		parts, text = append(parts, text[:end]), text[end:]
	}
	return append(parts, text)
}
