package kv

import "parley"

// A CopyQueue holds copies that were decided and are not done yet, so that a pass
// waits for the few that its own blocks need and the others happen when there
// is time. Copies that share an end are done in the order in which they were
// decided; others are independent.
//
// The zero value is an empty queue.
type CopyQueue struct {
	waiting []queuedCopy
	first   int               // number of waiting[0]; numbers begin at 1
	last    map[blockSlot]int // the latest copy that waits for each place
	left    int
}

// A blockSlot is where a block lies.
type blockSlot struct {
	tier Tier
	slot int32
}

// A queuedCopy is a copy that waits.
type queuedCopy struct {
	Move
	before [2]int // numbers of the copies that must be done first
	done   bool
	void   bool // its source was lost
}

// Len returns how many copies wait.
func (q *CopyQueue) Len() int { return q.left }

// Add lets copies wait, in the order in which they were decided.
func (q *CopyQueue) Add(moves []Move) {
	if q.last == nil {
		q.last, q.first = map[blockSlot]int{}, 1
	}
	for _, m := range moves {
		number := q.first + len(q.waiting)
		from, to := blockSlot{m.From, m.FromSlot}, blockSlot{m.To, m.ToSlot}
		q.waiting = append(q.waiting, queuedCopy{Move: m, before: [2]int{q.last[from], q.last[to]}})
		q.last[from], q.last[to] = number, number
		q.left++
	}
}

// Waits reports how many of the device blocks wait for a copy.
func (q *CopyQueue) Waits(blocks []int32) (n int) {
	if q.left == 0 {
		return 0
	}
	for _, b := range blocks {
		if q.last[blockSlot{Device, b}] != 0 {
			n++
		}
	}
	return n
}

// TakeFor appends the copies without which the device blocks cannot be used,
// in the order in which they are to be done. They wait no longer.
func (q *CopyQueue) TakeFor(dst []Move, blocks []int32) []Move {
	if q.left == 0 {
		return dst
	}
	for _, b := range blocks {
		dst = q.take(dst, q.last[blockSlot{Device, b}])
	}
	q.trim()
	return dst
}

// TakeAt appends the copies that a slot of a tier waits for, in the order in which they
// are to be done. They wait no longer.
func (q *CopyQueue) TakeAt(dst []Move, t Tier, slot int32) []Move {
	if q.left == 0 {
		return dst
	}
	dst = q.take(dst, q.last[blockSlot{t, slot}])
	q.trim()
	return dst
}

// TakeOldest appends up to most copies, or a few more if those need others
// done first, in the order in which they are to be done.
func (q *CopyQueue) TakeOldest(dst []Move, most int) []Move {
	for target := len(dst) + most; q.left > 0 && len(dst) < target; q.trim() {
		dst = q.take(dst, q.first)
	}
	return dst
}

// take appends a copy after those that must be done before it.
func (q *CopyQueue) take(dst []Move, number int) []Move {
	at := number - q.first
	if at < 0 || q.waiting[at].done {
		return dst
	}
	c := &q.waiting[at]
	for _, n := range c.before {
		dst = q.take(dst, n)
	}
	for _, p := range [...]blockSlot{{c.From, c.FromSlot}, {c.To, c.ToSlot}} {
		if q.last[p] == number {
			delete(q.last, p)
		}
	}
	c.done = true
	q.left--
	if c.void {
		return dst
	}
	return append(dst, c.Move)
}

// trim forgets the oldest copies as far as they are done.
func (q *CopyQueue) trim() {
	n := 0
	for n < len(q.waiting) && q.waiting[n].done {
		n++
	}
	q.first += n
	q.waiting = q.waiting[:copy(q.waiting, q.waiting[n:])]
}

// Void calls off the copies of a block whose content was lost, so that nothing else is
// written under its name, and returns the device slots that will not get it.
func (q *CopyQueue) Void(hash parley.BlockHash) (slots []int32) {
	for i := range q.waiting {
		c := &q.waiting[i]
		if c.done || c.Hash != hash {
			continue
		}
		c.void = true
		if c.To == Device {
			slots = append(slots, c.ToSlot)
		}
	}
	return slots
}
