package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/convo"
	"parley/gateway/history"
	"parley/gateway/openai"
	"parley/gateway/runs"
)

// A telling is what an answer has said so far. The goroutine that writes it, the
// one that stores it and those that follow it share it.
type telling struct {
	mu sync.Mutex
	// choices has one entry, because that is what answers are made of elsewhere:
	// all that was said, what was kept from before included.
	choices [1]answer.CollectedChoice
	// unsaved is set while there is more than was stored.
	unsaved bool
	// progress is how far the prompt is.
	progress *parley.Progress
	// promptTokens and outputTokens count what the model was shown and has said.
	promptTokens, outputTokens int
	// over says that why is how it ended.
	over bool
	why  error
}

// said is what was said. Others may read it while it is written: it is for who
// writes, or holds mu.
func (w *telling) said() *answer.CollectedChoice { return &w.choices[0] }

// add takes in pieces of an answer to a prompt of that many tokens.
func (w *telling) add(pieces []answer.Piece, promptTokens int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range pieces {
		w.said().Add(p)
		w.unsaved = w.unsaved || p.Progress == nil
		w.progress = cmp.Or(p.Progress, w.progress)
		w.outputTokens = max(w.outputTokens, p.OutputTokens)
	}
	w.promptTokens = promptTokens
}

// end notes how the answer ended.
func (w *telling) end(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over, w.why = true, why
}

// standing returns how far the answer is.
func (w *telling) standing() soFar {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := soFar{
		said:         w.said().Piece(),
		promptTokens: w.promptTokens,
		progress:     w.progress,
		over:         w.over,
		why:          w.why,
	}
	now.said.OutputTokens = w.outputTokens
	return now
}

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
		parts = append(parts, openai.Item{
			Type:      openai.ItemFunctionCall,
			CallID:    c.ID,
			Name:      c.Name,
			Arguments: c.Arguments.String(),
			Status:    callStatus,
		})
	}
	return openai.Encode(parts)
}

// pieceOf returns what a stored answer says.
func pieceOf(m *convo.Message) (p answer.Piece) {
	for _, item := range history.ItemsOf(m) {
		switch item.Type {
		case openai.ItemMessage:
			p.Text += item.Text()
		case openai.ItemReasoning:
			p.Reasoning += item.Text()
		case openai.ItemFunctionCall:
			p.Calls = append(p.Calls,
				answer.CallPiece{Index: len(p.Calls), ID: item.CallID, Name: item.Name, Arguments: item.Arguments})
		}
	}
	p.Finish = m.Finish
	return p
}

// finish stores how the answer ended.
func (t *turn) finish(why error) error {
	outcome, err := t.outcome(why)
	if err != nil {
		return err
	}
	return t.gateway.runs.Settle(t.call.Request.Context(), t.id.Message, t.ending(outcome))
}

// ending stores that the answer ended like that.
func (t *turn) ending(o convo.Outcome) runs.Write {
	k, owner, id := t.gateway.runs, t.owner, t.id
	return func(ctx context.Context) error {
		_, err := k.Store.FinishTurn(ctx, owner, id, o, k.Now())
		return err
	}
}

func (t *turn) outcome(why error) (o convo.Outcome, err error) {
	t.call.job.Settle()
	o = convo.Outcome{Status: convo.Completed, Finish: t.told.said().Finish, CostMicros: int64(t.call.Record.Cost())}
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
	if t.answer != nil {
		o.Usage = t.spent()
	}
	o.Content, err = t.content("completed", t.notes()...)
	return o, err
}

// shownReason is why an answer broke off, in words for whoever reads the
// conversation.
func shownReason(why error) *parley.Error {
	code := openai.CodeOf(why)
	said, ok := errors.AsType[*parley.Error](why)
	switch {
	case errors.Is(why, errTurnStopped):
		return errTurnStopped
	case code == parley.Cancelled:
		return parley.Errorf(code, "The client left before the answer was complete.")
	case !ok:
		return parley.Errorf(code, "The server had an error before the answer was complete.")
	}
	return said
}

// timings tells where the time of the turn's answer went and who computed it.
func (t *turn) timings() *openai.Timings {
	told := openai.TimingsOf(t.spent())
	told.Route = t.call.Record.Routing()
	return told
}

// spent is what the turn's answer has cost, once it has ended: as the worker
// said, or where it was stopped before the worker could, as seen from here.
func (t *turn) spent() parley.Usage {
	u, seen := t.answer.Usage, t.told.standing()
	if u.PromptTokens > 0 || seen.promptTokens == 0 {
		return u
	}
	u.PromptTokens, u.OutputTokens = seen.promptTokens, seen.said.OutputTokens
	if seen.progress != nil {
		u.CachedTokens = seen.progress.CachedTokens
	}
	t.call.Record.Measured(&u)
	return u
}

// notes are what is kept with the answer beside what it says.
func (t *turn) notes() []any {
	if t.answer == nil {
		return nil
	}
	return []any{openai.TimingsNote{Type: openai.TimingsPart, Timings: *t.timings()}}
}
