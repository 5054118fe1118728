package kvindex

import (
	"math/bits"
	"time"
)

// A history is what was sent to a worker, the latest first: a guess at what
// its cache holds, kept as that cache would be. Each block in it has the
// worker among its holders, in the tier expected.
type history struct {
	secret secret
	// slots find entries by their keys, with open addressing. There are a power of two of
	// them, at least twice as many as blocks, or none.
	slots []historySlot
	size  int // blocks
	// entries are linked in a circle through the first one, which is not a block:
	// its next is the latest, its previous the oldest.
	entries []recent
	free    []int32
	origin  time.Time // of the times of entries
	read    int32     // has no meaning: with it, reading ahead is not left out by the compiler
}

// A historySlot leads to an entry, whose key spreads to its tag; 0 is no entry. The slot
// where it belongs follows from the uppermost bits of the tag.
type historySlot struct {
	tag   uint32
	entry int32
}

type recent struct {
	key        key
	at         time.Duration // since the origin
	prev, next int32
}

// historyLeast is how many slots a history begins with.
const historyLeast = 64

// clear forgets all blocks.
func (h *history) clear() { *h = history{secret: h.secret} }

func (h *history) tag(k key) uint32 { return uint32(h.secret.spread(uint64(k)) >> 32) }

// home returns the slot where a tag belongs.
func (h *history) home(tag uint32) int { return int(tag >> (33 - bits.Len(uint(len(h.slots))))) }

// find returns the slot of a key, or the empty one where it should stand.
func (h *history) find(k key, tag uint32) int {
	mask := len(h.slots) - 1
	for i := h.home(tag); ; i = (i + 1) & mask {
		if s := h.slots[i]; s.entry == 0 || s.tag == tag && h.entries[s.entry].key == k {
			return i
		}
	}
}

// approach reads memory that is needed to touch or to remove blocks. It changes nothing but
// speed.
func (h *history) approach(keys []key) {
	if len(h.slots) == 0 {
		return
	}
	for _, k := range keys {
		h.read += h.slots[h.home(h.tag(k))].entry
	}
}

// touch makes a block the latest.
func (h *history) touch(k key, now time.Time) (isNew bool) {
	if 2*(h.size+1) > len(h.slots) {
		h.grow(now)
	}
	tag := h.tag(k)
	s := &h.slots[h.find(k, tag)]
	if isNew = s.entry == 0; isNew {
		*s = historySlot{tag, h.place()}
		h.size++
	} else {
		h.unlink(s.entry)
	}
	latest := h.entries[0].next
	h.entries[s.entry] = recent{key: k, at: now.Sub(h.origin), next: latest}
	h.entries[latest].prev = s.entry
	h.entries[0].next = s.entry
	return isNew
}

// grow makes twice as many slots.
func (h *history) grow(now time.Time) {
	if h.slots == nil {
		h.entries, h.origin = make([]recent, 1), now
	}
	old := h.slots
	h.slots = make([]historySlot, max(2*len(old), historyLeast))
	mask := len(h.slots) - 1
	for _, s := range old {
		if s.entry == 0 {
			continue
		}
		i := h.home(s.tag)
		for h.slots[i].entry != 0 {
			i = (i + 1) & mask
		}
		h.slots[i] = s
	}
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

// removeOldest removes the block that was sent least recently. There must be one.
func (h *history) removeOldest() (k key) {
	at := h.entries[0].prev
	k = h.entries[at].key
	h.vacate(h.find(k, h.tag(k)))
	h.unlink(at)
	h.free = append(h.free, at)
	h.size--
	return k
}

// removeUntil removes the blocks that were sent at a time or before it, and appends them to
// old. It returns when the oldest of the others was, if there are any.
func (h *history) removeUntil(until time.Time, old []key) (_ []key, next time.Time, more bool) {
	if h.size == 0 {
		return old, time.Time{}, false
	}
	limit, before := until.Sub(h.origin), len(old)
	at := h.entries[0].prev
	for ; at != 0 && h.entries[at].at <= limit; at = h.entries[at].prev {
		old = append(old, h.entries[at].key)
	}
	h.approach(old[before:])
	for range old[before:] {
		h.removeOldest()
	}
	return old, h.origin.Add(h.entries[at].at), at != 0
}

// vacate empties a slot and closes the gap, so that no entry is cut off from its home.
func (h *history) vacate(gap int) {
	mask := len(h.slots) - 1
	for i := (gap + 1) & mask; h.slots[i].entry != 0; i = (i + 1) & mask {
		if home := h.home(h.slots[i].tag); (i-home)&mask >= (i-gap)&mask {
			h.slots[gap] = h.slots[i]
			gap = i
		}
	}
	h.slots[gap] = historySlot{}
}
