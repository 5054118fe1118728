package kvindex

import (
	"time"
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
