package kvindex

import "unsafe"

// aliases finds the nodes that one engine's names mean, of blocks which events say
// it has. Of a name an entry has a tag: with the shard in which it stands, 42 bits.
// An engine with a million blocks has a pair of names that agree in them once in
// ten times, and then one of the two blocks is lost track of.
type aliases struct {
	shards [aliasShards]shard
	secret secret
}

const (
	aliasShardBits = 4
	aliasShards    = 1 << aliasShardBits
	nodeBits       = 26
	// nodesMax is how many nodes aliases can lead to.
	nodesMax = 1 << nodeBits
)

// alias returns the node that an entry for a name leads to.
func (e entry) alias() nodeID { return nodeID(e % nodesMax) }

// names reports whether an entry is that of a name with a tag.
func (e entry) names(tag uint64) bool { return uint64(e)>>nodeBits == tag>>nodeBits }

// place returns where a name belongs. An entry has all but the last bits of its
// tag.
func (a *aliases) place(engine uint64) place {
	spread := a.secret.spread(engine)
	return place{&a.shards[spread>>(64-aliasShardBits)], spread << aliasShardBits}
}

// ask has the lines brought where the names of a step belong.
func (a *aliases) ask(engine []uint64) {
	var lines asked
	for i, name := range engine {
		lines[i%step] = unsafe.Pointer(a.place(name).line())
	}
	prefetch(lines[:len(engine)])
}

// find returns the node of a name that belongs in a place and where its entry
// stands, or nowhere.
func (p place) find() (nodeID, spot) {
	l := p.line()
	for found := l.like(p.tag); found != 0; found &= found - 1 {
		if e := l.entries[first(found)]; e.names(p.tag) {
			return e.alias(), spot{p.shard, l, first(found), false}
		}
	}
	if !l.passed() {
		return nowhere, spot{}
	}
	return p.search()
}

// search finds what may stand in a later line than where it belongs.
func (p place) search() (nodeID, spot) {
	home := p.shard.home(p.tag)
	at := home
	for range p.shard.lines {
		l := &p.shard.lines[at]
		for found := l.like(p.tag); found != 0; found &= found - 1 {
			if e := l.entries[first(found)]; e.names(p.tag) {
				return e.alias(), spot{p.shard, l, first(found), at != home}
			}
		}
		if !l.passed() {
			break
		}
		at = p.shard.after(at)
	}
	return nowhere, spot{}
}

// node returns what a name means, or nowhere.
func (a *aliases) node(engine uint64) nodeID {
	n, _ := a.place(engine).find()
	return n
}

// lead gives a name that has none a node.
func (p place) lead(n nodeID) { p.shard.add(p.line(), entry(p.tag&^(nodesMax-1))|entry(n)) }
