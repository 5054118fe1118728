package kvindex

import (
	"math/bits"
	"unsafe"

	"parley"
)

// A key is what the index keeps of a block's name.
type key = parley.BlockKey

// A nodeID is the number of a node. Nodes of blocks that were stored one after
// the other mostly have consecutive numbers, so that a walk along a prompt
// reads memory in order and need not search. Nothing depends on it but speed.
type nodeID uint32

// nowhere is the node of a block that nobody holds. It has no holders.
const nowhere nodeID = 0

// A node is a block that somebody holds.
type node struct {
	key  key
	set  setID  // its holders; none if the node is free
	salt saltID // of a block that an engine named, for those that follow it there
}

// A table finds nodes by their keys. Its shards grow one at a time, each in
// well under a millisecond, even with ten million blocks.
type table struct {
	shards [shards]shard
	chunks []*[chunkNodes]node // never moved, so growing costs nothing
	used   nodeID              // nodes that were ever in use
	free   []nodeID            // of those, the ones that are not, last freed last
	secret secret
	n      int // nodes in use
}

const (
	shardBits  = 8
	shards     = 1 << shardBits
	linesMin   = 1
	chunkBits  = 10
	chunkNodes = 1 << chunkBits
)

// A shard is an open table of lines. An entry stands in the line where it
// belongs or, if that is full, in the first line after it that is not; so a
// search ends at a line that is not full.
type shard struct {
	lines []line // a power of two
	shift uint8
	n     int // entries, at most three quarters of the places
}

// A line is what memory delivers at once. Its empty entries are the last ones.
type line [lineEntries]entry

const lineEntries = 8

// An entry leads to a node. The tag is part of the key, to tell most others
// apart without a look at their nodes.
type entry struct {
	tag  uint32
	node nodeID // nowhere is an empty entry
}

func newTable(seed uint64) table {
	t := table{secret: newSecret(seed), used: 1, chunks: []*[chunkNodes]node{new([chunkNodes]node)}}
	for i := range t.shards {
		t.shards[i] = newShard(linesMin)
	}
	return t
}

func newShard(lines int) shard {
	return shard{lines: make([]line, lines), shift: uint8(64 - bits.Len(uint(lines-1)))}
}

// mix spreads the bits of x over the whole word.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// at returns a node that was in use at some time.
func (t *table) at(n nodeID) *node { return &t.chunks[n>>chunkBits][n%chunkNodes] }

// A secret spreads numbers over the places of a table. Who does not know it
// cannot aim at one of them.
type secret struct{ blind, odd uint64 }

func newSecret(seed uint64) secret { return secret{mix(seed + 1), mix(seed) | 1} }

func (s *secret) spread(x uint64) uint64 {
	high, low := bits.Mul64(x^s.blind, s.odd)
	return high ^ low
}

// place returns the shard of a key and the line where it belongs.
func (t *table) place(k key) (s *shard, home int, tag uint32) {
	spread := t.secret.spread(uint64(k))
	s = &t.shards[spread>>(64-shardBits)]
	return s, s.home(spread), uint32(spread)
}

// home returns the number of a line. A shift of 64 gives 0: there is only one.
func (s *shard) home(spread uint64) int { return int(spread << shardBits >> s.shift) }

// len returns how many entries are not empty. In which place of its line an
// entry stands cannot be predicted, so neither len nor index has a branch that
// depends on it.
func (l *line) len() int {
	return lineEntries - int(l[0].empty()+l[1].empty()+l[2].empty()+l[3].empty()+l[4].empty()+l[5].empty()+l[6].empty()+l[7].empty())
}

// index returns the place of the entry with a tag, or -1. If two have it, the
// answer means nothing.
func (l *line) index(tag uint32) int {
	return int(l[0].is(tag)|2*l[1].is(tag)|3*l[2].is(tag)|4*l[3].is(tag)|5*l[4].is(tag)|6*l[5].is(tag)|7*l[6].is(tag)|8*l[7].is(tag)) - 1
}

func (e *entry) empty() uint64        { return (uint64(e.node) - 1) >> 63 }
func (e *entry) is(tag uint32) uint64 { return (uint64(e.tag^tag) - 1) >> 63 }

func (l *line) full() bool { return l[lineEntries-1].node != nowhere }

// A spot is where an entry stands.
type spot struct {
	shard    *shard
	line, at int
}

// find returns the node of a key and its entry's spot, or nowhere.
func (t *table) find(k key) (nodeID, spot) {
	s, home, tag := t.place(k)
	mask := len(s.lines) - 1
	l := &s.lines[home&mask]
	i := l.index(tag)
	if i < 0 && !l.full() {
		return nowhere, spot{}
	}
	if i >= 0 {
		if n := l[i%lineEntries].node; n != nowhere && t.at(n).key == k {
			return n, spot{s, home & mask, i}
		}
	}
	return t.search(s, home, k, tag)
}

// spotOf returns where the entry of a node stands that is in use.
func (t *table) spotOf(n nodeID) spot {
	s, home, _ := t.place(t.at(n).key)
	for mask := len(s.lines) - 1; ; home++ {
		l := &s.lines[home&mask]
		for i := range l {
			if l[i].node == n {
				return spot{s, home & mask, i}
			}
		}
	}
}

// search finds what does not stand in the line where it belongs, or is not the
// only one there with its tag.
func (t *table) search(s *shard, home int, k key, tag uint32) (nodeID, spot) {
	for mask := len(s.lines) - 1; ; home++ {
		l := &s.lines[home&mask]
		for i := range l {
			if n := l[i].node; n == nowhere {
				return nowhere, spot{}
			} else if l[i].tag == tag && t.at(n).key == k {
				return n, spot{s, home & mask, i}
			}
		}
	}
}

