package kvindex

import (
	"math/bits"
	"unsafe"

	"parley"
	"parley/internal/largepage"
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
	chunkBits  = 12
	chunkNodes = 1 << chunkBits
)

func newTable(seed uint64) table {
	return table{secret: newSecret(seed), used: 1, chunks: []*[chunkNodes]node{newChunk()}}
}

func newChunk() *[chunkNodes]node {
	chunk := new([chunkNodes]node)
	largepage.Ask(chunk[:])
	return chunk
}

// mix spreads the bits of x over the whole word.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// A block is a node and its number.
type block struct {
	*node
	id nodeID
}

// at returns a node that was in use at some time.
func (t *table) at(n nodeID) *node { return &t.chunks[n>>chunkBits][n%chunkNodes] }

func (t *table) block(n nodeID) block { return block{t.at(n), n} }

// A secret spreads numbers over the places of a table. Who does not know it
// cannot aim at one of them.
type secret struct{ blind, odd uint64 }

func newSecret(seed uint64) secret { return secret{mix(seed + 1), mix(seed) | 1} }

func (s *secret) spread(x uint64) uint64 {
	high, low := bits.Mul64(x^s.blind, s.odd)
	return high ^ low
}

// place returns where a key belongs. An entry has the upper half of its tag, and
// as the lower half the number of the node.
func (t *table) place(k key) place {
	spread := t.secret.spread(uint64(k))
	return place{&t.shards[spread>>(64-shardBits)], spread << shardBits}
}

const tagHalf = 1<<64 - 1<<32

func (e entry) node() nodeID { return nodeID(e) }

// leads reports whether an entry is that of a key.
func (t *table) leads(e entry, tag uint64, k key) bool {
	return (uint64(e)^tag)&tagHalf == 0 && t.at(e.node()).key == k
}

// find returns the block of a key and its entry's spot; one that is nowhere if
// nobody holds it.
func (t *table) find(k key) (block, spot) {
	p := t.place(k)
	l := p.line()
	for found := l.like(p.tag); found != 0; found &= found - 1 {
		if e := l.entries[first(found)]; t.leads(e, p.tag, k) {
			return t.block(e.node()), spot{p.shard, l, first(found), false}
		}
	}
	if !l.passed() {
		return t.block(nowhere), spot{}
	}
	return t.search(p, k)
}

// search finds what may stand in a later line than where it belongs.
func (t *table) search(p place, k key) (block, spot) {
	home := p.shard.home(p.tag)
	at := home
	for range p.shard.lines {
		l := &p.shard.lines[at]
		for found := l.like(p.tag); found != 0; found &= found - 1 {
			if e := l.entries[first(found)]; t.leads(e, p.tag, k) {
				return t.block(e.node()), spot{p.shard, l, first(found), at != home}
			}
		}
		if !l.passed() {
			break
		}
		at = p.shard.after(at)
	}
	return t.block(nowhere), spot{}
}

// spotOf returns where the entry of a node stands that is in use.
func (p place) spotOf(n nodeID) spot {
	home := p.shard.home(p.tag)
	for at := home; ; at = p.shard.after(at) {
		l := &p.shard.lines[at]
		for found := l.like(p.tag); found != 0; found &= found - 1 {
			if i := first(found); l.entries[i].node() == n {
				return spot{p.shard, l, i, at != home}
			}
		}
	}
}

// holders returns the set of a key.
func (t *table) holders(k key) setID {
	b, _ := t.find(k)
	return b.set
}

// Events are worked at in steps of some blocks. In each step memory is asked for
// that a later one needs: a processor can wait for ten lines at once while it works
// at something else, but for one alone it waits as long as ten blocks take.
const (
	step  = 16
	ahead = step
)

// some returns the part of all that a step is about which begins at a number.
func some[T any](all []T, from int) []T {
	from = min(from, len(all))
	return all[from:min(from+step, len(all))]
}

// ask has the lines brought where the keys of a step belong.
func (t *table) ask(keys []key) {
	var a asked
	for i, k := range keys {
		a[i%step] = unsafe.Pointer(t.place(k).line())
	}
	prefetch(a[:len(keys)])
}

// askPlaces does that, and says where they belong.
func (t *table) askPlaces(keys []key, places []place) {
	var a asked
	for i, k := range keys {
		places[i] = t.place(k)
		a[i%step] = unsafe.Pointer(places[i].line())
	}
	prefetch(a[:len(keys)])
}

// askNodes has the nodes brought to which the lines of a step's keys lead.
func (t *table) askNodes(keys []key) {
	var a asked
	n := 0
	for _, k := range keys {
		p := t.place(k)
		l := p.line()
		if found := l.like(p.tag); found != 0 {
			a[n%step] = unsafe.Pointer(t.at(l.entries[first(found)].node()))
			n++
		}
	}
	prefetch(a[:n])
}

// obtain returns the block of a key that belongs in a place. A new one has no
// holders: who asked for it gives it some at once.
func (t *table) obtain(p place, k key) block {
	l := p.line()
	for found := l.like(p.tag); found != 0; found &= found - 1 {
		if e := l.entries[first(found)]; t.leads(e, p.tag, k) {
			return t.block(e.node())
		}
	}
	if l.passed() {
		if b, _ := t.search(p, k); b.id != nowhere {
			return b
		}
	}
	b := t.block(t.fresh())
	b.key = k
	p.shard.add(l, entry(p.tag&tagHalf)|entry(b.id))
	t.n++
	return b
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
		t.chunks = append(t.chunks, newChunk())
	}
	t.used++
	return id
}

// remove frees the node of a block, whose entry stands in a spot.
func (t *table) remove(b block, p spot) {
	*b.node = node{}
	t.free = append(t.free, b.id)
	t.n--
	p.take()
}

// each calls f with every block that somebody holds. f may remove it.
func (t *table) each(f func(b block)) {
	for n := nodeID(1); n < t.used; n++ {
		if b := t.block(n); b.set != none {
			f(b)
		}
	}
}

// A walk goes along the blocks of a prompt.
type walk struct {
	table *table
	node  nodeID // of the block before
	asked int    // blocks from the beginning whose lines were asked for
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
	for w.asked = max(w.asked, at); w.asked < at+ahead; w.asked += step {
		t.ask(some(keys, w.asked))
	}
	b, _ := t.find(k)
	w.node = b.id
	return b.set
}
