package kvindex

import (
	"math"
	"math/bits"
	"slices"
)

// A setID names a set of holders. Equal sets have equal ids.
type setID uint32

// none is the empty set.
const none setID = 0

// sets keeps every set of holders once, strikes aside, and counts who uses it. A holder is a
// worker together with the tier in which it holds a block; its bit is
// tier*64*width + worker.
type sets struct {
	width  int // words for each tier; grows with the number of workers
	words  []uint64
	about  []aboutSet
	single []setID // by bit: the set that has no other member
	byHash map[uint64]setID
	free   []setID
	seed   uint64
	// abandoned are the blocks whose set has lost its last member by a strike: they
	// have it until the index comes by.
	abandoned int
}

type aboutSet struct {
	hash  uint64 // exclusive or of the members' hashes
	users uint32 // blocks that have this set
	size  uint32
}

func newSets(seed uint64) sets {
	s := sets{seed: mix(seed), byHash: map[uint64]setID{}}
	s.widen(1)
	s.about = make([]aboutSet, 1)
	s.words = make([]uint64, int(tiers))
	return s
}

// widen makes room for width words of workers in each tier.
func (s *sets) widen(width int) {
	words := make([]uint64, len(s.about)*width*int(tiers))
	single := make([]setID, 64*width*int(tiers))
	for tier := range int(tiers) {
		for id := range s.about {
			copy(words[(id*int(tiers)+tier)*width:], s.row(setID(id), CacheTier(tier)))
		}
		copy(single[tier*64*width:], s.single[tier*64*s.width:][:64*s.width])
	}
	s.width, s.words, s.single = width, words, single
}

// row returns the workers of one tier.
func (s *sets) row(id setID, tier CacheTier) []uint64 {
	at := (int(id)*int(tiers) + int(tier)) * s.width
	return s.words[at : at+s.width]
}

func (s *sets) bit(w Worker, tier CacheTier) int { return int(tier)*64*s.width + int(w) }

func (s *sets) hash(w Worker, tier CacheTier) uint64 {
	return mix(s.seed ^ uint64(w)<<8 ^ uint64(tier))
}

func (s *sets) has(id setID, w Worker, tier CacheTier) bool {
	bit := s.bit(w, tier)
	return s.words[int(id)*int(tiers)*s.width+bit/64]>>(bit%64)&1 != 0
}

// tiersOf returns the bits of the tiers in which events say that the worker
// holds the block.
func (s *sets) tiersOf(id setID, w Worker) (bits uint64) {
	for tier := Device; tier <= Disk; tier++ {
		at := (int(id)*int(tiers)+int(tier))*s.width + int(w)/64
		bits |= s.words[at] >> (w % 64) & 1 << tier
	}
	return bits
}

// exact reports whether events say that the worker holds the block.
func (s *sets) exact(id setID, w Worker) bool { return s.tiersOf(id, w) != 0 }

// A setUpdate makes a holder a member of the sets of blocks, or takes it out of
// them. Neighbouring blocks mostly have the same set: it looks one up only where
// it differs from that of the block before.
type setUpdate struct {
	sets *sets
	w    Worker
	tier CacheTier
	adds bool
	// blocks went from one set to another and are not counted there.
	from, to setID
	blocks   uint32
	changed  int // blocks that were counted
}

// unknown is the set that a change begins with.
const unknown setID = math.MaxUint32

// of returns the set of a block that had another.
func (c *setUpdate) of(set setID) setID {
	if set != c.from {
		c.turn(set)
	}
	c.blocks++
	return c.to
}

// turn finds out to which set the blocks go that had another.
func (c *setUpdate) turn(set setID) {
	c.count()
	c.from, c.to = set, c.sets.with(set, c.w, c.tier, c.adds)
}

// count notes who uses which set.
func (c *setUpdate) count() {
	if c.from != c.to && c.blocks > 0 {
		c.sets.move(c.from, c.to, c.blocks)
		c.changed += int(c.blocks)
	}
	c.blocks = 0
}

// done ends the change, and returns how many blocks have another set by it.
func (c *setUpdate) done() int {
	c.count()
	c.from, c.to = unknown, none
	changed := c.changed
	c.changed = 0
	return changed
}

