package conversations

import (
	"context"
	"encoding/json"
	"errors"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/openai"
	"parley/gateway/runs"
)

// errTurnStopped ends an answer that a user does not want any more.
var errTurnStopped = parley.Errorf(parley.Cancelled, "The answer was stopped.")

// news returns the answer so far as it is stored, and whether there is more of
// it than when it was last asked.
func (t *turn) news() (json.RawMessage, bool) {
	t.told.mu.Lock()
	defer t.told.mu.Unlock()
	if !t.told.unsaved {
		return nil, false
	}
	t.told.unsaved = false
	content, err := t.content("incomplete")
	return content, err == nil
}

// content is the answer as it is stored, with notes that the model is not shown.
func (t *turn) content(callStatus string, notes ...any) (json.RawMessage, error) {
	said := t.told.said()
	parts := append([]any{}, notes...)
	if t.note != nil {
		parts = append(parts, t.note)
	}
	if text := said.Reasoning.String(); text != "" {
		parts = append(parts, openai.ItemPart{Type: "reasoning_text", Text: text})
	}
	if text := said.Text.String(); text != "" {
		parts = append(parts, openai.ItemPart{Type: "output_text", Text: text})
	}
	for _, c := range said.Calls {
		kind := openai.ItemFunctionCall
		if c.Custom {
			kind = openai.ItemCustomCall
		}
		parts = append(parts, openai.Item{
			Type:      kind,
			CallID:    c.ID,
			Name:      c.Name,
			Arguments: c.Arguments.String(),
			Status:    callStatus,
		})
	}
	return openai.Encode(parts)
}

// finish stores how the answer ended.
func (t *turn) finish(why error) error {
	outcome, err := t.outcome(why)
	if err != nil {
		return err
	}
	err = t.api.Runs.Settle(t.x.Request.Context(), t.id.Message, t.ending(outcome))
	if err == nil && why != nil {
		t.nameByQuestion()
	}
	return err
}

// ending stores that the answer ended like that.
func (t *turn) ending(o convo.Outcome) runs.Write {
	k, owner, id := t.api.Runs, t.owner, t.id
	return func(ctx context.Context) error {
		_, err := k.Writes.FinishTurn(ctx, owner, id, o, k.Now())
		return err
	}
}

func (t *turn) outcome(why error) (o convo.Outcome, err error) {
	t.job.Settle()
	o = convo.Outcome{Status: convo.Completed, Finish: t.told.said().Finish, CostMicros: int64(t.x.Record.Cost())}
	switch {
	case why != nil && openai.CodeOf(why) == parley.Cancelled:
		o.Status = convo.Cancelled
	case why != nil:
		o.Status = convo.Failed
	case o.Finish == parley.FinishLength:
		o.Status = convo.Incomplete
	}
	if why != nil {
		o.Err = shownReason(why)
	}
	o.Model = t.x.Record.Model() // another than was asked may have answered
	if t.answer != nil {
		o.Usage = t.spent()
	}
	o.Content, err = t.content("completed", t.notes()...)
	return o, err
}

// shownReason is why an answer broke off, in words for readers of the
// conversation.
func shownReason(why error) *parley.Error {
	code := openai.CodeOf(why)
	said, ok := errors.AsType[*parley.Error](why)
	switch {
	case errors.Is(why, errTurnStopped):
		return errTurnStopped
	case code == parley.Cancelled:
		return parley.Errorf(code, "The client hung up before the answer was complete.")
	case !ok:
		return parley.Errorf(code, "The server had an error before the answer was complete.")
	}
	return said
}

// timings says where the time of the turn's answer went and who computed it.
func (t *turn) timings() *openai.Timings {
	told := openai.TimingsOf(t.spent())
	told.Route = t.x.Record.Routing()
	return told
}

// spent is what the turn's answer has cost, once it has ended: as the worker
// said, or where it was stopped before the worker could, as seen from here.
func (t *turn) spent() parley.Usage {
	u, seen := t.answer.Usage, t.told.snapshot()
	if u.PromptTokens > 0 || seen.promptTokens == 0 {
		return u
	}
	u.PromptTokens, u.OutputTokens = seen.promptTokens, seen.said.OutputTokens
	if seen.progress != nil {
		u.CachedTokens = seen.progress.CachedTokens
	}
	t.x.Record.Measured(&u)
	return u
}

// notes are what is kept with the answer beside what it says.
func (t *turn) notes() []any {
	if t.answer == nil {
		return nil
	}
	return []any{openai.TimingsNote{Type: openai.TimingsPart, Timings: *t.timings()}}
}
