package kvindex

import (
	"slices"
	"time"

	"parley"
)

// A history is what was sent to a worker, the latest first: a guess at what
// its cache holds, kept as that cache would be. Each block in it has the
// worker among its holders, in the tier expected.
type history struct {
	places map[key]int32 // of the entries
	// entries are linked in a circle through the first one, which is not a block:
	// its next is the latest, its previous the oldest.
	entries []recent
	free    []int32
}

type recent struct {
	key        key
	at         time.Time
	prev, next int32
}

// touch makes a block the latest.
func (h *history) touch(k key, now time.Time) (isNew bool) {
	if h.places == nil {
		h.places = map[key]int32{}
		h.entries = make([]recent, 1)
	}
	at, ok := h.places[k]
	if ok {
		h.unlink(at)
	} else {
		at = h.place()
		h.places[k] = at
	}
	latest := h.entries[0].next
	h.entries[at] = recent{key: k, at: now, next: latest}
	h.entries[latest].prev = at
	h.entries[0].next = at
	return !ok
}

func (h *history) place() int32 {
	if n := len(h.free); n > 0 {
		at := h.free[n-1]
		h.free = h.free[:n-1]
		return at
	}
	h.entries = append(h.entries, recent{})
	return int32(len(h.entries) - 1)
}

func (h *history) unlink(at int32) {
	e := &h.entries[at]
	h.entries[e.prev].next, h.entries[e.next].prev = e.next, e.prev
}

// oldest returns the block that was sent least recently.
func (h *history) oldest() (k key, at time.Time, ok bool) {
	if len(h.places) == 0 {
		return 0, time.Time{}, false
	}
	e := &h.entries[h.entries[0].prev]
	return e.key, e.at, true
}

func (h *history) removeOldest() {
	at := h.entries[0].prev
	delete(h.places, h.entries[at].key)
	h.unlink(at)
	h.free = append(h.free, at)
}

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
