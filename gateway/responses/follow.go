package responses

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
func (a *Handlers) follow(
	x *exchange.Exchange, owner convo.Owner, id string, after int64, out exchange.EventSink,
) error {
	ctx := x.Request.Context()
	silent := a.Now()
	last := ""
	for {
		news := a.Runs.Changed(id)
		page, err := a.Store.Events(ctx, owner, id, after, followPage)
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
			after, last, silent = after+int64(n), openai.EventType(page.Events[n-1]), a.Now()
		}
		switch {
		case page.More:
			continue
		case page.Status.Ended():
			return a.endFollowing(x, owner, id, last, after, out)
		}
		if err := a.waitToFollow(ctx, news, &silent, out); err != nil {
			return err
		}
	}
}

// followPage is how many events are read at once.
const followPage = 200

// waitToFollow waits for news, and pings a client that has heard none for
// long.
func (a *Handlers) waitToFollow(ctx context.Context, news <-chan struct{}, silent *time.Time,
	out exchange.EventSink) error {
	timer := time.NewTimer(runs.PollEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-news:
	case <-timer.C:
	}
	if a.Now().Sub(*silent) < a.KeepAlive {
		return nil
	}
	*silent = a.Now()
	return out.Ping()
}

// endFollowing sends how a response ended whose log does not say it: it was
// cancelled, or its process died.
func (a *Handlers) endFollowing(
	x *exchange.Exchange, owner convo.Owner, id, last string, after int64, out exchange.EventSink,
) error {
	if isTerminal(last) {
		return nil
	}
	r, err := a.Store.Response(x.Request.Context(), owner, id)
	if err != nil {
		return err
	}
	if after >= r.Events && r.Status != convo.Cancelled && len(r.Body) > 0 {
		return out.Ping() // the client had seen the end before
	}
	shape, err := a.shapeOf(x.Request.Context(), owner, &r)
	if err != nil {
		return err
	}
	event, err := failedEvent(shape, after+1)
	if err != nil {
		return err
	}
	return out.Send([]json.RawMessage{event})
}
