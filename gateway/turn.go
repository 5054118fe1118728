package gateway

import (
	"context"
	"errors"
	"net/http"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/conversations"
	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/history"
	"parley/gateway/models"
	"parley/gateway/openai"
	"parley/gateway/runs"
)

// A turn is a question in a conversation while it is answered. The question is
// stored before it is answered, the answer while it grows and when it is
// complete; only then does the client hear the end.
type turn struct {
	call         *call
	gateway      *Gateway
	owner        convo.Owner
	conversation convo.Conversation
	model        *models.Model
	request      *openai.TurnRequest

	// id names the answer. parent is the message that it answers, and asked what
	// that says.
	id            convo.AnswerID
	parent, asked string
	// first is set if nothing was answered before.
	first bool
	// note tells what the model was not shown, nil if it was shown everything.
	note *openai.ContextNote

	// answer is what the model gives, once it was asked; told is what it said.
	answer *answer.Answer
	told   telling
	// cancel ends the answer while it is written here.
	cancel context.CancelCauseFunc
}

// say answers POST /v1/conversations/{id}/messages: it adds a question and has
// the model answer, like chat.
func (g *Gateway) say(c *call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	request, err := openai.ParseTurn(body)
	if err != nil {
		return err
	}
	return c.runStream(request.Stream, func() error { return g.answerTurn(c, request) })
}

// answerTurn stores a question and answers it.
func (g *Gateway) answerTurn(c *call, request *openai.TurnRequest) error {
	t, err := g.newTurn(c, request)
	if err != nil {
		return err
	}
	if err := g.runs.Enter(c.Request.Context()); err != nil {
		return err
	}
	defer g.runs.Leave()
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
	live := t.gateway.liveTurn(t.id.Message)
	switch {
	case begun.Begun:
		return t.respond()
	case begun.Answer.Status == convo.Completed:
		return t.show(&begun.Answer)
	case live != nil && t.request.Background:
		return t.gateway.watch(t.call, live, t.request)
	}
	err := t.goOn()
	if !errors.Is(err, convo.ErrComplete) {
		return err
	}
	m, err := t.gateway.config.Store.Message(t.call.Request.Context(), t.owner, t.id.Conversation, t.id.Message)
	if err != nil {
		return err
	}
	return t.show(&m)
}

// resume answers POST /v1/conversations/{id}/messages/{item}/resume: it goes on
// with an answer that broke off.
func (g *Gateway) resume(c *call) error {
	body, err := c.OptionalBody()
	if err != nil {
		return err
	}
	request, err := openai.ParseResume(body)
	if err != nil {
		return err
	}
	return c.runStream(request.Stream, func() error { return g.resumeTurn(c, request) })
}

// resumeTurn continues the answer that the path of a call names.
func (g *Gateway) resumeTurn(c *call, request *openai.TurnRequest) error {
	t, err := g.newTurn(c, request)
	if err != nil {
		return err
	}
	if err := g.runs.Enter(c.Request.Context()); err != nil {
		return err
	}
	defer g.runs.Leave()
	t.id = convo.AnswerID{Conversation: t.conversation.ID, Message: c.Values["item"]}
	return t.goOn()
}

// newTurn finds the conversation that a call names, and the model that answers.
func (g *Gateway) newTurn(c *call, request *openai.TurnRequest) (*turn, error) {
	t := &turn{call: c, gateway: g, owner: history.OwnerOf(&c.Identity), request: request}
	var err error
	if t.conversation, err = g.config.Store.Conversation(c.Request.Context(), t.owner, c.Values["id"]); err != nil {
		return nil, conversations.NotFound(c.Exchange, err)
	}
	request.Session = openai.ConversationSession(t.conversation.ID)
	if request.Model == "" {
		request.Model = t.conversation.Model
	}
	t.model, err = c.job.Model(request.Model)
	return t, err
}

// begin stores the question and that it is being answered.
func (t *turn) begin() (begun convo.Turn, err error) {
	wanted, err := t.wanted()
	if err != nil {
		return begun, err
	}
	k := t.gateway.runs
	k.Claim(wanted.Answer)
	err = runs.Persist(t.call.Request.Context(), func(ctx context.Context) (err error) {
		begun, err = t.call.runStoreFor().BeginTurn(ctx, t.owner, t.conversation.ID, wanted, t.gateway.config.Now())
		return err
	})
	if err != nil || !begun.Begun {
		t.id = convo.AnswerID{Conversation: t.conversation.ID, Message: wanted.Answer, Process: wanted.Process}
		t.giveUp(err)
	}
	if err != nil {
		return begun, conversations.NotFound(t.call.Exchange, err)
	}
	return begun, nil
}

