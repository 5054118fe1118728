package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/openai"
)

// A turn is a question in a conversation while it is answered. The question is
// stored before it is answered, the answer while it grows and when it is
// complete; only then does the client hear the end.
type turn struct {
	call         *call
	gateway      *Gateway
	owner        convo.Owner
	conversation convo.Conversation
	model        *model
	request      *openai.TurnRequest
	id           convo.AnswerID
	// parent is the message that is answered, asked what it says.
	parent, asked string
	answer        *answer
	cancel        context.CancelCauseFunc
	note          *openai.ContextNote
	// first is set if nothing was answered before.
	first bool

	mu sync.Mutex
	// choices has one entry: what was said so far, kept from before included.
	choices []whole
	said    *whole
	changed bool
	// progress is how far the prompt is; over says that why is how it ended.
	progress *parley.Progress
	over     bool
	why      error
	// promptTokens and outputTokens count what the model was shown and has said.
	promptTokens, outputTokens int
}

// say answers POST /v1/conversations/{id}/messages: it adds a question and has
// the model answer, like chat.
func (g *Gateway) say(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	request, err := openai.ParseTurn(body)
	if err != nil {
		return err
	}
	t, err := g.newTurn(c, request)
	if err != nil {
		return err
	}
	begin, err := t.begin()
	if err != nil {
		return err
	}
	if err := g.keeper.enter(c.request.Context()); err != nil {
		return err
	}
	defer g.keeper.leave()
	var begun convo.Turn
	err = persist(c.request.Context(), func(ctx context.Context) (err error) {
		begun, err = g.keeper.store.BeginTurn(ctx, t.owner, t.conversation.ID, begin, g.config.Now())
		return err
	})
	if err != nil {
		return c.noConversation(err)
	}
	t.id, t.parent, t.asked = begun.ID(), begun.Answer.Parent, begun.Question.Text
	switch {
	case begun.Begun:
		return t.respond()
	case begun.Answer.Status == convo.Completed:
		return t.show(&begun.Answer)
	}
	if live := g.keeper.turn(t.id.Message); live != nil && request.Background {
		return g.watch(c, live, request)
	}
	return t.goOn()
}

// resume answers POST /v1/conversations/{id}/messages/{item}/resume: it goes on
// with an answer that broke off.
func (g *Gateway) resume(c *call) error {
	body, err := c.optionalBody()
	if err != nil {
		return err
	}
	request, err := openai.ParseResume(body)
	if err != nil {
		return err
	}
	t, err := g.newTurn(c, request)
	if err != nil {
		return err
	}
	if err := g.keeper.enter(c.request.Context()); err != nil {
		return err
	}
	defer g.keeper.leave()
	t.id = convo.AnswerID{Conversation: t.conversation.ID, Message: c.values["item"]}
	return t.goOn()
}

func (g *Gateway) newTurn(c *call, request *openai.TurnRequest) (*turn, error) {
	t := &turn{call: c, gateway: g, owner: ownerOf(c), request: request, choices: make([]whole, 1)}
	t.said = &t.choices[0]
	var err error
	if t.conversation, err = g.keeper.store.Conversation(c.request.Context(), t.owner, c.values["id"]); err != nil {
		return nil, c.noConversation(err)
	}
	if request.Model == "" {
		request.Model = t.conversation.Model
	}
	t.model, err = g.model(request.Model)
	return t, err
}

