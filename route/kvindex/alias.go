package kvindex

import "math/bits"

// An alias is an engine's name for a block that it has.
type alias struct {
	engine uint64
	node   nodeID // of the block; nowhere is an empty place
	about  uint32 // the tiers in which the engine has it, and a proof of the node
}

// tierBits are those of about that say tiers. The others are the block's key's:
// an engine that has two names for a block and removes one leaves the other
// behind, and the node may be another block's by then.
const tierBits = 1<<expected - 1

func proofOf(k key) uint32 { return uint32(k>>32) &^ tierBits }

func (a *alias) in(tier Tier) bool { return a.about>>tier&1 != 0 }

// aliases finds the names of one engine. Like the table it is open and cut into
// shards that grow one at a time; here a search goes from place to place.
type aliases struct {
	shards [aliasShards]aliasShard
	secret secret
}

type aliasShard struct {
	places []alias // a power of two, or none
	n      int     // that are not empty, at most five eighths
	shift  uint8
}

const (
	aliasShardBits = 4
	aliasShards    = 1 << aliasShardBits
	aliasesMin     = 8
)

// place returns the shard of a name and where in it the search begins.
func (a *aliases) place(engine uint64) (s *aliasShard, home int) {
	spread := a.secret.spread(engine)
	s = &a.shards[spread>>(64-aliasShardBits)]
	return s, s.home(spread)
}

func (s *aliasShard) home(spread uint64) int { return int(spread << aliasShardBits >> s.shift) }

// warm reads the places of at most lookahead names; see [table.warm].
func (a *aliases) warm(engine []uint64) (sum uint32) {
	for _, e := range engine[:min(len(engine), lookahead)] {
		if s, home := a.place(e); len(s.places) > 0 {
			sum += s.places[home&(len(s.places)-1)].about
		}
	}
	return sum
}

// find returns the alias of a name, or nil.
func (a *aliases) find(engine uint64) *alias {
	s, home := a.place(engine)
	if len(s.places) == 0 {
		return nil
	}
	if at := s.search(engine, home); at.node != nowhere {
		return at
	}
	return nil
}

// search returns the place of a name, or the empty one where it would be.
func (s *aliasShard) search(engine uint64, home int) *alias {
	mask := len(s.places) - 1
	for at := home & mask; ; at = (at + 1) & mask {
		if p := &s.places[at]; p.engine == engine || p.node == nowhere {
			return p
		}
	}
}

// obtain returns the alias of a name. A new one leads nowhere: who asked for it
// gives it a node at once.
func (a *aliases) obtain(engine uint64) *alias {
	s, home := a.place(engine)
	if s.n >= len(s.places)/8*5 {
		a.resize(s, max(2*len(s.places), aliasesMin))
		s, home = a.place(engine)
	}
	at := s.search(engine, home)
	if at.node == nowhere {
		s.n++
		*at = alias{engine: engine}
	}
	return at
}

// remove forgets a name that is there. Those after it that it kept from their
// places move up.
func (a *aliases) remove(engine uint64) {
	s, home := a.place(engine)
	mask := len(s.places) - 1
	gap := home & mask
	for s.places[gap].engine != engine {
		gap = (gap + 1) & mask
	}
	for at := (gap + 1) & mask; s.places[at].node != nowhere; at = (at + 1) & mask {
		home := s.home(a.secret.spread(s.places[at].engine))
		if (at-home)&mask >= (at-gap)&mask {
			s.places[gap] = s.places[at]
			gap = at
		}
	}
	s.places[gap] = alias{}
	if s.n--; s.n < len(s.places)/8 && len(s.places) > aliasesMin {
		a.resize(s, len(s.places)/2)
	}
}

// resize moves a shard to another number of places.
func (a *aliases) resize(s *aliasShard, places int) {
	old := s.places
	s.places, s.shift = make([]alias, places), uint8(64-bits.Len(uint(places-1)))
	for i := range old {
		if old[i].node != nowhere {
			*s.search(old[i].engine, s.home(a.secret.spread(old[i].engine))) = old[i]
		}
	}
}
