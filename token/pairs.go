package token

import "math/bits"

// missing is the symbol of what a vocabulary does not have.
const missing = int32(-1)

// noRank is the rank of a pair that does not merge; every rank is below it.
const noRank = ^uint32(0)

// A merge says what a pair of neighbouring symbols becomes. Lower ranks merge first.
type merge struct {
	rank uint32
	id   int32
}

type pairSlot struct {
	key uint64
	merge
}

// A pairTable maps pairs of symbols to merges. It is an open-addressing table because this lookup is the inner loop
// of encoding: one cache line holds a probe, and there is nothing to allocate or hash twice.
type pairTable struct {
	slots []pairSlot
	shift uint
	// filter has a bit for each key's hash. It is small enough to stay in the processor's cache and answers most
	// lookups of pairs that do not merge.
	filter      []uint64
	filterShift uint
}

// mergeRules are the merges of a model.
type mergeRules struct {
	pairs *pairTable
	ranks int // all ranks are below this
	// ordered: a token is part only of merges that rank after the one that makes it.
	ordered bool
}

const emptyPair = ^uint64(0)

func newPairTable(pairs int) *pairTable {
	log := max(4, bits.Len(uint(pairs+pairs/2)))
	t := &pairTable{slots: make([]pairSlot, 1<<log), shift: uint(64 - log),
		filter: make([]uint64, 1<<(log-3)), filterShift: uint(64 - log - 3)}
	for i := range t.slots {
		t.slots[i] = pairSlot{emptyPair, merge{noRank, -1}}
	}
	return t
}

func pairKey(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

func (t *pairTable) find(a, b int32) merge {
	key := pairKey(a, b)
	hash := key * 0x9E3779B97F4A7C15
	if bit := hash >> t.filterShift; t.filter[bit>>6]>>(bit&63)&1 == 0 {
		return merge{noRank, missing}
	}
	mask := uint64(len(t.slots) - 1)
	for i := hash >> t.shift; ; i = (i + 1) & mask {
		s := &t.slots[i&mask]
		if s.key == key || s.key == emptyPair {
			return s.merge
		}
	}
}

// ordered says that every symbol below size is made by merges that rank before all merges it is part of.
func (t *pairTable) ordered(size int) bool {
	firstUse := make([]uint32, size)
	for i := range firstUse {
		firstUse[i] = noRank
	}
	for _, s := range t.slots {
		if s.key != emptyPair {
			for _, part := range []uint32{uint32(s.key >> 32), uint32(s.key)} {
				firstUse[part] = min(firstUse[part], s.rank)
			}
		}
	}
	for _, s := range t.slots {
		if s.key != emptyPair && s.rank >= firstUse[s.id] {
			return false
		}
	}
	return true
}

// set stores a merge; the last one for a pair wins. The caller announced enough pairs to newPairTable.
func (t *pairTable) set(a, b int32, m merge) {
	key := pairKey(a, b)
	hash := key * 0x9E3779B97F4A7C15
	bit := hash >> t.filterShift
	t.filter[bit>>6] |= 1 << (bit & 63)
	mask := uint64(len(t.slots) - 1)
	i := hash >> t.shift
	for t.slots[i].key != key && t.slots[i].key != emptyPair {
		i = (i + 1) & mask
	}
	t.slots[i] = pairSlot{key, m}
}