// with returns the set that has a holder or does not have it. It may be new,
// and then has no users.
func (s *sets) with(from setID, w Worker, tier CacheTier, has bool) setID {
	switch {
	case s.has(from, w, tier) == has:
		return from
	case from == none:
		return s.alone(w, tier)
	case !has && s.about[from].size == 1:
		return none
	}
	return s.toggled(from, w, tier)
}

// alone returns the set that has one member.
func (s *sets) alone(w Worker, tier CacheTier) setID {
	id := &s.single[s.bit(w, tier)]
	if *id == none {
		*id = s.toggled(none, w, tier)
	}
	return *id
}

// move notes that blocks that had one set have another.
func (s *sets) move(from, to setID, blocks uint32) {
	if to != none {
		s.about[to].users += blocks
	}
	if from == none {
		return
	}
	if s.about[from].size == 0 {
		s.abandoned -= int(blocks)
	}
	if s.about[from].users -= blocks; s.about[from].users == 0 {
		s.drop(from)
	}
}

// strike takes a holder out of all sets that blocks have, without a look at the
// blocks. Some sets may be equal then, which costs a little speed and nothing
// else, and some are empty.
func (s *sets) strike(w Worker, tier CacheTier) {
	bit, stride := s.bit(w, tier), int(tiers)*s.width
	for id := range s.about {
		about, word := &s.about[id], &s.words[id*stride+bit/64]
		if about.users == 0 || *word>>(bit%64)&1 == 0 {
			continue
		}
		s.unlist(setID(id))
		*word &^= 1 << (bit % 64)
		about.hash ^= s.hash(w, tier)
		if about.size--; about.size == 0 {
			s.abandoned += int(about.users)
		} else {
			s.list(setID(id))
		}
	}
}

// list makes a set the one that is found where its members are asked for, unless
// there is another.
func (s *sets) list(id setID) {
	if _, have := s.byHash[s.about[id].hash]; !have {
		s.byHash[s.about[id].hash] = id
	}
	if s.about[id].size == 1 {
		if single := &s.single[s.first(id)]; *single == none {
			*single = id
		}
	}
}

// unlist has a set not found any more.
func (s *sets) unlist(id setID) {
	if s.byHash[s.about[id].hash] == id {
		delete(s.byHash, s.about[id].hash)
	}
	if s.about[id].size == 1 {
		if single := &s.single[s.first(id)]; *single == id {
			*single = none
		}
	}
}

// toggled returns the set that differs from another in one member. It has no
// users if it is new.
func (s *sets) toggled(from setID, w Worker, tier CacheTier) setID {
	hash := s.about[from].hash ^ s.hash(w, tier)
	if id, ok := s.byHash[hash]; ok && s.differInOne(id, from, s.bit(w, tier)) {
		return id
	}
	id := s.fresh()
	stride := int(tiers) * s.width
	words := s.words[int(id)*stride:][:stride]
	copy(words, s.words[int(from)*stride:][:stride])
	bit := s.bit(w, tier)
	words[bit/64] ^= 1 << (bit % 64)
	size := 0
	for _, word := range words {
		size += bits.OnesCount64(word)
	}
	s.about[id] = aboutSet{hash: hash, size: uint32(size)}
	s.byHash[hash] = id
	return id
}

func (s *sets) differInOne(a, b setID, bit int) bool {
	stride := int(tiers) * s.width
	x, y := s.words[int(a)*stride:][:stride], s.words[int(b)*stride:][:stride]
	for i := range x {
		difference := uint64(0)
		if i == bit/64 {
			difference = 1 << (bit % 64)
		}
		if x[i]^y[i] != difference {
			return false
		}
	}
	return true
}

// fresh returns an unused id.
func (s *sets) fresh() setID {
	if n := len(s.free); n > 0 {
		id := s.free[n-1]
		s.free = s.free[:n-1]
		return id
	}
	s.about = append(s.about, aboutSet{})
	stride := int(tiers) * s.width
	s.words = slices.Grow(s.words, stride)[:len(s.words)+stride] // all are overwritten
	return setID(len(s.about) - 1)
}

// drop forgets a set that no block has.
func (s *sets) drop(id setID) {
	s.unlist(id)
	s.free = append(s.free, id)
}

// first returns the lowest bit of a set that is not empty.
func (s *sets) first(id setID) int {
	for i, word := range s.words[int(id)*int(tiers)*s.width:] {
		if word != 0 {
			return 64*i + bits.TrailingZeros64(word)
		}
	}
	panic("kvindex: the set is empty")
}
