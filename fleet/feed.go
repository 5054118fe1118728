package fleet

import (
	"context"
	"errors"
	"iter"
	"time"

	"parley/route/kvindex"
)

// A Feed is where a worker's events go, until it has left. It is safe for
// concurrent use.
type Feed struct {
	fleet  *Fleet
	member *member
}

// A modelIndex is the block index of one model, and the number of a worker in it. Each batch of a worker goes to the
// indexes of all its models, so that they agree in what is missing.
type modelIndex struct {
	index  *kvindex.Index
	worker kvindex.Worker
}

// each calls tell for the index of each model that the worker has, and returns what the first one asks for.
func (f *Feed) each(tell func(x modelIndex) kvindex.Ask) (ask kvindex.Ask) {
	f.fleet.mu.Lock()
	defer f.fleet.mu.Unlock()
	if !f.member.Source.Events && f.member.SourceOf == nil { // the source of the events is not known any more
		return ask
	}
	for i, r := range f.member.replicas {
		index, number := f.fleet.router.Index(r.id)
		if a := tell(modelIndex{index, number}); i == 0 {
			ask = a
		}
	}
	return ask
}

// Apply takes a batch and returns what the worker must be asked for.
func (f *Feed) Apply(b kvindex.Batch) kvindex.Ask {
	return f.each(func(x modelIndex) kvindex.Ask { return x.index.Apply(x.worker, b) })
}

// ReplayEnded notes that all that could be repeated was.
func (f *Feed) ReplayEnded() kvindex.Ask {
	return f.each(func(x modelIndex) kvindex.Ask { return x.index.ReplayEnded(x.worker) })
}

// Restore replaces what is known by a snapshot. Its blocks are gone through once
// for each model.
func (f *Feed) Restore(seq uint64, blocks iter.Seq[kvindex.Event]) kvindex.Ask {
	return f.each(func(x modelIndex) kvindex.Ask { return x.index.Restore(x.worker, seq, blocks) })
}

// Reconnected notes that batches may have been missed.
func (f *Feed) Reconnected() {
	f.each(func(x modelIndex) kvindex.Ask { x.index.Reconnected(x.worker); return kvindex.Ask{} })
}

// Wants returns what the worker was asked for and has not given.
func (f *Feed) Wants() kvindex.Ask {
	return f.each(func(x modelIndex) kvindex.Ask { return x.index.Wants(x.worker) })
}

// follow keeps listening to a member's events.
func (f *Fleet) follow(ctx context.Context, m *member) {
	if m.BlockTokens == 0 { // the router does not use them
		return
	}
	feed := &Feed{fleet: f, member: m}
	for wait := followMin; ctx.Err() == nil; {
		following, end := f.following(ctx, m)
		if following == nil { // it is about to stop
			sleep(ctx, followMin)
			continue
		}
		began := f.cfg.Now()
		err := guarded(func() error { return m.Follow(following, feed) })
		lost := following.Err() == nil
		end()
		if f.cfg.Now().Sub(began) > followMax {
			wait = followMin
		}
		if lost && !errors.Is(err, context.Canceled) {
			f.cfg.Log.Warn("worker events lost; reconnecting", "worker", m.Name, "error", err, "in", wait)
		}
		sleep(ctx, wait)
		wait = min(2*wait, followMax)
	}
}

// following returns the context of the next event stream of a member; nil if none is to be opened.
func (f *Fleet) following(ctx context.Context, m *member) (following context.Context, end context.CancelFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.handedOver() {
		return nil, nil
	}
	following, end = context.WithCancel(ctx)
	m.endFollow = end
	return following, end
}

// letStop cancels the event stream of a process that has nothing more to give: it waits for that before it stops.
// The lock is held.
func (f *Fleet) letStop(m *member) {
	if m.handedOver() && m.endFollow != nil {
		m.endFollow()
	}
}

// handedOver reports whether the member is draining, others have fetched what it held, and no answer runs on it.
// The lock is held.
func (m *member) handedOver() bool {
	c := &m.health.condition
	return c.Draining && c.Instance != "" && c.Instance == m.health.handed && len(m.attempts) == 0
}

// followMin and followMax bound the wait before events are asked for again.
const followMin, followMax = 100 * time.Millisecond, 5 * time.Second
