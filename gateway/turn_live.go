package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/conversations"
	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/history"
	"parley/gateway/openai"
	"parley/gateway/runs"
)

// errTurnStopped ends an answer that somebody has had enough of.
var errTurnStopped = parley.Errorf(parley.Cancelled, "The answer was stopped.")

// start notes that the answer, which was claimed, is being written, so that it
// can be followed and stopped.
func (t *turn) start() {
	var ctx context.Context
	ctx, t.cancel = context.WithCancelCause(t.call.Request.Context())
	t.call.Request = t.call.Request.WithContext(ctx)
	t.call.job.Revocable(ctx, t.cancel)
	t.gateway.runs.Begin(t.id.Message, t.cancel, t)
}

// liveTurn returns an answer that this process writes now, or nil.
func (g *Gateway) liveTurn(message string) *turn {
	t, _ := g.runs.Value(message).(*turn)
	return t
}

// run answers a turn that was started, and tells those who follow how that
// ended. It is stored by then.
func (t *turn) run() error {
	why := t.call.guarded(func(*call) error { return t.reply() })
	t.cancel(nil)
	t.told.end(why)
	t.gateway.runs.End(t.id.Message)
	return why
}

// respond answers the turn: as it was asked for, or in the background, where
// its client is the first to follow it.
func (t *turn) respond() error {
	if !t.request.Background {
		t.start()
		return t.run()
	}
	asking, g := t.call, t.gateway
	alone, cancel := g.detach(asking)
	t.call = alone
	if err := g.runs.Enter(alone.Request.Context()); err != nil {
		defer g.runs.End(t.id.Message)
		cancel(err)
		return errors.Join(err, t.finish(err))
	}
	t.start()
	err := g.runs.Go(func() {
		defer cancel(nil)
		defer g.runs.Leave()
		g.computeTurn(alone, t)
	})
	if err != nil {
		defer g.runs.Leave()
		defer g.runs.End(t.id.Message)
		cancel(err)
		return errors.Join(err, t.finish(err))
	}
	return g.watch(asking, t, t.request)
}

// computeTurn answers a turn in the background, as a request of its own in
// metrics and log.
func (g *Gateway) computeTurn(alone *call, t *turn) {
	alone.Record.Infer()
	defer g.finish(alone)
	alone.Record.Fail(t.run())
}

// followTurn answers GET /v1/conversations/{id}/messages/{item}/stream: what
// there is of an answer, and what comes until it ends.
func (g *Gateway) followTurn(c *call) error {
	request := &openai.TurnRequest{}
	request.Stream, request.IncludeUsage, request.CountUsage = true, true, true
	t, err := g.turnNamed(c, request)
	if err != nil {
		return err
	}
	return c.runStream(true, func() error { return g.watch(c, t, request) })
}

// turnNamed returns the answer that the path of a call names: the one that is
// being written here, or else one that only the store knows.
func (g *Gateway) turnNamed(c *call, request *openai.TurnRequest) (*turn, error) {
	m, err := g.config.Store.Message(c.Request.Context(), history.OwnerOf(&c.Identity), c.Values["id"],
		c.Values["item"])
	if err != nil {
		return nil, conversations.ItemNotFound(c.Exchange, err)
	}
	if m.Role != "assistant" {
		return nil, parley.Invalid("", "This message is no answer: there is nothing to follow.")
	}
	if live := g.liveTurn(m.ID); live != nil {
		return live, nil
	}
	request.Model = m.Model
	t, err := g.newTurn(c, request)
	if err != nil {
		return nil, err
	}
	t.id, t.parent = convo.AnswerID{Conversation: m.Conversation, Message: m.ID}, m.Parent
	return t, nil
}

// cancelTurn answers POST /v1/conversations/{id}/messages/{item}/cancel with
// the message as it stands when the answer has ended.
func (g *Gateway) cancelTurn(c *call) error {
	t, err := g.turnNamed(c, &openai.TurnRequest{})
	if err != nil {
		return err
	}
	g.runs.Cancel(t.id.Message, errTurnStopped)
	for began := g.config.Now(); g.liveTurn(t.id.Message) != nil && g.config.Now().Sub(began) < cancelWait; {
		if err := g.runs.AwaitNews(c.Request.Context(), t.id.Message); err != nil {
			return err
		}
	}
	return g.conversations.ShowItem(c.Exchange)
}

