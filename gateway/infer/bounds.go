package infer

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"parley"
)

// bounded ends an answer that takes too long: to its first token, counted from
// the request's arrival and the queue included, or as a whole.
func bounded(limits *Admission, now func() time.Time, arrived time.Time, next source) source {
	return func(ctx context.Context, r *parley.Request) iter.Seq2[Step, error] {
		return func(yield func(Step, error) bool) {
			within, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			left := func(limit time.Duration) time.Duration { return max(limit-now().Sub(arrived), 0) }
			var begun atomic.Bool
			late := time.AfterFunc(left(min(limits.FirstTokenMax, limits.AnswerMax)), func() {
				what, limit := "whole answer", limits.AnswerMax
				if !begun.Load() && limits.FirstTokenMax <= limit {
					what, limit = "first token of the answer", limits.FirstTokenMax
				}
				cancel(parley.Errorf(parley.DeadlineExceeded, "The %s did not come within %v.", what, limit))
			})
			defer late.Stop()
			for s, err := range next(within, r) {
				if !begun.Load() && s.ticket == nil && s.Delta.Progress == nil {
					begun.Store(true)
					late.Reset(left(limits.AnswerMax))
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
