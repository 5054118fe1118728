package responses

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/history"
	"parley/gateway/job"
	"parley/gateway/models"
	"parley/gateway/openai"
	"parley/gateway/runs"
)

// A reply is one response while it is computed: pieces come from the answer,
// become events in the log, and go to its followers and to the store.
type reply struct {
	api    *Handlers
	x      *exchange.Exchange
	job    *job.Job
	owner  convo.Owner
	id     string
	model  *models.Model
	asked  requestSummary
	log    *eventLog
	answer *answer.Answer
	stop   func()
	// ctx ends the computation, also if that is asked for elsewhere.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// record is nil if the response is not stored. found is a response that an
	// earlier call with the same key made; then nothing is computed.
	record *runs.EventLog
	found  *convo.Response
	// begun says that events were made, kept that the store has the response,
	// ended that it has the outcome, too.
	begun, kept, ended bool
}

// A requestSummary is what is needed of a request while it is answered. The rest, which is larger than all else that
// an open stream has, goes when the answer begins.
type requestSummary struct {
	logprobs, promptOnly bool
	// conversation is where the response is added, empty for none, and input what goes before it.
	conversation string
	input        []openai.Item
}

// newReply starts the computation in the name of computing, and stores the
// response, if it is to be, in the name of asking.
func (a *Handlers) newReply(
	asking, computing *exchange.Exchange, j *job.Job, request *openai.ResponseRequest,
) (*reply, error) {
	r := &reply{
		api:   a,
		x:     computing,
		job:   j,
		owner: history.OwnerOf(asking.Identity),
		asked: requestSummary{
			logprobs:     request.Logprobs,
			promptOnly:   request.PromptOnly,
			conversation: request.Conversation,
		},
	}
	if request.Conversation != "" {
		r.asked.input = request.Input
	}
	var err error
	if r.model, err = j.Model(request.Model); err != nil {
		return nil, err
	}
	// What was answered before takes nothing of the caller's limits.
	if r.found, err = r.find(asking, request); r.found != nil || err != nil {
		return r, err
	}
	r.ctx, r.cancel = context.WithCancelCause(computing.Request.Context())
	computing.Request = computing.Request.WithContext(r.ctx)
	if r.answer, r.stop, err = j.Converse(r.ctx, r.model, &request.ChatRequest); err != nil {
		r.cancel(err)
		return nil, ofInput(err)
	}
	computing.Bytes.Release() // what is left of the body fits the context
	history.NameItems(request.Input)
	if err := r.create(asking, request); err != nil {
		r.cancel(err)
		r.stop()
		return nil, err
	}
	return r, nil
}

// ofInput names the field that holds the messages here.
func ofInput(err error) error {
	e, ok := errors.AsType[*parley.Error](err)
	if ok && (e.Code == parley.ContextTooLong || e.Code == parley.Filtered) {
		return &parley.Error{Code: e.Code, Message: e.Message, Param: "input"}
	}
	return err
}

// create gives the response its id, and stores it if the client did not
// decline.
func (r *reply) create(asking *exchange.Exchange, request *openai.ResponseRequest) error {
	shape, now := request.Shape, r.api.Now()
	k := r.api.Runs
	if k == nil || !shape.Store {
		shape.Store = false
		r.id = "resp_" + asking.Suffix
	} else if err := r.keep(asking, request, now); err != nil {
		return err
	}
	shape.ID, shape.CreatedAt = r.id, now.Unix()
	r.log = newEventLog(shape)
	return nil
}

