package engine

import "parley/engine/kv"

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

// answerLooks answers the questions that have come.
func (l *loop) answerLooks() {
	for _, q := range l.inbox.takeLooks() {
		_, all := l.sched.Snapshot()
		q.take(all)
		close(q.done)
	}
}
