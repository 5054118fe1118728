package engine

import (
	"context"
	"errors"

	"parley/engine/kv"
)

// publish reports the changes of the cache since the last call. If more has happened
// than the cache remembers, it reports the whole content.
func (l *loop) publish() {
	tell := l.cfg.Events
	if tell == nil || l.sched.Seq() == l.cache.published {
		return
	}
	events, whole := l.sched.EventsSince(l.cache.published)
	l.cache.published = l.sched.Seq()
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
	if tell := l.cfg.Events; tell != nil {
		tell(func(yield func(kv.Event) bool) { yield(kv.Event{Kind: kv.Cleared}) })
	}
}

// answerLooks does what was asked for between passes, and reports what that changed in
// the cache. One that panics fails alone, and the loop restarts.
func (l *loop) answerLooks() {
	looks := l.inbox.takeLooks()
	if len(looks) == 0 {
		return
	}
	done := 0
	defer func() {
		for _, q := range looks[done:] { // only after a panic
			q.err = errLookFailed
			close(q.done)
		}
	}()
	for _, q := range looks {
		if q.claimed.CompareAndSwap(false, true) {
			q.do(l)
		}
		done++
		close(q.done)
	}
	l.publish()
}

var errLookFailed = errors.New("engine: the cache could not be asked; the log says why")

// visit has do run on the loop's own goroutine, between passes. When it returns, do has ended or will
// never run, so that do may use memory of the caller.
func (e *Engine) visit(ctx context.Context, do func(*loop)) error {
	q := &look{do: do, done: make(chan struct{})}
	if !e.inbox.ask(q) {
		return e.cfg.closing()
	}
	wanted := ctx.Done()
	for {
		select {
		case <-q.done:
			return q.err
		case <-e.stopped:
			return e.cfg.closing()
		case <-wanted:
			if q.claimed.CompareAndSwap(false, true) {
				return contextError(ctx.Err())
			}
			wanted = nil // it runs
		}
	}
}
