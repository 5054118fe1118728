package kvindex

import "parley"

// A Kind says what happened to blocks.
type Kind uint8

// The kinds of events.
const (
	Stored  Kind = iota // the blocks are in Tier
	Removed             // they are no longer in Tier
	Cleared             // the worker holds nothing any more
)

// An Event tells that blocks came to or went from one tier of a worker. A
// worker that uses our names gives them as Names; all others give the engine's
// own, and with stored blocks their tokens.
type Event struct {
	Kind Kind
	Tier Tier
	// Names are our names of the blocks.
	Names []parley.BlockHash
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
func (e *Event) blocks() int { return max(len(e.Names), len(e.Engine), 1) }

// An alias is our name for a block that an engine named.
type alias struct {
	name  parley.BlockHash
	salt  saltID
	tiers uint8 // bits of those in which the engine has it
}

// apply changes what the index knows by one event.
func (x *Index) apply(w Worker, e *Event) {
	switch {
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
	for i := range e.Names {
		if i%lookahead == 0 {
			x.warmed += x.table.warm(e.Names[i:])
		}
		x.hold(w, keyOf(&e.Names[i]), e.Tier)
	}
	counts.Stored += uint64(len(e.Names))
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

// storeTokens names the blocks of an event, and reports whether what comes
// before them is known.
func (x *Index) storeTokens(w Worker, e *Event) bool {
	var parent alias
	if !e.First {
		var ok bool
		if parent, ok = x.workers[w].aliases[e.Parent]; !ok {
			return false
		}
	}
	salt := x.salts.list[parent.salt].salt
	if e.Salted {
		salt = e.Salt
	}
	x.salts.names = parley.AppendBlockHashes(x.salts.names[:0], parent.name, salt, e.Tokens, e.BlockTokens)
	for i, engine := range e.Engine {
		x.place(w, engine, x.salts.names[i], salt, e.Tier)
	}
	return true
}

// storeKnown notes that blocks came to another tier, and reports whether all
// of them were known.
func (x *Index) storeKnown(w Worker, e *Event) bool {
	all := true
	for _, engine := range e.Engine {
		known, ok := x.workers[w].aliases[engine]
		if all = all && ok; ok {
			x.place(w, engine, known.name, x.salts.list[known.salt].salt, e.Tier)
		}
	}
	return all
}

// place notes that an engine has a block under a name of its own.
func (x *Index) place(w Worker, engine uint64, name parley.BlockHash, salt parley.Salt, tier Tier) {
	aliases := x.workers[w].aliases
	a, ok := aliases[engine]
	if ok && a.name != name { // the engine uses its name for another block now
		for old := Device; old <= Disk; old++ {
			x.unplace(w, engine, old)
		}
		a, ok = alias{}, false
	}
	if !ok {
		a = alias{name: name, salt: x.salts.use(salt)}
	}
	a.tiers |= 1 << tier
	aliases[engine] = a
	x.hold(w, keyOf(&name), tier)
}

func (x *Index) applyRemoved(w Worker, e *Event) {
	counts := &x.workers[w].counts
	for i := range e.Names {
		if i%lookahead == 0 {
			x.warmed += x.table.warm(e.Names[i:])
		}
		x.release(w, keyOf(&e.Names[i]), e.Tier)
	}
	counts.Removed += uint64(len(e.Names))
	for _, engine := range e.Engine {
		if x.unplace(w, engine, e.Tier) {
			counts.Removed++
		} else {
			counts.Unplaced++
		}
	}
}

// unplace notes that an engine no longer has a block in a tier, and reports
// whether it was known to have it.
func (x *Index) unplace(w Worker, engine uint64, tier Tier) bool {
	aliases := x.workers[w].aliases
	a, ok := aliases[engine]
	if !ok || a.tiers>>tier&1 == 0 {
		return false
	}
	a.tiers &^= 1 << tier
	x.release(w, keyOf(&a.name), tier)
	if a.tiers != 0 {
		aliases[engine] = a
		return true
	}
	delete(aliases, engine)
	x.salts.done(a.salt)
	return true
}

func (x *Index) forgetAliases(w Worker) {
	for _, a := range x.workers[w].aliases {
		x.salts.done(a.salt)
	}
	x.workers[w].aliases = map[uint64]alias{}
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

// salts keeps each salt once, for as long as an alias has it.
type salts struct {
	list  []saltUse // the first is the public one
	ids   map[parley.Salt]saltID
	free  []saltID
	names []parley.BlockHash // scratch
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
	s.list[id].users++
	return id
}

func (s *salts) done(id saltID) {
	if s.list[id].users--; s.list[id].users == 0 && id != 0 {
		delete(s.ids, s.list[id].salt)
		s.free = append(s.free, id)
	}
}
