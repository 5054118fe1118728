package gateway

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/history"
	"parley/gateway/openai"
	"parley/gateway/runs"
)

// storedResponse returns the response of that id, if it is the caller's.
func (g *Gateway) storedResponse(c *call, id string) (convo.Response, error) {
	if g.runs == nil {
		return convo.Response{}, openai.ThingNotFound("Response", id)
	}
	r, err := g.config.Store.Response(c.Request.Context(), history.OwnerOf(&c.Identity), id)
	if errors.Is(err, convo.ErrNotFound) {
		err = openai.ThingNotFound("Response", id)
	}
	return r, err
}

// showResponse answers GET /v1/responses/{id}: the response as it is now, or
// its events after a number, and those to come.
func (g *Gateway) showResponse(c *call) error {
	r, err := g.storedResponse(c, c.Values["id"])
	if err != nil {
		return err
	}
	query := c.Request.URL.Query()
	if query.Get("stream") != "true" {
		return c.replyStored(&r)
	}
	after := int64(-1)
	if text := query.Get("starting_after"); text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < -1 {
			return parley.Invalid("starting_after",
				"Invalid 'starting_after': expected the number of an event, 0 or more.")
		}
	}
	return c.runStream(true, func() error {
		return g.follow(c, history.OwnerOf(&c.Identity), r.ID, after, c.NamedStream())
	})
}

// replyStored sends a stored response as one document.
func (c *call) replyStored(r *convo.Response) error {
	shape, err := c.gateway.shapeOf(c.Request.Context(), history.OwnerOf(&c.Identity), r)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, shape)
}

// deleteResponse answers DELETE /v1/responses/{id}.
func (g *Gateway) deleteResponse(c *call) error {
	id := c.Values["id"]
	if _, err := g.storedResponse(c, id); err != nil {
		return err
	}
	if err := g.config.Store.DeleteResponse(c.Request.Context(), history.OwnerOf(&c.Identity), id); err != nil {
		return err
	}
	g.runs.Cancel(id, runs.ErrCancelled)
	return c.Reply(http.StatusOK, openai.DeletedResponse{ID: id, Object: "response", Deleted: true})
}

// cancelWait is how long a cancellation waits to see the response end.
const cancelWait = 5 * time.Second

// cancelResponse answers POST /v1/responses/{id}/cancel.
func (g *Gateway) cancelResponse(c *call) error {
	id := c.Values["id"]
	r, err := g.storedResponse(c, id)
	if err != nil {
		return err
	}
	if !r.Background {
		return parley.Invalid("",
			"Cannot cancel a synchronous response: only those made with 'background' can be. Close the connection "+
				"instead.")
	}
	if r, err = g.config.Store.CancelResponse(c.Request.Context(), history.OwnerOf(&c.Identity), id); err != nil {
		return err
	}
	g.runs.Cancel(id, runs.ErrCancelled)
	for began := g.config.Now(); !r.Status.Ended() && g.config.Now().Sub(began) < cancelWait; {
		if err := g.runs.AwaitNews(c.Request.Context(), id); err != nil {
			return err
		}
		if r, err = g.storedResponse(c, id); err != nil {
			return err
		}
	}
	return c.replyStored(&r)
}

// listInputItems answers GET /v1/responses/{id}/input_items, newest first
// unless the client says otherwise.
func (g *Gateway) listInputItems(c *call) error {
	id := c.Values["id"]
	if _, err := g.storedResponse(c, id); err != nil {
		return err
	}
	page, err := history.ParsePage(c.Request.URL.Query())
	if err != nil {
		return err
	}
	list, err := g.config.Store.ResponseItems(c.Request.Context(), history.OwnerOf(&c.Identity), id, convo.Input, page)
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
	return c.Reply(http.StatusOK, history.ListOf(list, items))
}
