package kv

import "parley"

// A Ferry holds copies that were decided and are not done yet, so that a pass
// waits for the few that its own blocks need and the others happen when there
// is time. Copies that share an end are done in the order in which they were
// decided; others are independent.
//
// The zero value is an empty ferry.
type Ferry struct {
	waiting []crossing
	first   int               // number of waiting[0]; numbers begin at 1
	last    map[blockSlot]int // the latest copy that waits for each place
	left    int
}

// A blockSlot is where a block lies.
type blockSlot struct {
	tier Tier
	slot int32
}

// A crossing is a copy that waits.
type crossing struct {
	Move
	before [2]int // numbers of the copies that must be done first
	done   bool
	void   bool // its source was lost
}

// Len returns how many copies wait.
func (f *Ferry) Len() int { return f.left }

// Add lets copies wait, in the order in which they were decided.
func (f *Ferry) Add(moves []Move) {
	if f.last == nil {
		f.last, f.first = map[blockSlot]int{}, 1
	}
	for _, m := range moves {
		number := f.first + len(f.waiting)
		from, to := blockSlot{m.From, m.FromSlot}, blockSlot{m.To, m.ToSlot}
		f.waiting = append(f.waiting, crossing{Move: m, before: [2]int{f.last[from], f.last[to]}})
		f.last[from], f.last[to] = number, number
		f.left++
	}
}

// Waits reports how many of the device blocks wait for a copy.
func (f *Ferry) Waits(blocks []int32) (n int) {
	if f.left == 0 {
		return 0
	}
	for _, b := range blocks {
		if f.last[blockSlot{Device, b}] != 0 {
			n++
		}
	}
	return n
}

// TakeFor appends the copies without which the device blocks cannot be used,
// in the order in which they are to be done. They wait no longer.
func (f *Ferry) TakeFor(dst []Move, blocks []int32) []Move {
	if f.left == 0 {
		return dst
	}
	for _, b := range blocks {
		dst = f.take(dst, f.last[blockSlot{Device, b}])
	}
	f.trim()
	return dst
}

// TakeAt appends the copies that a slot of a tier waits for, in the order in which they
// are to be done. They wait no longer.
func (f *Ferry) TakeAt(dst []Move, t Tier, slot int32) []Move {
	if f.left == 0 {
		return dst
	}
	dst = f.take(dst, f.last[blockSlot{t, slot}])
	f.trim()
	return dst
}

// TakeOldest appends up to most copies, or a few more if those need others
// done first, in the order in which they are to be done.
func (f *Ferry) TakeOldest(dst []Move, most int) []Move {
	for target := len(dst) + most; f.left > 0 && len(dst) < target; f.trim() {
		dst = f.take(dst, f.first)
	}
	return dst
}

// take appends a copy after those that must be done before it.
func (f *Ferry) take(dst []Move, number int) []Move {
	at := number - f.first
	if at < 0 || f.waiting[at].done {
		return dst
	}
	c := &f.waiting[at]
	for _, n := range c.before {
		dst = f.take(dst, n)
	}
	for _, p := range [...]blockSlot{{c.From, c.FromSlot}, {c.To, c.ToSlot}} {
		if f.last[p] == number {
			delete(f.last, p)
		}
	}
	c.done = true
	f.left--
	if c.void {
		return dst
	}
	return append(dst, c.Move)
}

// trim forgets the oldest copies as far as they are done.
func (f *Ferry) trim() {
	n := 0
	for n < len(f.waiting) && f.waiting[n].done {
		n++
	}
	f.first += n
	f.waiting = f.waiting[:copy(f.waiting, f.waiting[n:])]
}

// Void calls off the copies of a block whose content was lost, so that nothing else is
// written under its name, and returns the device slots that will not get it.
func (f *Ferry) Void(hash parley.BlockHash) (slots []int32) {
	for i := range f.waiting {
		c := &f.waiting[i]
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
