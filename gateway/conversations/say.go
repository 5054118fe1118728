package conversations

import (
	"context"
	"errors"
	"net/http"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/history"
	"parley/gateway/job"
	"parley/gateway/openai"
	"parley/gateway/runs"
)

// Say answers POST /v1/conversations/{id}/messages: it adds a question and has
// the model answer, like chat.
func (a *API) Say(x *exchange.Exchange, j *job.Job) error {
	request, err := exchange.Read(x, openai.ParseTurn)
	if err != nil {
		return err
	}
	if request.Stream {
		x.Detach()
	}
	return a.answerTurn(x, j, request)
}

// answerTurn stores a question and answers it.
func (a *API) answerTurn(x *exchange.Exchange, j *job.Job, request *openai.TurnRequest) error {
	t, err := a.newTurn(x, j, request)
	if err != nil {
		return err
	}
	if err := a.Runs.Enter(x.Request.Context()); err != nil {
		return err
	}
	defer a.Runs.Leave()
	begun, err := t.begin()
	if err != nil {
		return err
	}
	return t.takeUp(&begun)
}

// takeUp answers a turn that is stored: a new one, or, where an earlier call had
// the same key, that one, as far as it is.
func (t *turn) takeUp(begun *convo.Turn) error {
	t.id, t.parent, t.asked = begun.ID(), begun.Answer.Parent, begun.Question.Text
	live := t.api.liveTurn(t.id.Message)
	switch {
	case begun.Begun:
		return t.respond()
	case begun.Answer.Status == convo.Completed:
		return t.show(&begun.Answer)
	case live != nil && t.request.Background:
		return t.x.Rest(func() error { return t.api.watch(t.x, live, t.request) })
	}
	err := t.goOn()
	if !errors.Is(err, convo.ErrComplete) {
		return err
	}
	m, err := t.api.Store.Message(t.x.Request.Context(), t.owner, t.id.Conversation, t.id.Message)
	if err != nil {
		return err
	}
	return t.show(&m)
}

// Resume answers POST /v1/conversations/{id}/messages/{item}/resume: it continues
// an answer that broke off.
func (a *API) Resume(x *exchange.Exchange, j *job.Job) error {
	request, err := exchange.ReadOptional(x, openai.ParseResume)
	if err != nil {
		return err
	}
	if request.Stream {
		x.Detach()
	}
	return a.resumeTurn(x, j, request)
}

// resumeTurn continues the answer that the path of a call names.
func (a *API) resumeTurn(x *exchange.Exchange, j *job.Job, request *openai.TurnRequest) error {
	t, err := a.newTurn(x, j, request)
	if err != nil {
		return err
	}
	if err := a.Runs.Enter(x.Request.Context()); err != nil {
		return err
	}
	defer a.Runs.Leave()
	t.id = convo.AnswerID{Conversation: t.conversation.ID, Message: x.Values["item"]}
	return t.goOn()
}

// begin stores the question and that it is being answered.
func (t *turn) begin() (begun convo.Turn, err error) {
	wanted, err := t.wanted()
	if err != nil {
		return begun, err
	}
	k := t.api.Runs
	k.Claim(wanted.Answer)
	err = runs.Persist(t.x.Request.Context(), func(ctx context.Context) (err error) {
		begun, err = k.Within(history.QuotaOf(t.x.Identity)).BeginTurn(ctx, t.owner, t.conversation.ID, wanted,
			t.api.Now())
		return err
	})
	if err != nil || !begun.Begun {
		t.id = convo.AnswerID{Conversation: t.conversation.ID, Message: wanted.Answer, Process: wanted.Process}
		t.giveUp(err)
	}
	if err != nil {
		return begun, NotFound(t.x, err)
	}
	return begun, nil
}

// giveUp ends the claim on an answer that was not begun or taken up, because of
// err. If the store did not say so, it is told when it can be reached.
func (t *turn) giveUp(err error) {
	k, store, owner, id := t.api.Runs, t.api.Store, t.owner, t.id
	if runs.Unsure(err) {
		k.Enqueue(id.Message, func(ctx context.Context) error {
			m, missing := store.Message(ctx, owner, id.Conversation, id.Message)
			if missing != nil || m.Status != convo.InProgress || m.Process != id.Process {
				return missing
			}
			o := convo.Outcome{Status: convo.Failed, Err: shownReason(err), Usage: m.Usage, CostMicros: m.CostMicros}
			_, err := k.Writes.FinishTurn(ctx, owner, id, o, k.Now())
			return err
		})
	}
	k.End(id.Message)
}

