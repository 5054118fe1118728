package kv

import (
	"math/bits"

	"parley/internal/largepage"
)

// An index finds a small number by a 64-bit key, with open addressing. It is
// written by hand because it must not allocate while blocks come and go, which
// Go's map does now and then, and because the keys are hashes already.
type index struct {
	entries []indexEntry // a power of two, at most two thirds full
	shift   uint8
	odd     uint64 // secret multiplier: who does not know it cannot aim at one place
	n       int
}

type indexEntry struct {
	key   uint64
	value int32 // 0 is an empty entry
}

// newIndex returns an index for up to most keys.
func newIndex(most int, seed uint64) index {
	width := max(bits.Len(uint(most)+uint(most)/2), 4)
	x := index{entries: make([]indexEntry, 1<<width), shift: uint8(64 - width)}
	x.odd = (seed+0x9e3779b97f4a7c15)*0xbf58476d1ce4e5b9 | 1
	largepage.Ask(x.entries)
	return x
}

func (x *index) home(key uint64) int { return int((key ^ key>>32) * x.odd >> x.shift) }

// find returns the value of key, or 0.
func (x *index) find(key uint64) int32 {
	if x.n == 0 { // as that of ghosts is until the first eviction: no memory need be looked at
		return 0
	}
	mask := len(x.entries) - 1
	for i := x.home(key); ; i = (i + 1) & mask {
		if e := &x.entries[i]; e.value == 0 || e.key == key {
			return e.value
		}
	}
}

// approach reads where a key belongs.
func (x *index) approach(key uint64) int32 {
	if x.n == 0 {
		return 0
	}
	return x.entries[x.home(key)].value
}

// put sets the value of a key that has none.
func (x *index) put(key uint64, value int32) {
	mask := len(x.entries) - 1
	i := x.home(key)
	for x.entries[i].value != 0 {
		i = (i + 1) & mask
	}
	x.entries[i] = indexEntry{key, value}
	x.n++
}

// remove forgets a key and closes the gap, so that no entry is cut off from
// its home.
func (x *index) remove(key uint64) {
	mask := len(x.entries) - 1
	i := x.home(key)
	for x.entries[i].value != 0 && x.entries[i].key != key {
		i = (i + 1) & mask
	}
	if x.entries[i].value == 0 {
		return
	}
	x.n--
	for gap := i; ; {
		i = (i + 1) & mask
		e := x.entries[i]
		if e.value == 0 {
			x.entries[gap] = indexEntry{}
			return
		}
		if home := x.home(e.key); (i-home)&mask >= (i-gap)&mask {
			x.entries[gap] = e
			gap = i
		}
	}
}

// add changes the count kept under key by delta; an entry with a count of 0 is removed.
func (x *index) add(key uint64, delta int32) {
	mask := len(x.entries) - 1
	i := x.home(key)
	for x.entries[i].value != 0 && x.entries[i].key != key {
		i = (i + 1) & mask
	}
	switch e := &x.entries[i]; {
	case e.value == 0 && delta > 0:
		x.put(key, delta)
	case e.value+delta <= 0:
		x.remove(key)
	default:
		e.value += delta
	}
}
