package worker

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"parley"
)

// native has a Parley worker answer q.
func (r *Remote) native(ctx context.Context, q *parley.Request, yield func(parley.Delta, error) bool) {
	body, err := callBody(ctx, q, r.cfg.Window)
	if err != nil {
		yield(parley.Delta{}, err)
		return
	}
	in, err := r.links.open(ctx)
	if err != nil {
		yield(parley.Delta{}, err)
		return
	}
	stop := context.AfterFunc(ctx, func() { in.end(context.Cause(ctx)) })
	defer stop()
	whole := false
	defer func() { in.link.drop(in, whole) }()
	if err := in.link.out.send(lineOf(in.id, body)); err != nil {
		yield(parley.Delta{}, r.unreachable(ctx, err))
		return
	}
	whole = r.readFrames(ctx, in, yield)
}

// callBody is a request as it travels.
func callBody(ctx context.Context, q *parley.Request, window int) ([]byte, error) {
	c := newCall(q, window, time.Now())
	if trace, ok := parley.TraceOf(ctx); ok {
		c.Trace = trace.String()
	}
	if line, ok := appendCall(make([]byte, 0, 512+6*len(q.Prompt)), c); ok {
		return line, nil
	}
	line, err := json.Marshal(c)
	if err != nil {
		return nil, parley.Errorf(parley.InvalidRequest, "the request cannot be sent: %v", err)
	}
	return line, nil
}

// readFrames yields the deltas of an answer and acknowledges them. It reports
// whether the answer was read to its end.
func (r *Remote) readFrames(ctx context.Context, in *inflow, yield func(parley.Delta, error) bool) bool {
	// unread is how many tokens were not acknowledged; least are, together.
	unread, least := 0, max(1, r.cfg.Window/4)
	for {
		f, err := in.frame()
		switch {
		case err != nil:
			yield(parley.Delta{}, r.broken(ctx, err))
			return false
		case f.Error != nil:
			yield(parley.Delta{Stay: f.Stay}, f.Error.err())
			return true
		}
		if !yield(*f.Delta, nil) {
			return f.Delta.Usage != nil
		}
		if f.Delta.Usage != nil {
			return true
		}
		if unread += cost(f.Delta); unread >= least {
			// A link that fails ends the answer.
			_ = in.link.out.send(lineOf(in.id, strconv.AppendInt(nil, int64(unread), 10)))
			unread = 0
		}
	}
}

// broken says why an answer could not be read on.
func (r *Remote) broken(ctx context.Context, err error) error {
	if garbled, ok := errors.AsType[*garbledError](err); ok {
		return parley.Errorf(parley.Unavailable, "worker %s sent an invalid answer: %v", r.cfg.URL, garbled.err)
	}
	return r.unreachable(ctx, err)
}

// internal returns the error if it is one of ours, for the log.
func internal(err error) error {
	if parley.CodeOf(err) == parley.Internal {
		return err
	}
	return nil
}

// A credit is how many tokens may still be sent.
type credit struct {
	mu   sync.Mutex
	left int
	more chan struct{}
	// paused is how long take has waited; it belongs to the caller of take.
	paused time.Duration
}

func newCredit(window int) *credit { return &credit{left: window, more: make(chan struct{}, 1)} }

// take waits until something may be sent. A delta of several tokens may go over
// the window, and the next one waits for it.
func (c *credit) take(ctx context.Context, tokens int) error {
	for {
		c.mu.Lock()
		if c.left > 0 {
			c.left -= tokens
			c.mu.Unlock()
			return nil
		}
		c.mu.Unlock()
		begun := time.Now()
		select {
		case <-c.more:
			c.paused += time.Since(begun)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// refill lets more be sent.
func (c *credit) refill(tokens int) {
	c.mu.Lock()
	c.left += tokens
	c.mu.Unlock()
	select {
	case c.more <- struct{}{}:
	default:
	}
}
