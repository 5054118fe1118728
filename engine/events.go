package engine

import (
	"context"
	"iter"

	"parley"
	"parley/engine/kv"
)

// publish reports the changes of the cache since the last call. If more has happened
// than the cache remembers, it reports the whole content.
func (l *loop) publish() {
	tell := l.e.cfg.Events
	if tell == nil || l.sched.Seq() == l.published {
		return
	}
	events, whole := l.sched.EventsSince(l.published)
	l.published = l.sched.Seq()
	if whole {
		tell(events)
		return
	}
	_, all := l.sched.Snapshot()
	tell(func(yield func(kv.Event) bool) {
		if yield(kv.Event{Kind: kv.Cleared}) {
			all(yield)
		}
	})
}

// forgetAll reports that the cache is empty, because the scheduler is a new one.
func (l *loop) forgetAll() {
	if tell := l.e.cfg.Events; tell != nil {
		tell(func(yield func(kv.Event) bool) { yield(kv.Event{Kind: kv.Cleared}) })
	}
}

// A look is a question about the cache that the loop answers between passes.
type look struct {
	take func(iter.Seq[kv.Event])
	done chan struct{}
}

// Snapshot has take see every block that can be found, parents before children,
// on the loop's own goroutine: the pass that follows waits for it. All events
// until then were told before.
func (e *Engine) Snapshot(ctx context.Context, take func(iter.Seq[kv.Event])) error {
	q := look{take: take, done: make(chan struct{})}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return parley.Errorf(parley.Unavailable, "model %s is shutting down", e.cfg.Model.ID)
	}
	e.looks = append(e.looks, q)
	e.rouse()
	e.mu.Unlock()
	select {
	case <-q.done:
		return nil
	case <-e.stopped:
		return parley.Errorf(parley.Unavailable, "model %s is shutting down", e.cfg.Model.ID)
	case <-ctx.Done():
		return contextError(ctx.Err())
	}
}

// answerLooks answers the questions that have come.
func (l *loop) answerLooks() {
	l.e.mu.Lock()
	looks := l.e.looks
	l.e.looks = nil
	l.e.mu.Unlock()
	for _, q := range looks {
		_, all := l.sched.Snapshot()
		q.take(all)
		close(q.done)
	}
}
