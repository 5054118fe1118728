package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/openai"
	"parley/gateway/runs"
)

// follow sends the stored events of a response after the one of that number,
// and those to come until it has ended.
func (g *Gateway) follow(c *call, owner convo.Owner, id string, after int64, out exchange.EventSink) error {
	ctx := c.Request.Context()
	silent := g.config.Now()
	last := ""
	for {
		news := g.runs.Changed(id)
		page, err := g.config.Store.Events(ctx, owner, id, after, followPage)
		if errors.Is(err, convo.ErrNotFound) {
			return openai.ThingNotFound("Response", id)
		}
		if err != nil {
			return err
		}
		if n := len(page.Events); n > 0 {
			if err := out.Send(page.Events); err != nil {
				return err
			}
			after, last, silent = after+int64(n), openai.EventType(page.Events[n-1]), g.config.Now()
		}
		switch {
		case page.More:
			continue
		case page.Status.Ended():
			return g.endFollowing(c, owner, id, last, after, out)
		}
		if err := g.waitToFollow(ctx, news, &silent, out); err != nil {
			return err
		}
	}
}

// followPage is how many events are read at once.
const followPage = 200

// waitToFollow waits for news, and pings a client that has heard none for
// long.
func (g *Gateway) waitToFollow(ctx context.Context, news <-chan struct{}, silent *time.Time,
	out exchange.EventSink) error {
	timer := time.NewTimer(runs.PollEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-news:
	case <-timer.C:
	}
	if g.config.Now().Sub(*silent) < g.config.KeepAlive {
		return nil
	}
	*silent = g.config.Now()
	return out.Ping()
}

// endFollowing tells how a response ended whose log does not: it was
// cancelled, or its process died.
func (g *Gateway) endFollowing(c *call, owner convo.Owner, id, last string, after int64, out exchange.EventSink) error {
	if openai.Terminal(last) {
		return nil
	}
	r, err := g.config.Store.Response(c.Request.Context(), owner, id)
	if err != nil {
		return err
	}
	if after >= r.Events && r.Status != convo.Cancelled && len(r.Body) > 0 {
		return out.Ping() // the client had seen the end before
	}
	shape, err := g.shapeOf(c.Request.Context(), owner, &r)
	if err != nil {
		return err
	}
	event, err := openai.FailedEvent(shape, after+1)
	if err != nil {
		return err
	}
	return out.Send([]json.RawMessage{event})
}