// find returns the response that an earlier call with the same key made; nil if none did.
func (r *reply) find(asking *exchange.Exchange, asked *openai.ResponseRequest) (*convo.Response, error) {
	if r.api.Runs == nil || !asked.Shape.Store || asking.Request.Header.Get("Idempotency-Key") == "" {
		return nil, nil
	}
	fresh, err := r.fresh(asking, asked)
	if err != nil {
		return nil, err
	}
	found, err := r.api.Store.FindResponse(asking.Request.Context(), r.owner, fresh)
	if errors.Is(err, convo.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &found, nil
}

// fresh is a response that is not stored yet.
func (r *reply) fresh(asking *exchange.Exchange, asked *openai.ResponseRequest) (n convo.NewResponse, err error) {
	n = convo.NewResponse{
		ID:           convo.NewResponseID(),
		Key:          asking.Request.Header.Get("Idempotency-Key"),
		Previous:     asked.Previous,
		Conversation: asked.Conversation,
		Model:        r.model.ID,
		Background:   asked.Background,
		Process:      r.api.Runs.Process,
	}
	if n.Request, err = openai.Encode(asked.Shape); err != nil {
		return n, err
	}
	n.Input, err = history.StoreItems(asked.Input)
	return n, err
}

// keep stores the response before it is answered.
func (r *reply) keep(asking *exchange.Exchange, asked *openai.ResponseRequest, now time.Time) error {
	k := r.api.Runs
	ctx := asking.Request.Context()
	fresh, err := r.fresh(asking, asked)
	if err != nil {
		return err
	}
	if err := k.Enter(ctx); err != nil {
		return err
	}
	k.Claim(fresh.ID)
	var stored convo.Response
	err = runs.Persist(ctx, func(ctx context.Context) (err error) {
		stored, err = r.api.Runs.Within(history.QuotaOf(asking.Identity)).CreateResponse(ctx, r.owner, fresh, now)
		return err
	})
	if runs.Unsure(err) {
		store, owner := r.api.Store, r.owner
		k.Enqueue(fresh.ID, func(ctx context.Context) error { return store.DeleteResponse(ctx, owner, fresh.ID) })
	}
	if err != nil || stored.ID != fresh.ID {
		k.End(fresh.ID)
		k.Leave()
	}
	if err != nil {
		return explain(err, asked)
	}
	r.id = stored.ID
	if r.id != fresh.ID {
		r.found = &stored
		return nil
	}
	k.Begin(r.id, r.cancel, nil)
	r.record, r.kept = k.Record(r.owner, r.id, r.cancel), true
	return nil
}

// explain names what was not found.
func explain(err error, asked *openai.ResponseRequest) error {
	switch {
	case !errors.Is(err, convo.ErrNotFound):
		return err
	case asked.Conversation != "":
		return openai.ThingNotFound("Conversation", asked.Conversation)
	}
	return openai.PreviousNotFound(asked.Previous)
}

// errAbandoned is the outcome of a response that has none of its own.
var errAbandoned = errors.New("the response was left without an outcome")

// close lets go of everything, when the response has ended.
func (r *reply) close() {
	r.cancel(nil)
	r.stop()
	if r.kept && !r.ended {
		if err := r.failed(errAbandoned); err != nil {
			r.api.Log.Error("response without outcome", "id", r.id, "error", err)
		}
	}
	if r.kept {
		r.api.Runs.End(r.id)
		r.api.Runs.Leave()
	}
}

// leave lets go of a response that is not computed, as it was found.
func (r *reply) leave() {
	if r.stop != nil { // another call with the same key was faster
		r.job.Void()
		r.stop()
	}
}

// whole waits for the answer and sends it as one document.
func (r *reply) whole() error {
	choices, err := r.answer.Collect(r.ctx)
	r.log.Begin()
	if err != nil {
		return errors.Join(err, r.failed(err))
	}
	for _, w := range choices {
		r.add(new(w.Piece()))
	}
	if err := r.complete(exchange.Discard{}); err != nil {
		return err
	}
	return r.x.Reply(http.StatusOK, r.log.Response)
}

// stream sends the answer as events. An error that comes before the first of
// them keeps its status.
func (r *reply) stream(out exchange.EventSink) error {
	err := r.answer.Each(r.ctx, r.x.KeepAlive(func() error { return r.ping(out) }),
		func(pieces []answer.Piece) error {
			for i := range pieces {
				r.begin()
				r.add(&pieces[i])
			}
			return r.flush(out)
		})
	if err != nil {
		return r.broken(err, out)
	}
	r.begin()
	return r.complete(out)
}

// ping keeps a silent connection open. The first one begins the response.
func (r *reply) ping(out exchange.EventSink) error {
	if r.begun {
		return out.Ping()
	}
	return r.flush(out)
}

func (r *reply) begin() {
	if !r.begun {
		r.begun = true
		r.log.Begin()
	}
}

// add turns a piece into events.
func (r *reply) add(p *answer.Piece) {
	if p.Reasoning != "" {
		r.log.Think(p.Reasoning)
	}
	if p.Text != "" {
		r.log.Say(p.Text, r.logprobs(p.Tokens))
	}
	for _, c := range p.Calls {
		r.log.Call(c)
	}
	if p.Finish != "" {
		r.x.Record.SetFinish(p.Finish)
	}
}

func (r *reply) logprobs(tokens []answer.ShownToken) (list []openai.TokenLogprob) {
	if !r.asked.logprobs {
		return nil
	}
	for _, t := range tokens {
		list = append(list, r.model.TokenLogprob(t.Logprob))
	}
	return list
}

// flush sends the events there are, beginning with the first of all.
func (r *reply) flush(out exchange.EventSink) error {
	r.begin()
	_, events := r.log.Take()
	if r.record != nil {
		r.record.Add(events)
	}
	return out.Send(events)
}

// cutBy says why a response is incomplete, by why its text ended.
var cutBy = map[parley.Finish]string{parley.FinishLength: "max_output_tokens", answer.FinishFiltered: "content_filter"}

// complete ends a response that went well. The client is told after the store:
// what it reads to the end can be followed.
func (r *reply) complete(out exchange.EventSink) error {
	r.log.Response.Model = r.x.Record.Model() // another than was asked for may have answered
	finish := r.x.Record.Finish()
	now := r.api.Now()
	cut := cutBy[finish]
	if r.asked.promptOnly {
		cut = ""
	}
	r.log.Complete(cut, r.answer.Usage, now.Unix())
	status := convo.Completed
	if cut != "" {
		status = convo.Incomplete
	}
	_, events := r.log.Take()
	if err := r.finish(status, events, nil); err != nil {
		if !r.begun {
			return err
		}
		return r.tell(err, out)
	}
	return out.Send(events)
}

// broken ends a response that did not go well. If events were sent, the client
// learns why from the last one.
func (r *reply) broken(err error, out exchange.EventSink) error {
	if cause := context.Cause(r.ctx); cause != nil && r.ctx.Err() != nil {
		err = cause
	}
	begun := r.begun
	r.begin()
	if kept := r.failed(err); kept != nil {
		err = errors.Join(err, kept)
	}
	if !begun || openai.CodeOf(err) == parley.Cancelled {
		return err
	}
	r.x.Record.Fail(err)
	_, events := r.log.Take()
	return out.Send(events)
}

// failed stores that the response failed, or that its client did not want it any more.
func (r *reply) failed(err error) error {
	status := convo.Failed
	if openai.CodeOf(err) == parley.Cancelled {
		status = convo.Cancelled
		r.log.Cancel()
	} else {
		r.log.Fail(openai.ResponseErrorOf(err, r.x.Record.ID))
	}
	events := r.log.Peek()
	why, ok := errors.AsType[*parley.Error](err)
	if !ok {
		why = parley.Errorf(parley.Internal, "The server had an error.")
	}
	return r.finish(status, events, why)
}

// tell sends an error that is not the response's own as the last event.
func (r *reply) tell(err error, out exchange.EventSink) error {
	r.x.Record.Fail(err)
	detail := openai.Describe(err, r.x.Record.ID).Body.Error
	event, failed := openai.Encode(NewErrorEvent(detail, r.log.Next()))
	if failed != nil {
		return failed
	}
	return out.Send([]json.RawMessage{event})
}

// finish stores how the response ended, with its last events.
func (r *reply) finish(status convo.Status, events []json.RawMessage, why *parley.Error) error {
	if r.record == nil {
		return nil
	}
	r.record.Add(events)
	outcome, err := r.outcome(status, why)
	if err != nil {
		return err
	}
	k, owner, id, record := r.api.Runs, r.owner, r.id, r.record
	err = k.Settle(r.ctx, id, func(ctx context.Context) (err error) {
		if outcome.Batch, err = record.Close(ctx); err != nil {
			return err
		}
		_, err = k.Writes.FinishResponse(ctx, owner, id, outcome, k.Now())
		return err
	})
	r.ended = runs.Settled(err) || runs.Unsure(err)
	return err
}

func (r *reply) outcome(status convo.Status, why *parley.Error) (o convo.ResponseOutcome, err error) {
	r.job.Settle()
	o = convo.ResponseOutcome{Status: status, Usage: r.answer.Usage, CostMicros: int64(r.x.Record.Cost()), Err: why}
	if o.Body, err = openai.Encode(r.log.Response); err != nil {
		return o, err
	}
	if o.Output, err = history.StoreItems(r.log.Response.Output); err != nil {
		return o, err
	}
	if r.asked.conversation == "" || why != nil {
		return o, nil
	}
	for _, item := range append(append([]openai.Item{}, r.asked.input...), r.log.Response.Output...) {
		m := convo.NewMessage{ID: item.ID, Kind: item.Type, Role: item.Role, Model: r.log.Response.Model}
		if m.Content, err = history.ContentOf(item); err != nil {
			return o, err
		}
		o.Messages = append(o.Messages, m)
	}
	return o, nil
}
