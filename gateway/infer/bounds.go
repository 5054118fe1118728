package infer

import (
	"cmp"
	"context"
	"iter"
	"sync"
	"time"

	"parley"
)

// bounded ends an answer that takes too long: to its first token, counted from
// the request's arrival and the queue included, or as a whole. The limit on the first
// token does not run while the model is being loaded: it begins anew when that is done.
func bounded(first, whole time.Duration, now func() time.Time, j *Task, x *Generation, next source) source {
	return func(ctx context.Context, r *parley.Request) iter.Seq2[*Step, error] {
		return func(yield func(*Step, error) bool) {
			within, end, release := x.requestContext(ctx)
			defer release()
			b := &bound{
				first:   first,
				whole:   whole,
				now:     now,
				arrived: j.Arrived,
				model:   j.Model,
				end:     end,
			}
			b.start()
			defer b.timer.Stop()
			next(within, r)(func(s *Step, err error) bool {
				if !b.heard && s.ticket == nil && s.Delta.Progress == nil {
					b.heard = true
					b.begin()
				}
				if err != nil {
					err = cmp.Or(b.failure(), err)
				}
				return yield(s, err)
			})
		}
	}
}

// loadingEvery is how often a request whose limit has passed looks whether its model is still being loaded.
const loadingEvery = time.Second

// A bound is the limit in time that a request is under.
type bound struct {
	// first and whole are how long the first token and all of the answer may take.
	first, whole time.Duration
	now          func() time.Time
	arrived      time.Time
	model        *Model
	end          context.CancelCauseFunc
	heard        bool // the reader had the first token

	mu     sync.Mutex
	begun  bool // the first token came
	timer  *time.Timer
	failed error // why the request was ended
}

func (b *bound) left(limit time.Duration) time.Duration { return max(limit-b.now().Sub(b.arrived), 0) }

func (b *bound) start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer = time.AfterFunc(b.left(min(b.first, b.whole)), b.expire)
}

// begin notes that the first token came.
func (b *bound) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begun = true
	b.timer.Reset(b.left(b.whole))
}

// expire cancels the request, unless its model is being loaded or was until lately.
func (b *bound) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	whole := b.left(b.whole)
	is := b.model.residency()
	since := "" // what the time is counted from
	if !b.begun && is.Loaded.After(b.arrived) {
		since = " after its model was loaded"
	}
	switch more := is.Loaded.Add(b.first).Sub(b.now()); {
	case b.begun && whole > 0: // it began while this function was about to run
		b.timer.Reset(whole)
	case whole == 0 && !b.begun && is.Loading:
		b.fail("The model %s was still being loaded after %v: ask again.", b.model.ID, b.whole)
	case whole == 0 || b.begun:
		b.fail("The whole answer did not come within %v.", b.whole)
	case is.Loading:
		b.timer.Reset(min(whole, loadingEvery))
	case since != "" && more > 0:
		b.timer.Reset(min(whole, more))
	case is.Waiting:
		b.fail("The model %s could not be loaded within %v, because other models that are answering fill the memory: "+
			"ask again.", b.model.ID, b.first)
	default:
		b.fail("The first token of the answer did not come within %v%s.", b.first, since)
	}
}

func (b *bound) fail(format string, args ...any) {
	b.failed = parley.Errorf(parley.DeadlineExceeded, format, args...)
	b.end(b.failed)
}

// failure returns why the request was ended; nil if it was not.
func (b *bound) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}
