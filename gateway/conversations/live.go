package conversations

import (
	"context"
	"net/http"
	"time"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/history"
	"parley/gateway/job"
	"parley/gateway/openai"
	"parley/gateway/runs"
)

// liveTurn returns an answer that this process writes now, or nil.
func (a *API) liveTurn(message string) *turn {
	t, _ := a.Runs.Value(message).(*turn)
	return t
}

// Follow answers GET /v1/conversations/{id}/messages/{item}/stream: what
// there is of an answer, and what comes until it ends.
func (a *API) Follow(x *exchange.Exchange, j *job.Job) error {
	request := &openai.TurnRequest{}
	request.Stream, request.IncludeUsage, request.CountUsage = true, true, true
	t, err := a.turnNamed(x, j, request)
	if err != nil {
		return err
	}
	return x.RunStream(true, func() error { return a.watch(x, t, request) })
}

// turnNamed returns the answer that the path of a call names: the one that is
// being written here, or else one that only the store knows.
func (a *API) turnNamed(x *exchange.Exchange, j *job.Job, request *openai.TurnRequest) (*turn, error) {
	m, err := a.Store.Message(x.Request.Context(), history.OwnerOf(x.Identity), x.Values["id"],
		x.Values["item"])
	if err != nil {
		return nil, ItemNotFound(x, err)
	}
	if m.Role != "assistant" {
		return nil, parley.Invalid("", "This message is not an answer: there is nothing to follow.")
	}
	if live := a.liveTurn(m.ID); live != nil {
		return live, nil
	}
	request.Model = m.Model
	t, err := a.newTurn(x, j, request)
	if err != nil {
		return nil, err
	}
	t.id, t.parent = convo.AnswerID{Conversation: m.Conversation, Message: m.ID}, m.Parent
	return t, nil
}

// Cancel answers POST /v1/conversations/{id}/messages/{item}/cancel with
// the message as it stands when the answer has ended.
func (a *API) Cancel(x *exchange.Exchange, j *job.Job) error {
	t, err := a.turnNamed(x, j, &openai.TurnRequest{})
	if err != nil {
		return err
	}
	a.Runs.Cancel(t.id.Message, errTurnStopped)
	for began := a.Now(); a.liveTurn(t.id.Message) != nil && a.Now().Sub(began) < runs.CancelWait; {
		if err := a.Runs.AwaitNews(x.Request.Context(), t.id.Message); err != nil {
			return err
		}
	}
	return a.ShowItem(x)
}

// snapshot returns how far the answer is: from memory while it is written here,
// else from the store.
func (t *turn) snapshot(ctx context.Context, owner convo.Owner) (snapshot, error) {
	if t.cancel == nil {
		return t.stored(ctx, owner)
	}
	now := t.told.snapshot()
	if now.over && t.answer != nil {
		now.usage, now.timings = t.spent(), t.timings()
	}
	return now, nil
}

func (t *turn) stored(ctx context.Context, owner convo.Owner) (now snapshot, err error) {
	m, err := t.api.Store.Message(ctx, owner, t.id.Conversation, t.id.Message)
	if err != nil {
		return now, err
	}
	now = snapshot{
		said:         pieceOf(&m),
		promptTokens: m.Usage.PromptTokens,
		model:        m.Model,
		usage:        m.Usage,
		timings:      TimingsOf(&m),
		over:         m.Status.Ended(),
	}
	now.said.OutputTokens = m.Usage.OutputTokens
	if m.Err != nil {
		now.why = m.Err
	}
	return now, nil
}

// watch sends what there is of an answer, and what comes until it ends, in the
// way that request asks for.
func (a *API) watch(x *exchange.Exchange, t *turn, request *openai.TurnRequest) error {
	owner, ctx := history.OwnerOf(x.Identity), x.Request.Context()
	form := t.shapeFor(x, request)
	s := exchange.NewEventStream(x, 1)
	var before snapshot
	silent := a.Now()
	for {
		news := a.Runs.Changed(t.id.Message)
		now, err := t.snapshot(ctx, owner)
		if err != nil {
			return ItemNotFound(x, err)
		}
		if now.model != "" {
			x.Record.SetModel(now.model)
			form.Rename()
		}
		p := now.since(&before)
		isNews := p.Text != "" || p.Reasoning != "" || len(p.Calls) > 0 || p.Progress != nil ||
			now.promptTokens > 0 && !s.IsOpen()
		if request.Stream && isNews {
			form.PromptTokens = now.promptTokens
			if err := s.SendPieces([]answer.Piece{p}, form); err != nil {
				return err
			}
			silent = a.Now()
		}
		before = now
		if now.over {
			return t.close(x, s, form, &now, request)
		}
		if err := a.waitToWatch(ctx, news, &silent, s, request.Stream); err != nil {
			return err
		}
	}
}

// waitToWatch waits for news, and pings a client that has heard none for long.
func (a *API) waitToWatch(ctx context.Context, news <-chan struct{}, silent *time.Time, s *exchange.EventStream,
	streams bool) error {
	patience := a.KeepAlive
	if news == nil {
		patience = runs.PollEvery // another process writes it
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-news:
		return nil
	case <-timer.C:
	}
	if !streams || a.Now().Sub(*silent) < a.KeepAlive {
		return nil
	}
	*silent = a.Now()
	return s.Ping()
}

// close sends the end of an answer that was followed.
func (t *turn) close(
	x *exchange.Exchange, s *exchange.EventStream, form turnShape, now *snapshot, request *openai.TurnRequest,
) error {
	if now.why != nil {
		return now.why
	}
	if !request.Stream {
		choices := make([]answer.CollectedChoice, 1)
		choices[0].Add(now.said)
		return x.Reply(http.StatusOK, form.whole(choices, now.usage))
	}
	if err := s.SendPieces([]answer.Piece{{Finish: now.said.Finish}}, form); err != nil {
		return err
	}
	return s.EndWith(openai.UsageOf(now.usage), now.timings, form, request.IncludeUsage)
}
