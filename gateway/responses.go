package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/history"
	"parley/gateway/ledger"
	"parley/gateway/models"
	"parley/gateway/openai"
)

// createResponse answers POST /v1/responses: like chat, but in items, with
// what was said before recalled, and what is said now remembered.
func (g *Gateway) createResponse(c *call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	request, err := openai.ParseResponse(body)
	if err != nil {
		return err
	}
	return c.runStream(request.Stream, func() error {
		var out exchange.EventSink
		if request.Stream {
			out = c.NamedStream()
		}
		return g.respond(c, request, out)
	})
}

// respond answers a request as events to out, or whole if out is nil.
func (g *Gateway) respond(c *call, request *openai.ResponseRequest, out exchange.EventSink) error {
	if err := c.checkStoring(request); err != nil {
		return err
	}
	if request.Background && g.runs == nil {
		return parley.Invalid("background", "This server stores no responses, so none can go on in the background.")
	}
	if err := g.prepare(c, request); err != nil {
		return err
	}
	if request.Background {
		return g.respondLater(c, request, out)
	}
	r, err := g.newReply(c, c, request)
	if err != nil {
		return err
	}
	if r.found != nil {
		r.leave()
		return c.showFound(r.found.ID, out)
	}
	defer r.close()
	if out == nil {
		return r.whole()
	}
	return r.stream(out)
}

// checkStoring lets callers without a credential have answers that are not stored, and
// nothing that is.
func (c *call) checkStoring(request *openai.ResponseRequest) error {
	switch {
	case !c.Identity.Anonymous:
		return nil
	case request.StoreGiven && request.Shape.Store, request.Background:
		return openai.MissingToken()
	}
	request.Shape.Store = false
	return nil
}

// prepare makes the request's messages: what was said before, and its input,
// as much of it as fits.
func (g *Gateway) prepare(c *call, request *openai.ResponseRequest) error {
	model, err := c.job.Model(request.Model)
	if err != nil {
		return err
	}
	request.Shape.Model = model.ID
	begun := g.config.Now()
	past, err := history.Recall(c.Request.Context(), g.config.Store, &c.Identity, request)
	c.Record.Took(ledger.History, begun)
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
	fit, err := model.Fit(c.job.Tier(), convo.Drop, &request.ChatRequest, 0)
	if err != nil {
		return err
	}
	request.Messages = models.Without(request.Messages, fit.Out)
	request.Shape.DroppedItems = len(fit.Out)
	return nil
}

// respondLater answers in the background: the client sees the response as it
// stands, or follows it.
func (g *Gateway) respondLater(c *call, request *openai.ResponseRequest, out exchange.EventSink) error {
	alone, cancel := g.detach(c)
	r, err := g.newReply(c, alone, request)
	if err != nil {
		cancel(err)
		return err
	}
	if r.found != nil {
		r.leave()
		cancel(nil)
		return c.showFound(r.found.ID, out)
	}
	shown, id := r.log.Response, r.id
	shown.Status = string(convo.Queued)
	err = g.runs.Go(func() { // r is not ours from here on
		defer cancel(nil)
		defer r.close()
		g.compute(alone, r)
	})
	if err != nil {
		r.close()
		cancel(err)
		return err
	}
	if out != nil {
		return g.follow(c, history.OwnerOf(&c.Identity), id, -1, out)
	}
	return c.Reply(http.StatusOK, shown)
}

// compute answers in the background, as a request of its own in metrics and
// log.
func (g *Gateway) compute(alone *call, r *reply) {
	alone.Record.Infer()
	defer g.finish(alone)
	defer func() {
		if p := recover(); p != nil {
			err := parley.PanicError(p)
			alone.Record.Fail(err)
			_ = r.failed(err) // the panic is what the log tells
		}
	}()
	if err := r.stream(exchange.Nowhere{}); err != nil {
		alone.Record.Fail(err)
	}
}

// showFound answers with a response that an earlier call with the same key
// made.
func (c *call) showFound(id string, out exchange.EventSink) error {
	if out != nil {
		return c.gateway.follow(c, history.OwnerOf(&c.Identity), id, -1, out)
	}
	for {
		r, err := c.gateway.storedResponse(c, id)
		if err != nil {
			return err
		}
		if r.Background || r.Status.Ended() {
			return c.replyStored(&r)
		}
		if err := c.gateway.runs.AwaitNews(c.Request.Context(), id); err != nil {
			return err
		}
	}
}

// countInputTokens answers POST /v1/responses/input_tokens.
func (g *Gateway) countInputTokens(c *call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	request, err := openai.ParseInputTokens(body)
	if err != nil {
		return err
	}
	if err := g.prepare(c, request); err != nil {
		return err
	}
	model, err := c.job.Model(request.Model)
	if err != nil {
		return err
	}
	prompt, _, err := model.Render(&request.ChatRequest)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, openai.InputTokens{Object: "response.input_tokens", InputTokens: len(prompt)})
}

// shapeOf returns what the client sees of a stored response.
func (g *Gateway) shapeOf(ctx context.Context, owner convo.Owner, r *convo.Response) (json.RawMessage, error) {
	if len(r.Body) > 0 {
		return r.Body, nil
	}
	var shown openai.Response
	if err := json.Unmarshal(r.Request, &shown); err != nil {
		return nil, err
	}
	shown.ID, shown.CreatedAt, shown.Status = r.ID, r.Created.Unix(), string(r.Status)
	if r.Status.Ended() { // its process died
		if err := g.replay(ctx, owner, r.ID, &shown); err != nil {
			return nil, err
		}
		shown.Status, shown.Error = string(convo.Failed), openai.ResponseErrorOf(lostError(r), r.ID)
	}
	return openai.Encode(shown)
}

// lostError is why a response has an end but no outcome.
func lostError(r *convo.Response) error {
	if r.Err != nil {
		return r.Err
	}
	return errors.New("a response has ended without an outcome")
}

// replay rebuilds the output of a response from what is left of its events.
func (g *Gateway) replay(ctx context.Context, owner convo.Owner, id string, shown *openai.Response) error {
	for after := int64(-1); ; {
		page, err := g.config.Store.Events(ctx, owner, id, after, convo.EventBatchMax)
		if err != nil {
			return err
		}
		for _, e := range page.Events {
			if err := shown.Replay(e); err != nil {
				return err
			}
		}
		after += int64(len(page.Events))
		if !page.More {
			shown.Interrupt()
			return nil
		}
	}
}
