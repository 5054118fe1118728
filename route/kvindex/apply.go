package kvindex

import (
	"unsafe"

	"parley"
)

// prepare asks for the lines that the first step of an event needs. It changes
// nothing, and is done before the work at another event.
func (x *Index) prepare(w Worker, e *Event) {
	if len(e.Keys) > 0 {
		var aims [step]aim
		x.table.ask(some(e.Keys, 0), aims[:])
	}
	x.workers[w].aliases.ask(some(e.Engine, 0), x.scratch.coming[:])
	x.scratch.comingMoves = x.moves(w)
}

// begin has the event that was prepared be the one that is worked at.
func (x *Index) begin() {
	s := &x.scratch
	copy(s.names[:], s.coming[:])
	s.moves = s.comingMoves
}

// moves changes when an aim in the tables that a worker's events need is no longer
// good.
func (x *Index) moves(w Worker) int { return x.table.size.moves + x.workers[w].aliases.size.moves }

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
		n := x.workers[w].aliases.node(e.Parent)
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
	id := x.salts.use(salt)
	names := naming{salt: salt, before: parent.key, tokens: e.Tokens}
	c := setUpdate{
		sets: &x.sets,
		w:    w,
		tier: e.Tier,
		adds: true,
		from: unknown,
	}
	all := len(e.Engine)
	for at := 0; at < all+step; at += step {
		if at+step < all {
			x.workers[w].aliases.ask(some(e.Engine, at+step), part(&x.scratch.names, at+step, all))
		}
		if at < all {
			x.name(&names, part(&x.scratch.keys, at, all), part(&x.scratch.places, at, all))
		}
		if at >= step {
			x.place(&c, e.Engine, at-step, id)
		}
	}
	x.workers[w].held[e.Tier] += c.done()
	x.salts.done(id)
	return true
}

// naming is how far the blocks of an event have keys.
type naming struct {
	salt   parley.Salt
	before key
	tokens []parley.Token
}

// name finds the keys of the next step's blocks, and asks for their lines.
func (x *Index) name(n *naming, keys []key, places []aim) {
	tokens := len(keys) * x.cfg.BlockTokens
	parley.AppendBlockKeys(keys[:0], n.before, n.salt, n.tokens[:tokens], x.cfg.BlockTokens)
	n.before, n.tokens = keys[len(keys)-1], n.tokens[tokens:]
	x.table.ask(keys, places)
}

// place notes that an engine has the blocks of a step, which begins at from, under
// names of its own. Mostly no worker has them, and the names are new.
func (x *Index) place(c *setUpdate, engine []uint64, from int, salt saltID) {
	s, t, worker, users := &x.scratch, &x.table, x.workers[c.w], &x.salts.list[salt].users
	keys, places, names := part(&s.keys, from, len(engine)), part(&s.places, from, len(engine)), part(&s.names, from,
		len(engine))
	engine = some(engine, from)
	x.aimAgain(c.w, engine, names, keys, places)
	for i, name := range names {
		p := places[i]
		nameEmpty, keyEmpty := name.line.unseen(name.tag), p.line.unseen(p.tag)
		if nameEmpty == 0 || keyEmpty == 0 {
			x.placeOld(c, engine[i], nameEmpty == 0, keys[i], p, salt)
			x.aimAgain(c.w, engine[i:], names[i:], keys[i:], places[i:])
			continue
		}
		id := t.fresh()
		*t.at(id) = node{keys[i], c.of(none), salt}
		name.line.fill(nameEmpty, aliasOf(name.tag, id), name.tag)
		p.line.fill(keyEmpty, uint32(id), p.tag)
		worker.aliases.size.entries++
		t.size.entries++
		*users++
	}
	t.fit()
	worker.aliases.fit()
}

// aimAgain takes the aims of a step's names and keys again if something was moved
// since the event began.
func (x *Index) aimAgain(w Worker, engine []uint64, names []aim, keys []key, places []aim) {
	if x.scratch.moves != x.moves(w) {
		x.workers[w].aliases.aim(engine, names)
		x.table.aim(keys, places)
	}
}

// placeOld does that for a block that a worker may have, or whose name may be known.
// Of two names for a block the first counts: a block has one alias for as long as the
// engine is known to have it.
func (x *Index) placeOld(c *setUpdate, engine uint64, known bool, k key, p aim, salt saltID) {
	names, was := &x.workers[c.w].aliases, nowhere
	if known {
		was = x.meant(c, engine, k)
		p = x.table.place(k).aim() // it may have been moved
	}
	b := x.table.obtain(p, k)
	if was == nowhere && (b.set == none || !x.sets.exact(b.set, c.w)) {
		names.lead(engine, b.id)
	}
	b.set = c.of(b.set)
	if b.salt == 0 && salt != 0 {
		b.salt = x.salts.again(salt)
	}
}

