package infer

import (
	"context"
	"iter"
	"sync"
	"time"

	"parley"
)

// bounded ends an answer that takes too long: to its first token, counted from
// the request's arrival and the queue included, or as a whole. The limit on the first
// token does not run while the model is being loaded: it begins anew when that is done.
func bounded(limits *Admission, now func() time.Time, j *Task, next source) source {
	return func(ctx context.Context, r *parley.Request) iter.Seq2[*Step, error] {
		return func(yield func(*Step, error) bool) {
			within, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			b := &bound{
				limits:  limits,
				now:     now,
				arrived: j.Arrived,
				model:   j.Model,
				cancel:  cancel,
			}
			b.start()
			defer b.timer.Stop()
			begun := false
			for s, err := range next(within, r) {
				if !begun && s.ticket == nil && s.Delta.Progress == nil {
					begun = true
					b.begin()
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

// loadingEvery is how often a request whose limit has passed looks whether its model is still being loaded.
const loadingEvery = time.Second

// A bound is the limit in time that a request is under.
type bound struct {
	limits  *Admission
	now     func() time.Time
	arrived time.Time
	model   *Model
	cancel  context.CancelCauseFunc

	mu    sync.Mutex
	begun bool // the first token came
	timer *time.Timer
}

func (b *bound) left(limit time.Duration) time.Duration { return max(limit-b.now().Sub(b.arrived), 0) }

func (b *bound) start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer = time.AfterFunc(b.left(min(b.limits.FirstTokenMax, b.limits.AnswerMax)), b.expire)
}

// begin notes that the first token came.
func (b *bound) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begun = true
	b.timer.Reset(b.left(b.limits.AnswerMax))
}

// expire cancels the request, unless its model is being loaded or was until lately.
func (b *bound) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	whole := b.left(b.limits.AnswerMax)
	is := b.model.residency()
	since := "" // what the time is counted from
	if !b.begun && is.Loaded.After(b.arrived) {
		since = " after its model was loaded"
	}
	switch more := is.Loaded.Add(b.limits.FirstTokenMax).Sub(b.now()); {
	case b.begun && whole > 0: // it began while this function was about to run
		b.timer.Reset(whole)
	case whole == 0 && !b.begun && is.Loading:
		b.fail("The model %s was still being loaded after %v: ask again.", b.model.ID, b.limits.AnswerMax)
	case whole == 0 || b.begun:
		b.fail("The whole answer did not come within %v.", b.limits.AnswerMax)
	case is.Loading:
		b.timer.Reset(min(whole, loadingEvery))
	case since != "" && more > 0:
		b.timer.Reset(min(whole, more))
	case is.Waiting:
		b.fail("The model %s could not be loaded within %v, because other models that are answering fill the memory: "+
			"ask again.", b.model.ID, b.limits.FirstTokenMax)
	default:
		b.fail("The first token of the answer did not come within %v%s.", b.limits.FirstTokenMax, since)
	}
}

func (b *bound) fail(format string, args ...any) {
	b.cancel(parley.Errorf(parley.DeadlineExceeded, format, args...))
}
