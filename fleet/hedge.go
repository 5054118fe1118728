package fleet

import (
	"context"
	"time"

	"parley"
)

// hedges reports whether a second worker may be asked beside the first: only
// if enabled, before the first token, and not for requests that ask for progress, which
// would be that of two.
func (t *dispatch) hedges() bool {
	return t.fleet.cfg.HedgeAfter > 0 && !t.partial.begun() && t.moves == 0 && !t.r.Progress
}

// A runner is an attempt that runs beside another.
type runner struct {
	attempt *attempt
	heard   chan heard
	done    chan struct{} // closed when its worker has let go
}

// heard is a piece of an answer, or an error.
type heard struct {
	delta parley.Delta
	err   error
}

// run lets an attempt's worker answer beside others.
func (l *attempt) run() *runner {
	r := &runner{attempt: l, heard: make(chan heard), done: make(chan struct{})}
	stream := l.flow.stream
	say := func(h heard) bool {
		select {
		case r.heard <- h:
			return true
		case <-l.flow.context.Done():
			return false
		}
	}
	go func() {
		defer close(r.done)
		defer close(r.heard)
		err := guarded(func() error {
			for d, err := range stream {
				if !say(heard{d, err}) || err != nil {
					break
				}
			}
			return nil
		})
		if err != nil {
			say(heard{err: err})
		}
	}()
	return r
}

// resume makes the attempt's stream what the runner has still to say, after what was
// heard of it.
func (r *runner) resume(first heard, ok bool) *attempt {
	r.attempt.flow.stream = func(yield func(parley.Delta, error) bool) {
		defer func() {
			r.attempt.flow.cancel(nil)
			<-r.done
		}()
		for h, more := first, ok; more; h, more = <-r.heard {
			if !yield(h.delta, h.err) {
				return
			}
		}
	}
	return r.attempt
}

// race asks a second worker when the first has not said anything in time, and
// returns the attempt of the one that does so first. An error is not an answer while
// the other may still give one.
func (t *dispatch) race(ctx context.Context, l *attempt) *attempt {
	first := l.run()
	timer := time.NewTimer(t.fleet.cfg.HedgeAfter)
	defer timer.Stop()
	select {
	case h, ok := <-first.heard:
		return first.resume(h, ok)
	case <-timer.C:
	}
	second := t.second(ctx, l)
	if second == nil {
		h, ok := <-first.heard
		return first.resume(h, ok)
	}
	t.fleet.metrics.hedges.Inc()
	winner, loser := first, second
	var h heard
	var ok bool
	select {
	case h, ok = <-first.heard:
	case h, ok = <-second.heard:
		winner, loser = second, first
	}
	if ok && h.err == nil {
		loser.attempt.record.close(outrun, nil, t.fleet.cfg.Now())
		t.letGo(loser, moved, nil)
		return winner.resume(h, ok)
	}
	v := judge(ctx, winner.attempt.flow.context, h.err)
	if v == lost {
		t.poison.hedgeLost()
	}
	t.letGo(winner, v, h.err)
	h, ok = <-loser.heard
	return loser.resume(h, ok)
}

// second sends the request to another worker, if there is one and the budget has
// room for it.
func (t *dispatch) second(ctx context.Context, l *attempt) *runner {
	f, tokens := t.fleet, len(t.r.Prompt)
	if !f.affords(l, tokens) {
		return nil
	}
	asked := f.cfg.Now()
	t.beside = l.member
	other, _, err := f.pick(t, t.query())
	t.beside = nil
	if err != nil {
		f.giveBack(l, tokens)
		return nil
	}
	other.record.asked = asked
	t.open(ctx, other)
	return other.run()
}

// affords takes tokens from the budget if they are there.
func (f *Fleet) affords(l *attempt, tokens int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.budgetOf(l)
	if b.left < float64(tokens) {
		return false
	}
	b.spend(tokens, f.cfg.Now())
	return true
}

// giveBack returns tokens to the budget that were not computed again after all.
func (f *Fleet) giveBack(l *attempt, tokens int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.budgetOf(l)
	b.left = min(b.left+float64(tokens), b.burst)
}

// letGo ends a runner whose answer is not wanted.
func (t *dispatch) letGo(r *runner, v attemptVerdict, err error) {
	r.attempt.flow.cancel(nil)
	t.fleet.background.Go(func() {
		<-r.done
		t.fleet.finish(r.attempt, v, err, t.failedBefore(r.attempt))
	})
}