// wanted says what turn is to be stored.
func (t *turn) wanted() (convo.NewTurn, error) {
	n := convo.NewTurn{
		Key:     t.x.Request.Header.Get("Idempotency-Key"),
		Parent:  t.request.Parent,
		Model:   t.model.ID,
		Process: t.api.Runs.Process,
		Answer:  convo.NewMessageID(),
	}
	if sibling := t.request.Edit + t.request.Again; sibling != "" { // one of the two at most
		m, err := t.api.Store.Message(t.x.Request.Context(), t.owner, t.conversation.ID, sibling)
		if errors.Is(err, convo.ErrNotFound) {
			return n, openai.ThingNotFound("Item", sibling)
		}
		if err != nil {
			return n, err
		}
		if n.Parent = m.Parent; n.Parent == "" {
			n.Parent = convo.Root
		}
	}
	if t.request.Question == nil {
		return n, nil
	}
	question, err := questionOf(t.request.Question)
	n.Question = &question
	return n, err
}

// questionOf returns what is said as one message: parts of text, or what tools
// gave.
func questionOf(items []openai.Item) (convo.NewMessage, error) {
	if items[0].Type == openai.ItemMessage {
		content, err := history.ContentOf(items[0])
		return convo.NewMessage{Role: "user", Content: content}, err
	}
	content, err := openai.Encode(items)
	return convo.NewMessage{Role: "tool", Content: content}, err
}

// goOn takes up an answer that was begun before. Text is kept and continued;
// thoughts and half calls are thought again.
func (t *turn) goOn() error {
	k := t.api.Runs
	if !k.Claim(t.id.Message) {
		return convo.ErrRunning
	}
	t.id.Process = k.Process
	var m convo.Message
	err := runs.Persist(t.x.Request.Context(), func(ctx context.Context) (err error) {
		m, err = k.Writes.ResumeTurn(ctx, t.owner, t.id, t.api.Now())
		return err
	})
	if err != nil {
		t.giveUp(err)
		t.x.Values["item"] = t.id.Message
		return ItemNotFound(t.x, err)
	}
	t.parent = m.Parent
	if kept := pieceOf(&m); len(kept.Calls) == 0 {
		t.told.said().Add(answer.Piece{Text: kept.Text})
	}
	return t.respond()
}

// ask has a turn that is stored as in progress answered: what the model says follows by reply.
// If there is nothing to follow, that is stored.
func (t *turn) ask() error {
	ctx := t.x.Request.Context()
	err := t.recall(ctx)
	if err == nil {
		t.answer, t.stop, err = t.job.Converse(ctx, t.model, &t.request.ChatRequest)
	}
	if err != nil {
		return errors.Join(err, t.finish(err))
	}
	t.x.Bytes.Release() // what is left of the body fits the context
	t.add(nil)          // followers learn that it was taken
	return nil
}

// reply sends what the model says, and stores how that ended, whatever happens.
func (t *turn) reply() error {
	defer t.stop()
	keeping := t.api.Runs.Checkpoint(t.owner, t.id, t.news, t.cancel)
	defer func() {
		if p := recover(); p != nil {
			keeping.Stop()
			_ = t.finish(parley.PanicError(p)) // the panic is what the log shows
			panic(p)
		}
	}()
	return t.deliver(t.x.Request.Context(), keeping)
}

// deliver sends the answer as it comes, or whole. Its end is sent when it is
// stored.
func (t *turn) deliver(ctx context.Context, keeping runs.Checkpointer) error {
	form := t.shapeFor(t.x, t.request)
	var out *exchange.EventStream
	if t.request.Stream && !t.request.Background {
		out = exchange.NewEventStream(t.x, 1)
	}
	err := t.follow(ctx, out, form)
	keeping.Stop()
	return t.conclude(err, out, form)
}

