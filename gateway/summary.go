package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/models"
	"parley/gateway/openai"
	"parley/token"
)

// forgotten are messages that the model is not shown, oldest first.
type forgotten struct {
	messages []openai.Message
	// at are the places in path at which they end.
	at   []int
	path []convo.Message
}

// last is the id of the last of them.
func (f *forgotten) last() string { return f.path[f.at[len(f.at)-1]].ID }

// after returns those behind the message of an id, or false if it does not stand
// among them.
func (f *forgotten) after(id string) ([]openai.Message, bool) {
	for i, at := range f.at {
		if f.path[at].ID == id {
			return f.messages[i+1:], true
		}
	}
	return nil, false
}

// insertSummary puts a summary in the place of messages that are left out. It is
// written once.
func (t *turn) insertSummary(ctx context.Context, kept []openai.Message, old *forgotten) ([]openai.Message, error) {
	store := t.gateway.config.Store
	s, err := store.Summary(ctx, t.owner, t.conversation.ID, old.last())
	if errors.Is(err, convo.ErrNotFound) {
		s, err = t.writeSummary(ctx, old)
	}
	if err != nil {
		return nil, err
	}
	t.note.SummaryUpTo = old.last()
	t.note.Summary = convo.PlainText(s.Content)
	told := openai.SummaryMessage(t.note.Summary)
	if len(kept) > 0 && kept[0].Role == "system" {
		kept[0].Content += "\n\n" + told.Content
		return kept, nil
	}
	return slices.Insert(kept, 0, told), nil
}

// writeSummary has the model sum up what is left out. Where an answer on the path
// was given from a summary of the first of it, only the rest is read.
func (t *turn) writeSummary(ctx context.Context, old *forgotten) (s convo.Summary, err error) {
	earlier, rest, err := t.summarised(ctx, old)
	if err != nil {
		return s, err
	}
	text, used, err := t.call.aside(ctx, "summary").summarise(t.model, earlier, rest)
	if err != nil {
		return s, err
	}
	t.note.SummaryTokens = used.OutputTokens
	if s.Content, err = openai.Encode(text); err != nil {
		return s, err
	}
	s.Model, s.Tokens = t.model.ID, used.OutputTokens
	return s, t.gateway.config.Store.SaveSummary(ctx, t.owner, t.conversation.ID, old.last(), s, t.gateway.config.Now())
}

// summarised returns the newest summary that stands for the first of what is left
// out, and the messages behind it.
func (t *turn) summarised(ctx context.Context, old *forgotten) (earlier string, rest []openai.Message, err error) {
	for i := range slices.Backward(old.path) {
		note := openai.ParseNote(old.path[i].Content)
		if note == nil || note.SummaryUpTo == "" {
			continue
		}
		rest, ok := old.after(note.SummaryUpTo)
		if !ok {
			continue
		}
		s, err := t.gateway.config.Store.Summary(ctx, t.owner, t.conversation.ID, note.SummaryUpTo)
		if errors.Is(err, convo.ErrNotFound) { // the message it ended with is deleted
			continue
		}
		return convo.PlainText(s.Content), rest, err
	}
	return "", old.messages, nil
}

const summaryTask = "Summarise the conversation you are given, so that it can be continued from the summary alone: " +
	"who wants what, what was found out and decided, names, numbers and open questions. Answer with the summary alone."

// summaryTokens is how long a summary may be: an eighth of what is shown.
func (c *call) summaryTokens(m *models.Model) int {
	return min(512, c.tier().Within(m.ContextTokens)/8)
}

// summarise has the model sum up messages, and what earlier says of those before
// them. What does not fit its context at once is read in pieces, each with the
// summary of those before it.
func (c *call) summarise(m *models.Model, earlier string,
	messages []openai.Message) (text string, used parley.Usage, err error) {
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
	room := max(32, m.ContextTokens-2*c.summaryTokens(m)-len(task)-64)
	for len(ids) > 0 {
		n := min(len(ids), room)
		part := m.Tokenizer.Decode(ids[:n], false)
		ids = ids[n:]
		if text != "" {
			part = "The conversation before: " + text + "\n\n" + part
		}
		var more parley.Usage
		if text, more, err = c.ask(m, summaryTask, part, c.summaryTokens(m)); err != nil {
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
