package kvindex

import (
	"math/bits"
	"unsafe"
)

// An alias leads from an engine's name for a block to the block's node. Of the
// name it has a tag: with the shard in which it stands, 42 bits. An engine with a
// million blocks has a pair of names that agree in them once in ten times, and
// then one of the two blocks is lost track of.
type alias uint64

const (
	nodeBits       = 26
	tagBits        = 64 - nodeBits
	aliasShardBits = 4
	aliasShards    = 1 << aliasShardBits
	// nodesMax is how many nodes aliases can lead to.
	nodesMax = 1 << nodeBits
)

func (a alias) node() nodeID { return nodeID(a % nodesMax) }
func (a alias) tag() uint64  { return uint64(a) >> nodeBits }

// aliases finds the names of one engine that mean a block which events say it
// has. It is an open table as the one of blocks is.
type aliases struct {
	shards [aliasShards]aliasShard
	secret secret
}

type aliasShard struct {
	lines []aliasLine // a power of two, or none
	n     int         // aliases, at most three quarters of the places
	shift uint8
}

// An aliasLine is what memory delivers at once. Its empty places are the last
// ones; those are 0.
type aliasLine [lineEntries]alias

func (a alias) empty() uint64        { return (uint64(a.node()) - 1) >> 63 }
func (a alias) is(tag uint64) uint64 { return ((a.tag() ^ tag) - 1) >> 63 }

// len and index are like those of [line].
func (l *aliasLine) len() int {
	return lineEntries - int(l[0].empty()+l[1].empty()+l[2].empty()+l[3].empty()+l[4].empty()+l[5].empty()+l[6].empty()+l[7].empty())
}

func (l *aliasLine) index(tag uint64) int {
	return int(l[0].is(tag)|2*l[1].is(tag)|3*l[2].is(tag)|4*l[3].is(tag)|5*l[4].is(tag)|6*l[5].is(tag)|7*l[6].is(tag)|8*l[7].is(tag)) - 1
}

func (l *aliasLine) full() bool { return l[lineEntries-1] != 0 }

// take removes an alias of a line, keeping the empty places last.
func (l *aliasLine) take(i int) {
	last := l.len() - 1
	l[i], l[last] = l[last], 0
}

// place returns the shard of a name, and its tag there.
func (a *aliases) place(engine uint64) (s *aliasShard, tag uint64) {
	spread := a.secret.spread(engine)
	return &a.shards[spread>>(64-aliasShardBits)], spread << aliasShardBits >> nodeBits
}

// home returns the number of the line where a tag belongs.
func (s *aliasShard) home(tag uint64) int { return int(tag >> s.shift) }

// warm asks for lines that searches along names will need; see [table.warm].
func (a *aliases) warm(engine []uint64, at int) {
	for _, e := range window(engine, at) {
		if s, tag := a.place(e); len(s.lines) > 0 {
			prefetch(unsafe.Pointer(&s.lines[s.home(tag)&(len(s.lines)-1)]))
		}
	}
}

// An aliasSpot is where an alias stands.
type aliasSpot struct {
	shard    *aliasShard
	line, at int
}

// find returns the node of a name and where its alias stands, or nowhere.
func (a *aliases) find(engine uint64) (nodeID, aliasSpot) {
	s, tag := a.place(engine)
	if len(s.lines) == 0 {
		return nowhere, aliasSpot{}
	}
	mask := len(s.lines) - 1
	for at := s.home(tag) & mask; ; at = (at + 1) & mask {
		l := &s.lines[at]
		if i := l.index(tag); i >= 0 && l[i%lineEntries] != 0 {
			return l[i%lineEntries].node(), aliasSpot{s, at, i % lineEntries}
		}
		if !l.full() {
			return nowhere, aliasSpot{}
		}
	}
}

// insert gives a name that has none a node.
func (a *aliases) insert(engine uint64, n nodeID) {
	s, tag := a.place(engine)
	if s.n++; s.n > len(s.lines)*lineEntries/4*3 {
		s.resize(max(2*len(s.lines), 1))
	}
	s.put(s.home(tag), alias(tag<<nodeBits)|alias(n))
}

// put places a new alias in the first line from home on that is not full.
func (s *aliasShard) put(home int, put alias) {
	for mask := len(s.lines) - 1; ; home++ {
		l := &s.lines[home&mask]
		if i := l.len(); i < lineEntries {
			l[i] = put
			return
		}
	}
}

// remove forgets a name. If its line was full, names that belong there may stand
// in lines after it: one of them moves into the gap, and the gap to its place.
func (a *aliases) remove(p aliasSpot) {
	s, at := p.shard, p.line
	mask := len(s.lines) - 1
	full := s.lines[at].full()
	s.lines[at].take(p.at)
	for next := (at + 1) & mask; full && next != at; next = (next + 1) & mask {
		l := &s.lines[next]
		full = l.full()
		for i, other := range l[:l.len()] {
			if (next-s.home(other.tag()))&mask >= (next-at)&mask {
				s.put(at, other)
				l.take(i)
				at = next
				break
			}
		}
	}
	if s.n--; s.n < len(s.lines)*lineEntries/4 && len(s.lines) > 1 {
		s.resize(len(s.lines) / 2)
	}
}

// resize moves a shard to another number of lines.
func (s *aliasShard) resize(lines int) {
	old := s.lines
	s.lines, s.shift = make([]aliasLine, lines), uint8(tagBits-bits.Len(uint(lines-1)))
	for i := range old {
		for _, a := range old[i][:old[i].len()] {
			s.put(s.home(a.tag()), a)
		}
	}
}
