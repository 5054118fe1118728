package gateway

import (
	"context"
	"iter"
	"time"

	"parley"
)

// bounded ends an answer that takes too long: to its first token, counted from
// the request's arrival and the queue included, or as a whole.
func (c *call) bounded(next source) source {
	limits := &c.gateway.config.Admission
	return func(ctx context.Context, r *parley.Request) iter.Seq2[step, error] {
		return func(yield func(step, error) bool) {
			within, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			late := func(what string, limit time.Duration) *time.Timer {
				left := limit - c.gateway.config.Now().Sub(c.started)
				return time.AfterFunc(max(left, 0), func() {
					cancel(parley.Errorf(parley.DeadlineExceeded, "The %s did not come within %v.", what, limit))
				})
			}
			first := late("first token of the answer", limits.FirstTokenMax)
			defer first.Stop()
			whole := late("whole answer", limits.AnswerMax)
			defer whole.Stop()
			begun := false
			for s, err := range next(within, r) {
				if !begun && s.ticket == nil && s.delta.Progress == nil {
					begun = true
					first.Stop()
				}
				if err != nil && within.Err() != nil && ctx.Err() == nil {
					err = context.Cause(within)
				}
				if !yield(s, err) {
					return
				}
			}
		}
	}
}
