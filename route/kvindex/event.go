package kvindex

import (
	"unsafe"

	"parley"
)

// A Kind says what happened to blocks.
type Kind uint8

// The kinds of events.
const (
	Stored  Kind = iota // the blocks are in Tier
	Removed             // they are no longer in Tier
	Cleared             // the worker holds nothing any more
)

// An Event tells that blocks came to or went from one tier of a worker. A
// worker that uses our names gives their Keys; all others give the engine's own
// names, and with stored blocks their tokens.
type Event struct {
	Kind Kind
	Tier Tier
	// Model is the one whose blocks they are, by the worker's name for it. Empty is
	// the model that the worker runs when nothing else is said, and with removed
	// blocks any.
	Model string
	// Keys are those in our names of the blocks.
	Keys []parley.BlockKey
	// Engine are the engine's names, in order of position.
	Engine []uint64
	// Parent is the engine's name of the block before the first stored one,
	// unless First says that there is none.
	Parent uint64
	First  bool
	// Tokens are those of all stored blocks together, BlockTokens each. None
	// means that the engine moved blocks it has told of before.
	Tokens      []parley.Token
	BlockTokens int
	// Salt is the salt of the stored blocks if Salted; otherwise they have
	// their parent's, and without a parent the public one.
	Salt   parley.Salt
	Salted bool
}

// blocks returns how many blocks the event is about.
func (e *Event) blocks() int { return max(len(e.Keys), len(e.Engine), 1) }

// apply changes what the index knows by one event.
func (x *Index) apply(w Worker, e *Event) {
	switch {
	case !x.workers[w].source.takes(e):
	case e.Kind == Cleared:
		x.drop(w, Device, Host, Disk, expected)
		x.workers[w].stream.partial = false
	case e.Tier > Disk || e.Kind > Cleared:
		x.workers[w].counts.Unplaced += uint64(e.blocks())
	case e.Kind == Removed:
		x.applyRemoved(w, e)
	default:
		x.workers[w].lower = x.workers[w].lower || e.Tier != Device
		x.applyStored(w, e)
		x.turnOver(w)
	}
}

func (x *Index) applyStored(w Worker, e *Event) {
	counts := &x.workers[w].counts
	x.hold(w, e.Keys, e.Tier)
	counts.Stored += uint64(len(e.Keys))
	if len(e.Engine) == 0 {
		return
	}
	placed := false
	if len(e.Tokens) == 0 {
		placed = x.storeKnown(w, e)
	} else if e.BlockTokens == x.cfg.BlockTokens && len(e.Tokens) == e.BlockTokens*len(e.Engine) {
		placed = x.storeTokens(w, e)
	}
	if placed {
		counts.Stored += uint64(len(e.Engine))
	} else {
		counts.Unplaced += uint64(len(e.Engine))
	}
}

// storeTokens finds out which blocks an event is about, and reports whether what
// comes before them is known.
func (x *Index) storeTokens(w Worker, e *Event) bool {
	parent := &node{}
	if !e.First {
		n, _ := x.workers[w].aliases.find(e.Parent)
		if parent = x.table.at(n); !x.sets.exact(parent.set, w) {
			return false
		}
	}
	if int(x.table.used)+len(e.Engine) > nodesMax {
		return false
	}
	salt := x.salts.list[parent.salt].salt
	if e.Salted {
		salt = e.Salt
	}
	x.keys = parley.AppendBlockKeys(x.keys[:0], parent.key, salt, e.Tokens, e.BlockTokens)
	id := x.salts.use(salt)
	x.place(w, e.Engine, x.keys, id, e.Tier)
	x.salts.done(id)
	return true
}

// place notes that an engine has blocks under names of its own. Of two names for
// a block the first counts: a block has one alias for as long as the engine is
// known to have it.
func (x *Index) place(w Worker, engine []uint64, keys []key, salt saltID, tier Tier) {
	names := &x.workers[w].aliases
	c := change{sets: &x.sets, w: w, tier: tier, adds: true}
	for i, k := range keys {
		x.table.warm(keys, i)
		names.warm(engine, i)
		was, spot := names.find(engine[i])
		if was != nowhere && x.table.at(was).key != k { // the engine uses its name for another block now
			x.workers[w].held[tier] += c.done()
			x.vacate(w, was)
			names.remove(spot)
			was = nowhere
		}
		n := x.table.obtain(k)
		at := x.table.at(n)
		if was == nowhere && (at.set == none || !x.sets.exact(at.set, w)) {
			names.insert(engine[i], n)
		}
		at.set = c.of(at.set)
		if at.salt == 0 && salt != 0 {
			at.salt = x.salts.again(salt)
		}
	}
	x.workers[w].held[tier] += c.done()
}