// holders returns the set of a key.
func (t *table) holders(k key) setID {
	n, _ := t.find(k)
	return t.at(n).set
}

// lookahead is how many searches are prepared at once: as many lines as a
// processor can wait for.
const lookahead = 12

// warm asks for lines that searches along keys will need, at the one of number
// at: memory delivers them while those before are being worked at.
func (t *table) warm(keys []key, at int) {
	for _, k := range window(keys, at) {
		t.ask(k)
	}
}

// ask asks for the line where a key belongs.
func (t *table) ask(k key) {
	s, home, _ := t.place(k)
	prefetch(unsafe.Pointer(&s.lines[home&(len(s.lines)-1)]))
}

// window returns which of many things are to be prepared at the one of number
// at: the first ones at the beginning, and then one at a time.
func window[T any](all []T, at int) []T {
	if at == 0 {
		return all[:min(len(all), lookahead+1)]
	}
	from := min(at+lookahead, len(all))
	return all[from:min(from+1, len(all))]
}

// obtain returns the node of a key. A new one has no holders: who asked for it
// gives it some at once.
func (t *table) obtain(k key) nodeID {
	s, home, tag := t.place(k)
	l := &s.lines[home&(len(s.lines)-1)]
	i := l.index(tag)
	if i >= 0 {
		if n := l[i%lineEntries].node; n != nowhere && t.at(n).key == k {
			return n
		}
	}
	if i >= 0 || l.full() {
		if n, _ := t.search(s, home, k, tag); n != nowhere {
			return n
		}
	}
	return t.insert(s, home, k, tag)
}

// insert gives a key that has none a node.
func (t *table) insert(s *shard, home int, k key, tag uint32) nodeID {
	if s.n++; s.n > len(s.lines)*lineEntries/4*3 {
		t.resize(s, 2*len(s.lines))
		_, home, _ = t.place(k)
	}
	n := t.fresh()
	t.at(n).key = k
	s.put(home, entry{tag, n})
	t.n++
	return n
}

// fresh returns a node that is not in use. The one freed last comes first:
// blocks are evicted from the end of a prompt, so this gives consecutive
// numbers in ascending order.
func (t *table) fresh() nodeID {
	if n := len(t.free); n > 0 {
		id := t.free[n-1]
		t.free = t.free[:n-1]
		return id
	}
	id := t.used
	if int(id) == len(t.chunks)*chunkNodes {
		t.chunks = append(t.chunks, new([chunkNodes]node))
	}
	t.used++
	return id
}

// remove frees a node, whose entry stands in a spot.
func (t *table) remove(n nodeID, p spot) {
	t.close(p)
	*t.at(n) = node{}
	t.free = append(t.free, n)
	t.n--
	s := p.shard
	if s.n--; s.n < len(s.lines)*lineEntries/4 && len(s.lines) > linesMin {
		t.resize(s, len(s.lines)/2)
	}
}

// put places a new entry in the first line from home on that is not full.
func (s *shard) put(home int, e entry) {
	for mask := len(s.lines) - 1; ; home++ {
		l := &s.lines[home&mask]
		if i := l.len(); i < lineEntries {
			l[i] = e
			return
		}
	}
}

// take removes an entry of a line, keeping the empty ones last.
func (l *line) take(i int) {
	last := l.len() - 1
	l[i], l[last] = l[last], entry{}
}

// close takes an entry out of its line. If the line was full, entries that
// belong there may stand in lines after it: one of them moves into the gap, and
// the gap to its place.
func (t *table) close(p spot) {
	s, at := p.shard, p.line
	mask := len(s.lines) - 1
	full := s.lines[at].full()
	s.lines[at].take(p.at)
	for next := (at + 1) & mask; full && next != at; next = (next + 1) & mask {
		l := &s.lines[next]
		full = l.full()
		for j := range l {
			if l[j].node == nowhere {
				break
			}
			if _, home, _ := t.place(t.at(l[j].node).key); (next-home)&mask >= (next-at)&mask {
				s.put(at, l[j])
				l.take(j)
				at = next
				break
			}
		}
	}
}

// resize moves the entries to another number of lines.
func (t *table) resize(s *shard, lines int) {
	moved := newShard(lines)
	moved.n = s.n
	for i := range s.lines {
		for _, e := range s.lines[i] {
			if e.node != nowhere {
				moved.put(moved.home(t.secret.spread(uint64(t.at(e.node).key))), e)
			}
		}
	}
	*s = moved
}

// each calls f with every node in use. f may remove it.
func (t *table) each(f func(n nodeID, at *node)) {
	for n := nodeID(1); n < t.used; n++ {
		if at := t.at(n); at.set != none {
			f(n, at)
		}
	}
}

// A walk goes along the blocks of a prompt.
type walk struct {
	table  *table
	node   nodeID // of the block before
	warmed int    // blocks from the beginning whose lines were asked for
}

// next returns the holders of block number at; it counts up from 0.
func (w *walk) next(keys []key, at int) setID {
	t := w.table
	k := keys[at]
	if beside := w.node + 1; beside < t.used {
		if n := t.at(beside); n.key == k && n.set != none {
			w.node = beside
			return n.set
		}
	}
	if at >= w.warmed {
		t.warm(keys[at:], 0)
		w.warmed = at + lookahead + 1
	}
	w.node, _ = t.find(k)
	return t.at(w.node).set
}
