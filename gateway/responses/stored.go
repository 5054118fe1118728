package responses

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/history"
	"parley/gateway/openai"
	"parley/gateway/runs"
)

// storedResponse returns the response of that id, if it is the caller's.
func (a *Handlers) storedResponse(x *exchange.Exchange, id string) (convo.Response, error) {
	if a.Runs == nil {
		return convo.Response{}, openai.ThingNotFound("Response", id)
	}
	r, err := a.Store.Response(x.Request.Context(), history.OwnerOf(x.Identity), id)
	if errors.Is(err, convo.ErrNotFound) {
		err = openai.ThingNotFound("Response", id)
	}
	return r, err
}

// Show answers GET /v1/responses/{id}: the response as it is now, or
// its events after a number, and those to come.
func (a *Handlers) Show(x *exchange.Exchange) error {
	r, err := a.storedResponse(x, x.Values["id"])
	if err != nil {
		return err
	}
	query := x.Request.URL.Query()
	if query.Get("stream") != "true" {
		return a.replyStored(x, &r)
	}
	after := int64(-1)
	if text := query.Get("starting_after"); text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < -1 {
			return parley.Invalid("starting_after",
				"Invalid 'starting_after': expected the number of an event, 0 or more.")
		}
	}
	return x.RunStream(true, func() error {
		return a.follow(x, history.OwnerOf(x.Identity), r.ID, after, x.NamedStream())
	})
}

// replyStored sends a stored response as one document.
func (a *Handlers) replyStored(x *exchange.Exchange, r *convo.Response) error {
	shape, err := a.shapeOf(x.Request.Context(), history.OwnerOf(x.Identity), r)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, shape)
}

// Delete answers DELETE /v1/responses/{id}.
func (a *Handlers) Delete(x *exchange.Exchange) error {
	id := x.Values["id"]
	if _, err := a.storedResponse(x, id); err != nil {
		return err
	}
	if err := a.Store.DeleteResponse(x.Request.Context(), history.OwnerOf(x.Identity), id); err != nil {
		return err
	}
	a.Runs.Cancel(id, runs.ErrCancelled)
	return x.Reply(http.StatusOK, openai.DeletedResponse{ID: id, Object: "response", Deleted: true})
}

// Cancel answers POST /v1/responses/{id}/cancel.
func (a *Handlers) Cancel(x *exchange.Exchange) error {
	id := x.Values["id"]
	r, err := a.storedResponse(x, id)
	if err != nil {
		return err
	}
	if !r.Background {
		return parley.Invalid("",
			"Cannot cancel a synchronous response: only those made with 'background' can be. Close the connection "+
				"instead.")
	}
	if r, err = a.Store.CancelResponse(x.Request.Context(), history.OwnerOf(x.Identity), id); err != nil {
		return err
	}
	a.Runs.Cancel(id, runs.ErrCancelled)
	for began := a.Now(); !r.Status.Ended() && a.Now().Sub(began) < runs.CancelWait; {
		if err := a.Runs.AwaitNews(x.Request.Context(), id); err != nil {
			return err
		}
		if r, err = a.storedResponse(x, id); err != nil {
			return err
		}
	}
	return a.replyStored(x, &r)
}

// ListInputItems answers GET /v1/responses/{id}/input_items, newest first
// unless the client says otherwise.
func (a *Handlers) ListInputItems(x *exchange.Exchange) error {
	id := x.Values["id"]
	if _, err := a.storedResponse(x, id); err != nil {
		return err
	}
	page, err := history.ParsePage(x.Request.URL.Query())
	if err != nil {
		return err
	}
	list, err := a.Store.ResponseItems(x.Request.Context(), history.OwnerOf(x.Identity), id, convo.Input, page)
	if errors.Is(err, convo.ErrNotFound) {
		return openai.ThingNotFound("Item", page.After+page.Before)
	}
	if err != nil {
		return err
	}
	items, err := history.ParseItems(list.Items)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, history.ListOf(list, items))
}

// shapeOf returns what the client sees of a stored response.
func (a *Handlers) shapeOf(ctx context.Context, owner convo.Owner, r *convo.Response) (json.RawMessage, error) {
	if len(r.Body) > 0 {
		return r.Body, nil
	}
	var shown openai.Response
	if err := json.Unmarshal(r.Request, &shown); err != nil {
		return nil, err
	}
	shown.ID, shown.CreatedAt, shown.Status = r.ID, r.Created.Unix(), string(r.Status)
	if r.Status.Ended() { // its process died
		if err := a.replay(ctx, owner, r.ID, &shown); err != nil {
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
func (a *Handlers) replay(ctx context.Context, owner convo.Owner, id string, shown *openai.Response) error {
	for after := int64(-1); ; {
		page, err := a.Store.Events(ctx, owner, id, after, convo.EventBatchMax)
		if err != nil {
			return err
		}
		for _, e := range page.Events {
			if err := replay(shown, e); err != nil {
				return err
			}
		}
		after += int64(len(page.Events))
		if !page.More {
			interrupt(shown)
			return nil
		}
	}
}