// meant returns the node of a block's name. If the engine has used it for another
// block before, it does not have that any more.
func (x *Index) meant(c *setUpdate, engine uint64, k key) nodeID {
	names := &x.workers[c.w].aliases
	was, spot := names.find(engine)
	if was == nowhere || x.table.at(was).key == k {
		return was
	}
	x.workers[c.w].held[c.tier] += c.done()
	names.take(spot)
	x.vacate(c.w, was)
	return nowhere
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
		n := x.workers[w].aliases.node(engine)
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
// many of them it was known to have. Each block is looked at in three steps, one
// after the other, which ask for the memory that the next one needs: its alias leads
// to its node, and that to its place in the table.
func (x *Index) unplace(w Worker, engine []uint64, tier CacheTier) (removed int) {
	s, all := &x.scratch, len(engine)
	c := setUpdate{sets: &x.sets, w: w, tier: tier, from: unknown}
	for at := 0; at < all+2*step; at += step {
		if at+step < all {
			x.workers[w].aliases.ask(some(engine, at+step), part(&s.names, at+step, all))
		}
		if at < all {
			x.unalias(&c, some(engine, at), part(&s.names, at, all), part(&s.blocks, at, all))
		}
		if at >= step {
			removed += x.askHeld(&c, part(&s.blocks, at-step, all), part(&s.places, at-step, all))
		}
		if at >= 2*step {
			x.unhold(&c, part(&s.blocks, at-2*step, all), part(&s.places, at-2*step, all))
		}
	}
	x.workers[w].held[tier] -= c.done()
	return removed
}

// unalias finds the nodes of blocks that an engine no longer has in a tier. It
// forgets their names unless the engine has them in another.
func (x *Index) unalias(c *setUpdate, engine []uint64, aims []aim, blocks []block) {
	gone := c.tier == Device && !x.workers[c.w].lower // there is no other tier that could have the blocks
	names := &x.workers[c.w].aliases
	if x.scratch.moves != x.moves(c.w) {
		names.aim(engine, aims)
	}
	aims, blocks = aims[:len(engine)], blocks[:len(engine)]
	for i, name := range engine {
		l, tag := aims[i].line, aims[i].tag
		found := l.like(tag)
		at := first(found)
		if found == 0 || !gone || !l.names(at, tag) {
			blocks[i] = x.unaliasFar(c, name, gone)
			continue
		}
		l.clear(at)
		names.size.entries--
		blocks[i] = x.table.block(l.node(at))
	}
	prefetch(unsafe.Pointer(unsafe.SliceData(blocks)), len(engine))
	names.fit()
}

// unaliasFar does that for a name whose entry may stand elsewhere than it belongs.
func (x *Index) unaliasFar(c *setUpdate, name uint64, gone bool) block {
	names := &x.workers[c.w].aliases
	n, spot := names.find(name)
	b := x.table.block(n)
	if n != nowhere && (gone || x.sets.tiersOf(b.set, c.w) == 1<<c.tier) {
		names.take(spot)
	}
	return b
}

// askHeld finds where the blocks belong that a worker holds in a tier, and returns
// how many. The others are nowhere.
func (x *Index) askHeld(c *setUpdate, blocks []block, aims []aim) (held int) {
	set, holds := none, false // the latest one
	aims = aims[:len(blocks)]
	for i := range blocks {
		b := &blocks[i]
		if b.set != set {
			set, holds = b.set, x.sets.has(b.set, c.w, c.tier)
		}
		if !holds {
			*b, aims[i] = x.table.block(nowhere), aim{line: &noLine}
			continue
		}
		aims[i] = x.table.place(b.key).aim()
		held++
	}
	prefetch(unsafe.Pointer(unsafe.SliceData(aims)), len(blocks))
	return held
}

// unhold takes a worker out of the holders of blocks.
func (x *Index) unhold(c *setUpdate, blocks []block, aims []aim) {
	moved := x.scratch.moves != x.moves(c.w)
	aims = aims[:len(blocks)]
	for i, b := range blocks {
		if b.set == none {
			continue
		}
		if b.set = c.of(b.set); b.set != none {
			continue
		}
		l := aims[i].line
		found := l.like(aims[i].tag)
		if at := first(found); found != 0 && l.numbers[at] == uint32(b.id) && !moved {
			l.clear(at)
		} else {
			spot := x.table.spotOf(b)
			spot.take()
		}
		x.forget(b)
	}
	x.table.fit()
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