// giveUp ends the claim on an answer that was not begun or taken up, because of
// err. If the store did not say so, it is told when it can be reached.
func (t *turn) giveUp(err error) {
	k, store, owner, id := t.gateway.runs, t.gateway.config.Store, t.owner, t.id
	if runs.Unsure(err) {
		k.Enqueue(id.Message, func(ctx context.Context) error {
			m, missing := store.Message(ctx, owner, id.Conversation, id.Message)
			if missing != nil || m.Status != convo.InProgress || m.Process != id.Process {
				return missing
			}
			o := convo.Outcome{Status: convo.Failed, Err: shownReason(err), Usage: m.Usage, CostMicros: m.CostMicros}
			_, err := k.Store.FinishTurn(ctx, owner, id, o, k.Now())
			return err
		})
	}
	k.End(id.Message)
}

// wanted says what turn is to be stored.
func (t *turn) wanted() (convo.NewTurn, error) {
	n := convo.NewTurn{
		Key:     t.call.Request.Header.Get("Idempotency-Key"),
		Parent:  t.request.Parent,
		Model:   t.model.ID,
		Process: t.gateway.runs.Process,
		Answer:  convo.NewMessageID(),
	}
	if sibling := t.request.Edit + t.request.Again; sibling != "" { // one of the two at most
		m, err := t.gateway.config.Store.Message(t.call.Request.Context(), t.owner, t.conversation.ID, sibling)
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
	k := t.gateway.runs
	if !k.Claim(t.id.Message) {
		return convo.ErrRunning
	}
	t.id.Process = k.Process
	var m convo.Message
	err := runs.Persist(t.call.Request.Context(), func(ctx context.Context) (err error) {
		m, err = k.Store.ResumeTurn(ctx, t.owner, t.id, t.gateway.config.Now())
		return err
	})
	if err != nil {
		t.giveUp(err)
		t.call.Values["item"] = t.id.Message
		return conversations.ItemNotFound(t.call.Exchange, err)
	}
	t.parent = m.Parent
	if kept := pieceOf(&m); len(kept.Calls) == 0 {
		t.told.said().Add(answer.Piece{Text: kept.Text})
	}
	return t.respond()
}

// reply answers a turn that is stored as in progress, and stores how that
// ended, whatever happens.
func (t *turn) reply() error {
	ctx := t.call.Request.Context()
	err := t.recall(ctx)
	if err != nil {
		return errors.Join(err, t.finish(err))
	}
	answer, stop, err := t.call.job.Converse(ctx, t.model, &t.request.ChatRequest)
	if err != nil {
		return errors.Join(err, t.finish(err))
	}
	defer stop()
	t.call.Bytes.Release() // what is left of the body fits the context
	t.answer = answer
	t.add(nil) // those who follow learn that it was taken
	keeping := t.gateway.runs.Checkpoint(t.owner, t.id, t.news, t.cancel)
	defer func() {
		if p := recover(); p != nil {
			keeping.Stop()
			_ = t.finish(parley.PanicError(p)) // the panic is what the log tells
			panic(p)
		}
	}()
	return t.deliver(ctx, keeping)
}

// deliver sends the answer as it comes, or whole. Its end is sent when it is
// stored.
func (t *turn) deliver(ctx context.Context, keeping *runs.Checkpointer) error {
	form := t.shapeFor(t.call, t.request)
	var out *exchange.EventStream
	if t.request.Stream && !t.request.Background {
		out = exchange.NewEventStream(t.call.Exchange, 1)
	}
	err := t.follow(ctx, out, form)
	keeping.Stop()
	if err != nil {
		return errors.Join(err, t.finish(err))
	}
	if err := t.finish(nil); err != nil {
		return err
	}
	t.titleLater()
	switch {
	case t.request.Background:
		return nil // those who follow are told
	case out != nil:
		return out.End(t.answer.Usage, form, t.request.IncludeUsage)
	}
	return t.call.Reply(http.StatusOK, form.whole(t.told.choices[:], t.answer.Usage))
}

// follow waits for the answer, piece by piece, and streams it if out is there.
func (t *turn) follow(ctx context.Context, out *exchange.EventStream, form exchange.Shape) error {
	ping := func() error { return nil } // followers are told where it stands all the same
	if out != nil {
		ping = out.Ping
	}
	return t.answer.Each(ctx, t.call.KeepAlive(ping), func(pieces []answer.Piece) error {
		t.add(pieces)
		if out == nil {
			return nil
		}
		return out.SendPieces(pieces, form)
	})
}

// add takes in what the model said, and tells those who follow.
func (t *turn) add(pieces []answer.Piece) {
	t.told.add(pieces, t.call.Record.PromptTokens())
	t.gateway.runs.Notify(t.id.Message)
}

// show answers with a turn that an earlier call with the same key completed.
func (t *turn) show(m *convo.Message) error {
	form := t.shapeFor(t.call, t.request)
	p := pieceOf(m)
	if !t.request.Stream {
		t.told.said().Add(p)
		return t.call.Reply(http.StatusOK, form.whole(t.told.choices[:], m.Usage))
	}
	out := exchange.NewEventStream(t.call.Exchange, 1)
	if err := out.SendPieces([]answer.Piece{p}, form); err != nil {
		return err
	}
	return out.End(m.Usage, form, t.request.IncludeUsage)
}