// vacate notes that an engine no longer has a block in any tier.
func (x *Index) vacate(w Worker, n nodeID) {
	k := x.table.at(n).key
	for tier := Device; tier <= Disk; tier++ {
		x.release(w, []key{k}, tier)
	}
}

// storeKnown notes that blocks came to another tier, and reports whether all
// of them were known.
func (x *Index) storeKnown(w Worker, e *Event) bool {
	all := true
	for _, engine := range e.Engine {
		n, _ := x.workers[w].aliases.find(engine)
		if at := x.table.at(n); x.sets.exact(at.set, w) {
			x.hold(w, []key{at.key}, e.Tier)
		} else {
			all = false
		}
	}
	return all
}

func (x *Index) applyRemoved(w Worker, e *Event) {
	counts := &x.workers[w].counts
	x.release(w, e.Keys, e.Tier)
	removed := x.unplace(w, e.Engine, e.Tier)
	counts.Removed += uint64(len(e.Keys) + removed)
	if len(x.workers[w].source.Models) == 0 { // otherwise they may be another model's
		counts.Unplaced += uint64(len(e.Engine) - removed)
	}
}

// unplace notes that an engine no longer has blocks in a tier, and returns how
// many of them it was known to have. Each pass asks for the memory that the next
// one needs: aliases lead to nodes, and nodes to their places in the table.
func (x *Index) unplace(w Worker, engine []uint64, tier Tier) int {
	names := &x.workers[w].aliases
	gone := tier == Device && !x.workers[w].lower // there is no other tier that could have the blocks
	x.nodes = x.nodes[:0]
	for i, name := range engine {
		names.warm(engine, i)
		n, spot := names.find(name)
		if n == nowhere {
			continue
		}
		if at := x.table.at(n); gone {
			prefetch(unsafe.Pointer(at))
			names.remove(spot)
		} else if x.sets.tiersOf(at.set, w) == 1<<tier {
			names.remove(spot)
		}
		x.nodes = append(x.nodes, n)
	}
	held := x.nodes[:0]
	for _, n := range x.nodes {
		if at := x.table.at(n); x.sets.has(at.set, w, tier) {
			x.table.ask(at.key)
			held = append(held, n)
		}
	}
	c := change{sets: &x.sets, w: w, tier: tier}
	for _, n := range held {
		if at := x.table.at(n); at.set != none {
			if at.set = c.of(at.set); at.set == none {
				x.forget(n, x.table.spotOf(n))
			}
		}
	}
	x.workers[w].held[tier] -= c.done()
	return len(held)
}

// turnOver ends the degraded state of a worker whose known blocks fill its
// memory: there is no room for blocks that are not known. One with lower tiers
// may have them there.
func (x *Index) turnOver(w Worker) {
	worker := x.workers[w]
	most := worker.source.CapacityBlocks
	if worker.stream.partial && most > 0 && !worker.lower && worker.held[Device] >= most {
		worker.stream.partial = false
	}
}

// salts keeps each salt once, for as long as a block has it.
type salts struct {
	list []saltUse // the first is the public one
	ids  map[parley.Salt]saltID
	free []saltID
}

type saltID uint32

type saltUse struct {
	salt  parley.Salt
	users int
}

func newSalts() salts {
	return salts{list: make([]saltUse, 1), ids: map[parley.Salt]saltID{{}: 0}}
}

func (s *salts) use(salt parley.Salt) saltID {
	id, ok := s.ids[salt]
	if !ok {
		if n := len(s.free); n > 0 {
			id, s.free = s.free[n-1], s.free[:n-1]
		} else {
			id = saltID(len(s.list))
			s.list = append(s.list, saltUse{})
		}
		s.ids[salt] = id
		s.list[id] = saltUse{salt: salt}
	}
	return s.again(id)
}

// again counts one more who uses a salt.
func (s *salts) again(id saltID) saltID {
	s.list[id].users++
	return id
}

// done counts one less. The public salt needs no counting.
func (s *salts) done(id saltID) {
	if id == 0 {
		return
	}
	if s.list[id].users--; s.list[id].users == 0 {
		delete(s.ids, s.list[id].salt)
		s.free = append(s.free, id)
	}
}
