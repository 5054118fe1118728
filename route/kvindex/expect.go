package kvindex

import (
	"slices"
	"time"

	"parley"
)

// Expect notes that a prompt is being sent to a worker, so that its blocks
// will be there soon. Blocks that events have told of are left out.
func (x *Index) Expect(w Worker, keys []parley.BlockKey, now time.Time) {
	worker := x.workers[w]
	lives := x.lives(worker)
	most := x.rememberMost(worker)
	keys = keys[:min(len(keys), most)]
	for _, k := range slices.Backward(keys) { // the beginning is used by most, so it is the latest
		if worker.stream.exact() && x.sets.exact(x.table.holders(k), w) {
			continue
		}
		if !worker.history.touch(k, now) {
			continue
		}
		x.hold(w, []key{k}, expected)
		if worker.held[expected] > most {
			x.forgetOldest(w)
		}
	}
	if end := now.Add(lives); len(keys) > 0 && (x.expireAt.IsZero() || end.Before(x.expireAt)) {
		x.expireAt = end
	}
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
	k, _, _ := x.workers[w].history.oldest()
	x.workers[w].history.removeOldest()
	x.release(w, []key{k}, expected)
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
	for w, worker := range x.workers {
		if worker == nil {
			continue
		}
		lives := x.lives(worker)
		for {
			_, at, ok := worker.history.oldest()
			if !ok {
				break
			}
			if end := at.Add(lives); now.Before(end) {
				if x.expireAt.IsZero() || end.Before(x.expireAt) {
					x.expireAt = end
				}
				break
			}
			x.forgetOldest(Worker(w))
		}
	}
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
