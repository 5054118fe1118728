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

// nowhere is the node of a block without holders.
const nowhere nodeID = 0

// A node is a block that a worker holds.
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
	size   size // as many entries as nodes that are in use
}

const (
	shardBits  = 8
	shards     = 1 << shardBits
	chunkBits  = 12
	chunkNodes = 1 << chunkBits
)

func newTable(seed uint64) table {
	t := table{secret: newSecret(seed), used: 1, chunks: []*[chunkNodes]node{newChunk()}}
	t.size.reset(t.shards[:])
	return t
}

func newChunk() *[chunkNodes]node {
	chunk := new([chunkNodes]node)
	largepage.Ask(chunk[:])
	return chunk
}

// A block is a node and its number.
type block struct {
	*node
	id nodeID
}

// at returns a node that was in use at some time.
func (t *table) at(n nodeID) *node { return &t.chunks[n>>chunkBits][n%chunkNodes] }

func (t *table) block(n nodeID) block { return block{t.at(n), n} }

// A secret spreads numbers over the places of a table. A client that does not know it
// cannot aim at one of them.
type secret struct{ blind, odd uint64 }

func newSecret(seed uint64) secret { return secret{mix(seed + 1), mix(seed) | 1} }

func (s *secret) spread(x uint64) uint64 {
	high, low := bits.Mul64(x^s.blind, s.odd)
	return high ^ low
}

// place returns where a key belongs. The number of its entry is that of the node,
// by which it is compared with the key.
func (t *table) place(k key) shardTag {
	spread := t.secret.spread(uint64(k))
	return shardTag{&t.shards[spread>>(64-shardBits)], spread << shardBits}
}

// find returns the block of a key and its entry's spot; one that is nowhere if
// no worker holds it.
func (t *table) find(k key) (block, spot) {
	p := t.place(k)
	at := p.home(p.tag)
	for range p.count {
		l := p.at(at)
		for found := l.like(p.tag); found != 0; found &= found - 1 {
			if i := first(found); l.agrees(i, p.tag) {
				if b := t.block(nodeID(l.numbers[i])); b.key == k {
					return b, spot{p, l, i}
				}
			}
		}
		if !l.passed(p.tag) {
			break
		}
		at = p.after(at)
	}
	return t.block(nowhere), spot{}
}

// spotOf returns where the entry of a block stands that is in use.
func (t *table) spotOf(b block) spot {
	p := t.place(b.key)
	for at := p.home(p.tag); ; at = p.after(at) {
		l := p.at(at)
		for found := l.like(p.tag); found != 0; found &= found - 1 {
			if i := first(found); l.numbers[i] == uint32(b.id) {
				return spot{p, l, i}
			}
		}
	}
}

// Events are worked at in steps of some blocks. In each step memory is asked for
// that a later one needs: a processor can wait for ten lines at once while it works
// at something else, but for one alone it waits as long as ten blocks take.
const (
	step   = 16
	window = 4 * step // no block of a step is needed after that many others
)

// some returns the part of all that a step is about which begins at a number.
func some[T any](all []T, from int) []T {
	from = min(from, len(all))
	return all[from:min(from+step, len(all))]
}

// part returns what is known of the step that begins at from, of all blocks.
func part[T any](known *[window]T, from, all int) []T {
	return known[from%window:][:max(min(step, all-from), 0)]
}

// aim says where the keys of a step belong.
func (t *table) aim(keys []key, aims []aim) {
	aims = aims[:len(keys)]
	for i, k := range keys {
		aims[i] = t.place(k).aim()
	}
}

// ask does that, and has the lines brought.
func (t *table) ask(keys []key, aims []aim) {
	t.aim(keys, aims)
	prefetch(unsafe.Pointer(unsafe.SliceData(aims)), len(keys))
}

// askNodes has the nodes brought to which the lines of a step lead.
func (t *table) askNodes(aims []aim) {
	var a [step]block
	n := 0
	for i := range aims {
		l := aims[i].line
		if found := l.like(aims[i].tag); found != 0 {
			a[n%step].node = t.at(nodeID(l.numbers[first(found)]))
			n++
		}
	}
	prefetch(unsafe.Pointer(&a), n)
}

// obtain returns the block of a key. A new one has no holders: who asked for it gives
// it some at once.
func (t *table) obtain(a aim, k key) block {
	empty := a.line.unseen(a.tag)
	if empty == 0 {
		return t.obtainOld(k)
	}
	b := t.block(t.fresh())
	b.key = k
	a.line.fill(empty, uint32(b.id), a.tag)
	t.size.entries++
	return b
}

// obtainOld does that for a key that may be known, or has no place where it belongs.
func (t *table) obtainOld(k key) block {
	b, _ := t.find(k)
	if b.id == nowhere {
		b = t.block(t.fresh())
		b.key = k
		t.size.add(t.place(k), uint32(b.id))
	}
	return b
}

// fresh returns a node that is not in use. The one freed last comes first:
// blocks are evicted from the end of a prompt, so this gives consecutive
// numbers in ascending order.
func (t *table) fresh() nodeID {
	n := len(t.free) - 1
	if n < 0 {
		return t.first()
	}
	id := t.free[n]
	t.free = t.free[:n]
	return id
}

// first returns a node that was never in use.
func (t *table) first() nodeID {
	id := t.used
	if int(id) == len(t.chunks)*chunkNodes {
		t.chunks = append(t.chunks, newChunk())
	}
	t.used++
	return id
}

// remove frees the node of a block, whose entry is gone.
func (t *table) remove(b block) {
	*b.node = node{}
	t.free = append(t.free, b.id)
	t.size.entries--
}

// fit makes the table as large as it should be.
func (t *table) fit() {
	if !t.size.fits(shards) {
		t.size.fit(t.shards[:])
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
	for w.asked = max(w.asked, at); w.asked < at+step; w.asked += step {
		var aims [step]aim
		t.ask(some(keys, w.asked), aims[:])
	}
	b, _ := t.find(k)
	w.node = b.id
	return b.set
}
