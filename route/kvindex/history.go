package kvindex

import (
	"math/bits"
	"time"
)

// A history is what was sent to a worker: a guess at what its cache holds, kept as that
// cache would be. Each block in it has the worker among its holders, in the tier expected.
type history struct {
	secret secret
	// slots find the latest entry of a key, with open addressing. There are a power of two
	// of them, at least twice as many as blocks, or none.
	slots []historySlot
	size  int // blocks
	// entries are what was sent, the oldest first, from number first to before number end;
	// number n stands in place n modulo their room, a power of two. Of a block that was
	// sent again the latest entry counts.
	entries    []recent
	first, end uint32
	origin     time.Time // of the times of entries
	read       uint32    // has no meaning: with it, reading ahead is not left out by the compiler
}

// A historySlot has the number of an entry and the tag of its key; a tag of 0 means that the
// slot is empty. Where it belongs follows from the uppermost bits of the tag.
type historySlot struct{ tag, entry uint32 }

type recent struct {
	key key
	at  time.Duration // since the origin
}

// historyLeast is how many slots, and how many entries, a history has room for at first.
const historyLeast = 64

// clear forgets all blocks.
func (h *history) clear() { *h = history{secret: h.secret} }

// tag returns that of a key. It is not 0.
func (h *history) tag(k key) uint32 { return uint32(h.secret.spread(uint64(k))>>32) | 1 }

func (h *history) entry(number uint32) *recent { return &h.entries[int(number)&(len(h.entries)-1)] }

// home returns the slot where a tag belongs.
func (h *history) home(tag uint32) int { return int(tag >> (33 - bits.Len(uint(len(h.slots))))) }

// find returns the slot of a key, or the empty one where it should stand.
func (h *history) find(k key, tag uint32) int {
	mask := len(h.slots) - 1
	for i := h.home(tag); ; i = (i + 1) & mask {
		if s := &h.slots[i]; s.tag == 0 || s.tag == tag && h.entry(s.entry).key == k {
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
	if h.slots == nil {
		h.origin = now
	}
	if 2*(h.size+1) > len(h.slots) || int(h.end-h.first) == len(h.entries) {
		h.rebuild()
	}
	tag := h.tag(k)
	s := &h.slots[h.find(k, tag)]
	if isNew = s.tag == 0; isNew {
		h.size++
	}
	*s = historySlot{tag, h.end}
	*h.entry(h.end) = recent{k, now.Sub(h.origin)}
	h.end++
	return isNew
}

// rebuild makes room for twice as many blocks as there are, and leaves out entries that do not
// count any more.
func (h *history) rebuild() {
	old := *h
	room := max(1<<bits.Len(uint(2*h.size)), historyLeast)
	h.slots, h.entries, h.first, h.end = make([]historySlot, 2*room), make([]recent, room), 0, 0
	for n := old.first; n != old.end; n++ {
		e := old.entry(n)
		tag := h.tag(e.key)
		if s := &old.slots[old.find(e.key, tag)]; s.tag == 0 || s.entry != n {
			continue
		}
		h.slots[h.find(e.key, tag)] = historySlot{tag, h.end}
		*h.entry(h.end) = *e
		h.end++
	}
}

// removeOldest removes the block that was sent least recently. There must be one.
func (h *history) removeOldest() key {
	for {
		n := h.first
		k := h.entry(n).key
		h.first++
		if i := h.find(k, h.tag(k)); h.slots[i].tag != 0 && h.slots[i].entry == n {
			h.vacate(i)
			h.size--
			return k
		}
	}
}

// removeAt removes a block that was sent last at a time, and reports whether it was.
func (h *history) removeAt(k key, at time.Time) bool {
	if h.size == 0 {
		return false
	}
	i := h.find(k, h.tag(k))
	if s := h.slots[i]; s.tag == 0 || h.entry(s.entry).at != at.Sub(h.origin) {
		return false
	}
	h.vacate(i)
	h.size--
	return true
}

// removeUntil removes the blocks that were sent last at a time or before it, and appends them
// to old. It returns a time at which or after which the oldest of the others was sent, if
// there are any.
func (h *history) removeUntil(until time.Time, old []key) (_ []key, next time.Time, more bool) {
	limit, before := until.Sub(h.origin), len(old)
	end := h.first
	for ; end != h.end && h.entry(end).at <= limit; end++ {
		old = append(old, h.entry(end).key)
	}
	h.approach(old[before:])
	removed := old[:before]
	for n := h.first; n != end; n++ {
		k := h.entry(n).key
		if i := h.find(k, h.tag(k)); h.slots[i].tag != 0 && h.slots[i].entry == n {
			h.vacate(i)
			h.size--
			removed = append(removed, k)
		}
	}
	if h.first = end; h.size == 0 {
		return removed, time.Time{}, false
	}
	return removed, h.origin.Add(h.entry(end).at), true
}

// vacate empties a slot and closes the gap, so that no entry is cut off from its home.
func (h *history) vacate(gap int) {
	mask := len(h.slots) - 1
	for i := (gap + 1) & mask; h.slots[i].tag != 0; i = (i + 1) & mask {
		if home := h.home(h.slots[i].tag); (i-home)&mask >= (i-gap)&mask {
			h.slots[gap] = h.slots[i]
			gap = i
		}
	}
	h.slots[gap] = historySlot{}
}