// begin says what turn is to be stored.
func (t *turn) begin() (convo.NewTurn, error) {
	n := convo.NewTurn{
		Key: t.call.request.Header.Get("Idempotency-Key"), Parent: t.request.Parent, Model: t.model.ID, Process: t.gateway.keeper.process,
	}
	if other := t.request.Edit + t.request.Again; other != "" {
		m, err := t.gateway.keeper.store.Message(t.call.request.Context(), t.owner, t.conversation.ID, other)
		if errors.Is(err, convo.ErrNotFound) {
			return n, openai.ThingNotFound("Item", other)
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
		content, err := contentOf(items[0])
		return convo.NewMessage{Role: "user", Content: content}, err
	}
	content, err := openai.Encode(items)
	return convo.NewMessage{Role: "tool", Content: content}, err
}

// goOn takes up an answer that was begun before.
func (t *turn) goOn() error {
	t.id.Process = t.gateway.keeper.process
	m, err := t.gateway.keeper.store.ResumeTurn(t.call.request.Context(), t.owner, t.id, t.gateway.config.Now())
	if err != nil {
		t.call.values["item"] = t.id.Message
		return t.call.noItem(err)
	}
	t.parent = m.Parent
	kept := pieceOf(&m)
	if kept.text != "" && len(kept.calls) == 0 {
		t.said.add(piece{text: kept.text}) // thoughts and half calls are thought again
	}
	return t.respond()
}

// pieceOf returns what a stored answer says.
func pieceOf(m *convo.Message) (p piece) {
	for _, item := range itemsOfMessage(m) {
		switch item.Type {
		case openai.ItemMessage:
			p.text += item.Text()
		case openai.ItemReasoning:
			p.reasoning += item.Text()
		case openai.ItemFunctionCall:
			p.calls = append(p.calls, callPiece{index: len(p.calls), id: item.CallID, name: item.Name, arguments: item.Arguments})
		}
	}
	p.finish = m.Finish
	return p
}

// reply answers a turn that is stored as in progress, and stores how that
// ended, whatever happens.
func (t *turn) reply() error {
	ctx := t.call.request.Context()
	if err := t.recall(ctx); err != nil {
		return errors.Join(err, t.finish(err))
	}
	a, stop, err := t.call.converse(t.model, &t.request.ChatRequest)
	if err != nil {
		return errors.Join(err, t.finish(err))
	}
	defer stop()
	t.answer = a
	t.add(nil) // those who follow learn that it was taken
	keeping := t.gateway.keeper.checkpoint(t.owner, t.id, t.news, t.cancel)
	defer func() {
		if p := recover(); p != nil {
			keeping.stop()
			_ = t.finish(panicError(p)) // the panic is what the log tells
			panic(p)
		}
	}()
	return t.deliver(ctx, keeping)
}

// recall makes the messages of the request from the path to the question, as
// much of it as the conversation's policy shows the model.
func (t *turn) recall(ctx context.Context) error {
	path, err := t.gateway.recallPath(ctx, t.owner, t.conversation.ID, t.parent)
	if err != nil {
		return err
	}
	var items []openai.Item
	var from []int
	for i := range path {
		for _, item := range itemsOfMessage(&path[i]) {
			items, from = append(items, item), append(from, i)
		}
	}
	messages, upto := openai.MessagesOf(t.request.Instructions, items)
	t.request.Messages = messages
	t.first = !slices.ContainsFunc(messages, func(m openai.Message) bool { return m.Role == "assistant" })
	if text := t.said.text.String(); text != "" {
		t.request.Messages = append(messages, openai.Message{Role: "assistant", Content: text, HasContent: true})
		t.request.OpenTurn, t.request.ContinueFinal = false, true
	}
	fit, err := t.model.fit(t.call, t.conversation.Policy, &t.request.ChatRequest, t.call.summaryTokens(t.model))
	if err != nil || len(fit.Out) == 0 {
		return err
	}
	t.note = &openai.ContextNote{Type: openai.ContextPart, Policy: string(t.conversation.Policy), Messages: len(fit.Out)}
	kept := without(t.request.Messages, fit.Out)
	if fit.Summarise {
		old := forgotten{path: path}
		for _, i := range fit.Out {
			old.messages, old.at = append(old.messages, t.request.Messages[i]), append(old.at, from[upto[i]-1])
		}
		if kept, err = t.insertSummary(ctx, kept, &old); err != nil {
			return err
		}
	}
	t.request.Messages = kept
	return nil
}

// deliver sends the answer as it comes, or whole.
func (t *turn) deliver(ctx context.Context, keeping *checkpointer) error {
	form := t.shape()
	var s *stream
	if t.request.Stream && !t.request.Background {
		s = &stream{call: t.call, control: http.NewResponseController(t.call.response), opened: map[int]bool{}, unfinished: 1}
	}
	err := t.follow(ctx, s, form)
	keeping.stop()
	if err != nil {
		return errors.Join(err, t.finish(err))
	}
	if err := t.finish(nil); err != nil {
		return err
	}
	t.titleLater()
	if t.request.Background {
		return nil // those who follow are told
	}
	if s != nil {
		return s.end(t.answer.usage, form, t.request.IncludeUsage)
	}
	return t.call.reply(http.StatusOK, form.whole(t.choices, t.answer.usage))
}

// follow waits for the answer, piece by piece, and streams it if s is there.
func (t *turn) follow(ctx context.Context, s *stream, form shape) error {
	for !t.answer.over() {
		pieces, err := t.answer.next(ctx, t.gateway.config.KeepAlive)
		switch {
		case errors.Is(err, errSilence) && s != nil:
			err = s.ping()
		case errors.Is(err, errSilence):
			err = nil
		case err == nil:
			t.add(pieces)
			if s != nil {
				err = s.sendPieces(pieces, form)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) add(pieces []piece) {
	t.mu.Lock()
	for _, p := range pieces {
		t.said.add(p)
		t.changed = t.changed || p.progress == nil
		t.progress = cmp.Or(p.progress, t.progress)
		t.outputTokens = max(t.outputTokens, p.outputTokens)
	}
	t.promptTokens = t.call.story.promptTokens
	t.mu.Unlock()
	t.gateway.keeper.tell(t.id.Message)
}

// news returns the answer so far as it is stored, and whether there is more of
// it than when it was last asked.
func (t *turn) news() (json.RawMessage, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.changed {
		return nil, false
	}
	t.changed = false
	content, err := t.content("incomplete")
	return content, err == nil
}

// content is the answer as it is stored, with notes that the model is not shown.
func (t *turn) content(callStatus string, notes ...any) (json.RawMessage, error) {
	parts := append([]any{}, notes...)
	if t.note != nil {
		parts = append(parts, t.note)
	}
	if text := t.said.reasoning.String(); text != "" {
		parts = append(parts, openai.ItemPart{Type: "reasoning_text", Text: text})
	}
	if text := t.said.text.String(); text != "" {
		parts = append(parts, openai.ItemPart{Type: "output_text", Text: text})
	}
	for _, c := range t.said.calls {
		parts = append(parts, openai.Item{Type: openai.ItemFunctionCall, CallID: c.id, Name: c.name, Arguments: c.arguments.String(), Status: callStatus})
	}
	return openai.Encode(parts)
}

// finish stores how the answer ended.
func (t *turn) finish(why error) (err error) {
	o := convo.Outcome{Status: convo.Completed, Finish: t.said.finish}
	switch {
	case why != nil && openai.CodeOf(why) == parley.Cancelled:
		o.Status = convo.Cancelled
	case why != nil:
		o.Status = convo.Failed
	case t.said.finish == parley.FinishLength:
		o.Status = convo.Incomplete
	}
	if why != nil {
		o.Err = shownReason(why)
	}
	if t.answer != nil {
		o.Usage = t.answer.usage
	}
	if o.Content, err = t.content("completed", t.notes()...); err != nil {
		return err
	}
	return persist(t.call.request.Context(), func(ctx context.Context) error {
		_, err := t.gateway.keeper.store.FinishTurn(ctx, t.owner, t.id, o, t.gateway.config.Now())
		return err
	})
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

// show answers with a turn that an earlier call with the same key completed.
func (t *turn) show(m *convo.Message) error {
	form := t.shape()
	p := pieceOf(m)
	t.said.add(p)
	if !t.request.Stream {
		return t.call.reply(http.StatusOK, form.whole(t.choices, m.Usage))
	}
	s := &stream{call: t.call, control: http.NewResponseController(t.call.response), opened: map[int]bool{}, unfinished: 1}
	if err := s.sendPieces([]piece{p}, form); err != nil {
		return err
	}
	return s.end(m.Usage, form, t.request.IncludeUsage)
}

// A turnShape makes chat answers that say where in the conversation they
// stand.
type turnShape struct {
	*chatShape
	turn *turn
}

func (t *turn) shape() turnShape {
	return turnShape{newChatShape(t.call, t.model, &t.request.Generation), t}
}

func (s turnShape) place() openai.TurnPlace {
	return openai.TurnPlace{ConversationID: s.turn.conversation.ID, MessageID: s.turn.id.Message, QuestionID: s.turn.parent, Context: s.turn.note}
}

func (s turnShape) placed(inner any) any {
	return openai.TurnChunk{ChatChunk: inner.(openai.ChatChunk), TurnPlace: s.place()}
}

func (s turnShape) opening(choice int) any { return s.placed(s.chatShape.opening(choice)) }
func (s turnShape) content(p piece) any    { return s.chatShape.content(p) }
func (s turnShape) closing(choice int, finish parley.Finish, timings *openai.Timings) any {
	return s.placed(s.chatShape.closing(choice, finish, timings))
}
func (s turnShape) usage(u openai.Usage, timings *openai.Timings) any {
	return s.placed(s.chatShape.usage(u, timings))
}

func (s turnShape) whole(choices []whole, u parley.Usage) openai.TurnResponse {
	return openai.TurnResponse{ChatResponse: s.chatShape.whole(choices, u), TurnPlace: s.place()}
}
