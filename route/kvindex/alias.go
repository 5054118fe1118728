package kvindex

import "unsafe"

// aliases finds the nodes that one engine's names mean, of blocks which events say
// it has. A number is that of the node, with six more bits of the tag above. With
// these, what an entry has else and the shard in which it stands, 42 bits of a name
// are known. An engine with a million blocks has a pair of names that agree in them
// once in ten times, and then one of the two blocks is lost track of.
type aliases struct {
	shards [aliasShards]shard
	secret secret
	size   size
}

const (
	aliasShardBits = 5
	aliasShards    = 1 << aliasShardBits
	nodeBits       = 26
	// nodesMax is how many nodes aliases can lead to.
	nodesMax = 1 << nodeBits

	aliasTagShift = 34 // the six bits of a tag from here on stand above the node
)

// forget makes all names unknown.
func (a *aliases) forget() { a.size.reset(a.shards[:]) }

// fit makes the table as large as it should be.
func (a *aliases) fit() {
	if !a.size.fits(aliasShards) {
		a.size.fit(a.shards[:])
	}
}

// aliasOf returns the number of a name with a tag that leads to a node.
func aliasOf(tag uint64, n nodeID) uint32 { return uint32(tag>>aliasTagShift)<<nodeBits | uint32(n) }

// node returns the node to which the entry of a name leads.
func (l *line) node(i int) nodeID { return nodeID(l.numbers[i] % nodesMax) }

// names reports whether an entry is that of a name with a tag, whose mark it has.
func (l *line) names(i int, tag uint64) bool {
	return l.numbers[i]>>nodeBits == uint32(tag>>aliasTagShift)%(1<<(32-nodeBits)) && l.agrees(i, tag)
}

// place returns where a name belongs.
func (a *aliases) place(engine uint64) shardTag {
	spread := a.secret.spread(engine)
	return shardTag{&a.shards[spread>>(64-aliasShardBits)], spread << aliasShardBits}
}

// aim says where the names of a step belong.
func (a *aliases) aim(engine []uint64, aims []aim) {
	aims = aims[:len(engine)]
	for i, name := range engine {
		aims[i] = a.place(name).aim()
	}
}

// ask does that, and has the lines brought.
func (a *aliases) ask(engine []uint64, aims []aim) {
	a.aim(engine, aims)
	prefetch(unsafe.Pointer(unsafe.SliceData(aims)), len(engine))
}

// find returns the node of a name and where its entry stands, or nowhere.
func (a *aliases) find(engine uint64) (nodeID, spot) {
	p := a.place(engine)
	at := p.home(p.tag)
	for range p.count {
		l := p.at(at)
		for found := l.like(p.tag); found != 0; found &= found - 1 {
			if i := first(found); l.names(i, p.tag) {
				return l.node(i), spot{p, l, i}
			}
		}
		if !l.passed(p.tag) {
			break
		}
		at = p.after(at)
	}
	return nowhere, spot{}
}

// node returns what a name means, or nowhere.
func (a *aliases) node(engine uint64) nodeID {
	n, _ := a.find(engine)
	return n
}

// lead gives a name that has none a node.
func (a *aliases) lead(engine uint64, n nodeID) {
	p := a.place(engine)
	a.size.add(p, aliasOf(p.tag, n))
}

// take forgets the name in a spot.
func (a *aliases) take(s spot) {
	s.take()
	a.size.entries--
}
