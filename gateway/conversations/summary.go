package conversations

import (
	"context"
	"errors"
	"slices"

	"parley/gateway/convo"
	"parley/gateway/openai"
)

// droppedMessages are messages that the model is not shown, oldest first.
type droppedMessages struct {
	messages []openai.Message
	// at are the places in path at which they end.
	at   []int
	path []convo.Message
}

// last is the id of the last of them.
func (f *droppedMessages) last() string { return f.path[f.at[len(f.at)-1]].ID }

// after returns those behind the message of an id, or false if it does not stand
// among them.
func (f *droppedMessages) after(id string) ([]openai.Message, bool) {
	for i, at := range f.at {
		if f.path[at].ID == id {
			return f.messages[i+1:], true
		}
	}
	return nil, false
}

// insertSummary puts a summary in the place of messages that are left out. It is
// written once.
func (t *turn) insertSummary(
	ctx context.Context, kept []openai.Message, old *droppedMessages,
) ([]openai.Message, error) {
	store := t.api.Store
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
func (t *turn) writeSummary(ctx context.Context, old *droppedMessages) (s convo.Summary, err error) {
	earlier, rest, err := t.summarised(ctx, old)
	if err != nil {
		return s, err
	}
	text, used, err := t.job.Beside("summary").Summarise(ctx, t.model, earlier, rest)
	if err != nil {
		return s, err
	}
	t.note.SummaryTokens = used.OutputTokens
	if s.Content, err = openai.Encode(text); err != nil {
		return s, err
	}
	s.Model, s.Tokens = t.model.ID, used.OutputTokens
	return s, t.api.Store.SaveSummary(ctx, t.owner, t.conversation.ID, old.last(), s, t.api.Now())
}

// summarised returns the newest summary that stands for the first of what is left
// out, and the messages behind it.
func (t *turn) summarised(
	ctx context.Context, old *droppedMessages,
) (earlier string, rest []openai.Message, err error) {
	for i := range slices.Backward(old.path) {
		note := openai.ParseNote(old.path[i].Content)
		if note == nil || note.SummaryUpTo == "" {
			continue
		}
		rest, ok := old.after(note.SummaryUpTo)
		if !ok {
			continue
		}
		s, err := t.api.Store.Summary(ctx, t.owner, t.conversation.ID, note.SummaryUpTo)
		if errors.Is(err, convo.ErrNotFound) { // the message it ended with is deleted
			continue
		}
		return convo.PlainText(s.Content), rest, err
	}
	return "", old.messages, nil
}
