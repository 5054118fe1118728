package responses

import (
	"net/http"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/history"
	"parley/gateway/job"
	"parley/gateway/ledger"
	"parley/gateway/models"
	"parley/gateway/openai"
	"parley/gateway/tenant"
)

// Create answers POST /v1/responses: like chat, but in items, with
// what was said before recalled, and what is said now remembered.
func (a *Handlers) Create(x *exchange.Exchange, j *job.Job) error {
	request, err := exchange.Read(x, openai.ParseResponse)
	if err != nil {
		return err
	}
	var out exchange.EventSink
	if request.Stream {
		x.Detach()
		out = x.NamedStream()
	}
	return a.Respond(x, j, request, out)
}

// Respond answers a request as events to out, or whole if out is nil.
func (a *Handlers) Respond(
	x *exchange.Exchange, j *job.Job, request *openai.ResponseRequest, out exchange.EventSink,
) error {
	if err := checkStoring(x.Identity, request); err != nil {
		return err
	}
	if request.Background && a.Runs == nil {
		return parley.Invalid("background", "This server stores no responses, so none can continue in the background.")
	}
	if err := a.prepare(x, j, request); err != nil {
		return err
	}
	if request.Background {
		return a.respondLater(x, j, request, out)
	}
	r, err := a.newReply(x, x, j, request)
	if err != nil {
		return err
	}
	if r.found != nil {
		r.leave()
		return a.showFound(x, r.found.ID, out)
	}
	return x.Rest(func() error {
		defer r.close()
		if out == nil {
			return r.whole()
		}
		return r.stream(out)
	})
}

// checkStoring lets callers without a credential have answers that are not stored, and
// nothing that is.
func checkStoring(who *tenant.Identity, request *openai.ResponseRequest) error {
	switch {
	case !who.Anonymous:
		return nil
	case request.StoreGiven && request.Shape.Store, request.Background:
		return openai.MissingToken()
	}
	request.Shape.Store = false
	return nil
}

// prepare makes the request's messages: what was said before, and its input,
// as much of it as fits.
func (a *Handlers) prepare(x *exchange.Exchange, j *job.Job, request *openai.ResponseRequest) error {
	model, err := j.Model(request.Model)
	if err != nil {
		return err
	}
	request.Shape.Model = model.ID
	begun := a.Now()
	past, err := history.Recall(x.Request.Context(), a.Store, x.Identity, request)
	x.Record.Took(ledger.History, begun)
	if err != nil {
		return err
	}
	request.Messages, _ = openai.MessagesOf(request.Instructions, append(past, request.Input...))
	if len(request.Messages) == 0 {
		return parley.Invalid("input", "There is nothing to answer: send 'input'.")
	}
	if !request.Drop {
		return nil
	}
	fit, err := model.Fit(j.Tier(), convo.Drop, &request.ChatRequest, 0)
	if err != nil {
		return err
	}
	request.Messages = models.Without(request.Messages, fit.Out)
	request.Shape.DroppedItems = len(fit.Out)
	return nil
}

// respondLater answers in the background: the client sees the response as it
// stands, or follows it.
func (a *Handlers) respondLater(
	x *exchange.Exchange, j *job.Job, request *openai.ResponseRequest, out exchange.EventSink,
) error {
	alone, next, end := a.Runs.Detach(x, j)
	r, err := a.newReply(x, alone, next, request)
	if err != nil {
		end(err)
		return err
	}
	if r.found != nil {
		r.leave()
		end(nil)
		return a.showFound(x, r.found.ID, out)
	}
	shown, id := r.log.Response, r.id
	shown.Status = string(convo.Queued)
	err = a.Runs.Go(func() { // r is not ours from here on
		defer end(nil)
		defer r.close()
		r.compute()
	})
	if err != nil {
		r.close()
		end(err)
		return err
	}
	if out != nil {
		return x.Rest(func() error { return a.follow(x, history.OwnerOf(x.Identity), id, -1, out) })
	}
	return x.Reply(http.StatusOK, shown)
}

// compute answers in the background, as a request of its own in metrics and
// log.
func (r *reply) compute() {
	r.x.Record.Infer()
	defer func() {
		r.x.Bytes.Release()
		r.job.Finish(r.x.Request.Context(), r.x.End())
	}()
	defer func() {
		if p := recover(); p != nil {
			err := parley.PanicError(p)
			r.x.Record.Fail(err)
			_ = r.failed(err) // the panic is what the log shows
		}
	}()
	if err := r.stream(exchange.Discard{}); err != nil {
		r.x.Record.Fail(err)
	}
}

// showFound answers with a response that an earlier call with the same key
// made.
func (a *Handlers) showFound(x *exchange.Exchange, id string, out exchange.EventSink) error {
	if out != nil {
		return x.Rest(func() error { return a.follow(x, history.OwnerOf(x.Identity), id, -1, out) })
	}
	for {
		r, err := a.storedResponse(x, id)
		if err != nil {
			return err
		}
		if r.Background || r.Status.Ended() {
			return a.replyStored(x, &r)
		}
		if err := a.Runs.AwaitNews(x.Request.Context(), id); err != nil {
			return err
		}
	}
}

// CountInputTokens answers POST /v1/responses/input_tokens.
func (a *Handlers) CountInputTokens(x *exchange.Exchange, j *job.Job) error {
	request, err := exchange.Read(x, openai.ParseInputTokens)
	if err != nil {
		return err
	}
	if err := a.prepare(x, j, request); err != nil {
		return err
	}
	model, err := j.Model(request.Model)
	if err != nil {
		return err
	}
	prompt, _, err := model.Render(&request.ChatRequest)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK,
		openai.InputTokens{Object: "response.input_tokens", InputTokens: model.PromptTokens(prompt)})
}