// A soFar is what there is of an answer, and how it ended if it has.
type soFar struct {
	said answer.Piece
	// promptTokens is 0 until the model answers.
	promptTokens int
	progress     *parley.Progress
	usage        parley.Usage
	timings      *openai.Timings
	over         bool
	why          error
}

// standing returns how far the answer is: from memory while it is written here,
// else from the store.
func (t *turn) standing(ctx context.Context, owner convo.Owner) (soFar, error) {
	if t.cancel == nil {
		return t.stored(ctx, owner)
	}
	now := t.told.standing()
	if now.over && t.answer != nil {
		now.usage, now.timings = t.spent(), t.timings()
	}
	return now, nil
}

func (t *turn) stored(ctx context.Context, owner convo.Owner) (now soFar, err error) {
	m, err := t.gateway.config.Store.Message(ctx, owner, t.id.Conversation, t.id.Message)
	if err != nil {
		return now, err
	}
	now = soFar{
		said:         pieceOf(&m),
		promptTokens: m.Usage.PromptTokens,
		usage:        m.Usage,
		timings:      conversations.TimingsOf(&m),
		over:         m.Status.Ended(),
	}
	now.said.OutputTokens = m.Usage.OutputTokens
	if m.Err != nil {
		now.why = m.Err
	}
	return now, nil
}

// since returns what is in now and was not in before. What was said only grows.
func (now *soFar) since(before *soFar) answer.Piece {
	p := answer.Piece{
		OutputTokens: now.said.OutputTokens,
		Reasoning:    now.said.Reasoning[len(before.said.Reasoning):],
		Text:         now.said.Text[len(before.said.Text):],
	}
	if now.progress != before.progress {
		p.Progress = now.progress
	}
	for i, c := range now.said.Calls {
		if i < len(before.said.Calls) {
			old := before.said.Calls[i]
			c = answer.CallPiece{Index: i, Arguments: c.Arguments[len(old.Arguments):]}
			if c.Arguments == "" {
				continue
			}
		}
		p.Calls = append(p.Calls, c)
	}
	return p
}

// watch sends what there is of an answer, and what comes until it ends, in the
// way that request asks for.
func (g *Gateway) watch(c *call, t *turn, request *openai.TurnRequest) error {
	owner, ctx := history.OwnerOf(&c.Identity), c.Request.Context()
	form := t.shapeFor(c, request)
	s := exchange.NewEventStream(c.Exchange, 1)
	var before soFar
	silent := g.config.Now()
	for {
		news := g.runs.Changed(t.id.Message)
		now, err := t.standing(ctx, owner)
		if err != nil {
			return conversations.ItemNotFound(c.Exchange, err)
		}
		p := now.since(&before)
		isNews := p.Text != "" || p.Reasoning != "" || len(p.Calls) > 0 || p.Progress != nil ||
			now.promptTokens > 0 && !s.IsOpen()
		if request.Stream && isNews {
			form.promptTokens = now.promptTokens
			if err := s.SendPieces([]answer.Piece{p}, form); err != nil {
				return err
			}
			silent = g.config.Now()
		}
		before = now
		if now.over {
			return t.close(c, s, form, &now, request)
		}
		if err := g.waitToWatch(ctx, news, &silent, s, request.Stream); err != nil {
			return err
		}
	}
}

// waitToWatch waits for news, and pings a client that has heard none for long.
func (g *Gateway) waitToWatch(ctx context.Context, news <-chan struct{}, silent *time.Time, s *exchange.EventStream,
	streams bool) error {
	patience := g.config.KeepAlive
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
	if !streams || g.config.Now().Sub(*silent) < g.config.KeepAlive {
		return nil
	}
	*silent = g.config.Now()
	return s.Ping()
}

// close tells how an answer ended that was followed.
func (t *turn) close(c *call, s *exchange.EventStream, form turnShape, now *soFar, request *openai.TurnRequest) error {
	if now.why != nil {
		return now.why
	}
	if !request.Stream {
		choices := make([]answer.CollectedChoice, 1)
		choices[0].Add(now.said)
		return c.Reply(http.StatusOK, form.whole(choices, now.usage))
	}
	if err := s.SendPieces([]answer.Piece{{Finish: now.said.Finish}}, form); err != nil {
		return err
	}
	return s.EndWith(openai.UsageOf(now.usage), now.timings, form, request.IncludeUsage)
}