// conclude stores how the answer ended, and sends its end.
func (t *turn) conclude(err error, out *exchange.EventStream, form turnShape) error {
	if err != nil {
		return errors.Join(err, t.finish(err))
	}
	if err := t.finish(nil); err != nil {
		return err
	}
	t.titleLater()
	switch {
	case t.request.Background:
		return nil // followers are told
	case out != nil:
		return out.End(t.answer.Usage, form, t.request.IncludeUsage)
	}
	return t.x.Reply(http.StatusOK, form.whole(t.told.choices[:], t.answer.Usage))
}

// follow waits for the answer, piece by piece, and streams it if out is there.
func (t *turn) follow(ctx context.Context, out *exchange.EventStream, form exchange.Shape) error {
	ping := func() error { return nil } // followers are told where it stands all the same
	if out != nil {
		ping = out.Ping
	}
	return t.answer.Each(ctx, t.x.KeepAlive(ping), func(pieces []answer.Piece) error {
		t.add(pieces)
		if out == nil {
			return nil
		}
		return out.SendPieces(pieces, form)
	})
}

// add takes in what the model said, and wakes its followers.
func (t *turn) add(pieces []answer.Piece) {
	t.told.add(pieces, t.x.Record.PromptTokens(), t.x.Record.Model())
	t.api.Runs.Notify(t.id.Message)
}

// show answers with a turn that an earlier call with the same key completed.
func (t *turn) show(m *convo.Message) error {
	t.x.Record.SetModel(m.Model)
	form := t.shapeFor(t.x, t.request)
	p := pieceOf(m)
	if !t.request.Stream {
		t.told.said().Add(p)
		return t.x.Reply(http.StatusOK, form.whole(t.told.choices[:], m.Usage))
	}
	out := exchange.NewEventStream(t.x, 1)
	if err := out.SendPieces([]answer.Piece{p}, form); err != nil {
		return err
	}
	return out.End(m.Usage, form, t.request.IncludeUsage)
}

// start notes that the answer, which was claimed, is being written, so that it
// can be followed and stopped.
func (t *turn) start() {
	var ctx context.Context
	ctx, t.cancel = context.WithCancelCause(t.x.Request.Context())
	t.x.Request = t.x.Request.WithContext(ctx)
	t.job.Revocable(ctx, t.cancel)
	t.api.Runs.Begin(t.id.Message, t.cancel, t)
}

// run answers a turn that was started: what comes before the model's words here, and the
// rest as the request has it, then or after its handler.
func (t *turn) run(rest func(func() error) error) error {
	if err := guarded(t.ask); err != nil {
		return t.end(err)
	}
	return rest(func() error { return t.end(guarded(t.reply)) })
}

// end lets the followers of a turn know how it ended. It is stored by then.
func (t *turn) end(why error) error {
	t.cancel(nil)
	t.told.end(why)
	t.api.Runs.End(t.id.Message)
	t.api.Runs.Leave()
	return why
}

// guarded runs f. A panic in it becomes an error like any other.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = parley.PanicError(p)
		}
	}()
	return f()
}

// respond answers the turn: as it was asked for, or in the background, where
// its client is the first to follow it.
func (t *turn) respond() error {
	asking, a := t.x, t.api
	end := func(error) {}
	if t.request.Background {
		t.x, t.job, end = a.Runs.Detach(asking, t.job)
	}
	if err := a.Runs.Enter(t.x.Request.Context()); err != nil {
		defer a.Runs.End(t.id.Message)
		end(err)
		return errors.Join(err, t.finish(err))
	}
	t.start()
	if !t.request.Background {
		return t.run(t.x.Rest)
	}
	err := a.Runs.Go(func() {
		defer end(nil)
		t.compute()
	})
	if err != nil {
		defer a.Runs.Leave()
		defer a.Runs.End(t.id.Message)
		end(err)
		return errors.Join(err, t.finish(err))
	}
	return asking.Rest(func() error { return a.watch(asking, t, t.request) })
}

// compute answers a turn in the background, as a request of its own in metrics and log.
func (t *turn) compute() {
	t.x.Record.Infer()
	defer func() {
		t.x.Bytes.Release()
		t.job.Finish(t.x.Request.Context(), t.x.End())
	}()
	t.x.Record.Fail(t.run(t.x.Rest))
}
