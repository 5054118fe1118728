package kvindex

import (
	"slices"
	"time"

	"parley"
)

// Expect notes that a prompt is being sent to a worker, so that its blocks
// will be there soon. Blocks that events have told of are left out. It returns the first key that
// was not expected before, and whether there is one.
func (x *Index) Expect(w Worker, keys []parley.BlockKey, now time.Time) (first parley.BlockKey, found bool) {
	worker := x.workers[w]
	most := x.rememberMost(worker)
	keys = keys[:min(len(keys), most)]
	fresh := x.untold(w, keys)
	isNew := len(fresh)                    // those from here on are
	for i := len(fresh) - 1; i >= 0; i-- { // the beginning is used by most, so it is the latest
		if !worker.history.touch(fresh[i], now) {
			continue
		}
		isNew--
		fresh[isNew] = fresh[i]
		if worker.history.size > most {
			x.forgetOldest(w)
		}
	}
	x.hold(w, fresh[isNew:], expected)
	if len(keys) > 0 {
		end := now.Add(x.lives(worker))
		x.expiries[w], x.expireAt = sooner(x.expiries[w], end), sooner(x.expireAt, end)
	}
	if isNew == len(fresh) {
		return 0, false
	}
	return fresh[isNew], true
}

// Unexpect takes back that the blocks of a prompt from a key on were expected, if nothing was sent since then that
// has them, too: the worker gave the prompt back.
func (x *Index) Unexpect(w Worker, keys []parley.BlockKey, first parley.BlockKey, sent time.Time) {
	gone := x.scratch.untold[:0]
	for _, k := range keys[max(0, slices.Index(keys, first)):] {
		if x.workers[w].history.removeAt(k, sent) {
			gone = append(gone, k)
		}
	}
	x.release(w, gone, expected)
	x.scratch.untold = gone
}

// sooner returns the earlier of two times; zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// untold returns the blocks of a prompt that events have not told of. They are valid until
// the next call.
func (x *Index) untold(w Worker, keys []key) []key {
	x.scratch.untold = x.scratch.untold[:0]
	if !x.workers[w].stream.exact() {
		x.scratch.untold = append(x.scratch.untold, keys...)
		return x.scratch.untold
	}
	along := walk{table: &x.table}
	for at, k := range keys {
		if !x.sets.exact(along.next(keys, at), w) {
			x.scratch.untold = append(x.scratch.untold, k)
		}
	}
	return x.scratch.untold
}

// rememberMost is how many blocks of history a worker may have.
func (x *Index) rememberMost(w *worker) int {
	if w.source.CapacityBlocks > 0 {
		return w.source.CapacityBlocks
	}
	return x.cfg.RememberBlocks
}

// lives is how long a block that was sent to a worker is taken to be there.
func (x *Index) lives(w *worker) time.Duration {
	if w.stream.exact() {
		return x.cfg.ExpectFor
	}
	return x.cfg.RememberFor
}

func (x *Index) forgetOldest(w Worker) {
	x.release(w, []key{x.workers[w].history.removeOldest()}, expected)
}

// Expire forgets what was expected for too long. It costs next to nothing when
// there is nothing to forget.
func (x *Index) Expire(now time.Time) {
	if x.sets.abandoned > 0 {
		x.sweep()
	}
	if x.expireAt.IsZero() || now.Before(x.expireAt) {
		return
	}
	x.expireAt = time.Time{}
	for w := range x.expiries {
		end := &x.expiries[w]
		if x.workers[w] == nil {
			*end = time.Time{}
		}
		if !end.IsZero() && !now.Before(*end) {
			*end = x.expireOf(Worker(w), now)
		}
		x.expireAt = sooner(x.expireAt, *end)
	}
}

// expireOf forgets what was expected of a worker for too long, and returns when the next
// of it will have been; zero if nothing else is expected.
func (x *Index) expireOf(w Worker, now time.Time) (end time.Time) {
	worker := x.workers[w]
	lives := x.lives(worker)
	old, next, more := worker.history.removeUntil(now.Add(-lives), x.scratch.untold[:0])
	x.release(w, old, expected)
	x.scratch.untold = old
	if !more {
		return time.Time{}
	}
	return next.Add(lives)
}

// Resize notes how many blocks a worker's device can hold, where that was not known
// when it joined or has changed.
func (x *Index) Resize(w Worker, blocks int) {
	worker := x.workers[w]
	worker.source.CapacityBlocks = blocks
	for worker.held[expected] > x.rememberMost(worker) {
		x.forgetOldest(w)
	}
}
