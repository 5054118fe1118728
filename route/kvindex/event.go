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
// worker that uses our names gives their Keys; all others give the engine's own
// names, and with stored blocks their tokens.
type Event struct {
	Kind Kind
	Tier Tier
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

// applySome applies the first events and returns the others. Some engines evict
// each block by an event of its own; many blocks at once cost less.
func (x *Index) applySome(w Worker, events []Event) []Event {
	first := &events[0]
	n := 1
	for n < len(events) && first.Kind == Removed && events[n].Kind == Removed && events[n].Tier == first.Tier {
		n++
	}
	if n == 1 {
		x.apply(w, first)
		return events[1:]
	}
	x.gone.Keys, x.gone.Engine = x.gone.Keys[:0], x.gone.Engine[:0]
	for i := range events[:n] {
		x.gone.Keys, x.gone.Engine = append(x.gone.Keys, events[i].Keys...), append(x.gone.Engine, events[i].Engine...)
	}
	x.gone.Kind, x.gone.Tier = Removed, first.Tier
	x.apply(w, &x.gone)
	return events[n:]
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
	var parent node
	if !e.First {
		if parent = x.known(x.workers[w].aliases.find(e.Parent)); parent.set == none {
			return false
		}
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

// known returns the block that an engine's name means, without holders if it is
// not known any more.
func (x *Index) known(a *alias) node {
	if a == nil {
		return node{}
	}
	if at := x.table.at(a.node); at.set != none && proofOf(at.key) == a.about&^tierBits {
		return *at
	}
	return node{}
}

// place notes that an engine has blocks under names of its own.
func (x *Index) place(w Worker, engine []uint64, keys []key, salt saltID, tier Tier) {
	names := &x.workers[w].aliases
	c := change{sets: &x.sets, w: w, tier: tier, adds: true}
	for i, k := range keys {
		if i%lookahead == 0 {
			x.warmed += x.table.warm(keys[i:]) + names.warm(engine[i:])
		}
		a := names.obtain(engine[i])
		if a.node != nowhere && (x.table.at(a.node).key != k || a.about&^tierBits != proofOf(k)) {
			x.workers[w].held[tier] += c.done()
			c = change{sets: &x.sets, w: w, tier: tier, adds: true}
			x.vacate(w, a)
		}
		n := x.table.obtain(k)
		at := x.table.at(n)
		at.set = c.of(at.set)
		if at.salt == 0 && salt != 0 {
			at.salt = x.salts.again(salt)
		}
		a.node, a.about = n, a.about&tierBits|1<<tier|proofOf(k)
	}
	x.workers[w].held[tier] += c.done()
}

// vacate takes a name from the block that the engine used it for, as it uses it
// for another one now.
func (x *Index) vacate(w Worker, a *alias) {
	for tier := Device; tier <= Disk; tier++ {
		if k := x.known(a); a.in(tier) && k.set != none {
			x.release(w, []key{k.key}, tier)
		}
	}
	a.about = 0
}

// storeKnown notes that blocks came to another tier, and reports whether all
// of them were known.
func (x *Index) storeKnown(w Worker, e *Event) bool {
	all := true
	for _, engine := range e.Engine {
		a := x.workers[w].aliases.find(engine)
		k := x.known(a)
		if k.set == none {
			all = false
			continue
		}
		a.about |= 1 << e.Tier
		x.hold(w, []key{k.key}, e.Tier)
	}
	return all
}

func (x *Index) applyRemoved(w Worker, e *Event) {
	counts := &x.workers[w].counts
	x.release(w, e.Keys, e.Tier)
	removed := x.unplace(w, e.Engine, e.Tier)
	counts.Removed += uint64(len(e.Keys) + removed)
	counts.Unplaced += uint64(len(e.Engine) - removed)
}

// unplace notes that an engine no longer has blocks in a tier, and returns how
// many of them it was known to have.
func (x *Index) unplace(w Worker, engine []uint64, tier Tier) (removed int) {
	names := &x.workers[w].aliases
	for ; len(engine) > 0; engine = engine[min(len(engine), lookahead):] {
		x.warmed += names.warm(engine)
		x.keys = x.keys[:0]
		for _, name := range engine[:min(len(engine), lookahead)] {
			a := names.find(name)
			if a == nil || !a.in(tier) {
				continue
			}
			removed++
			if k := x.known(a); k.set != none {
				x.keys = append(x.keys, k.key)
			}
			if a.about &^= 1 << tier; a.about&tierBits == 0 {
				names.remove(name)
			}
		}
		x.release(w, x.keys, tier)
	}
	return removed
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
