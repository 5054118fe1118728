package kv

import "math/bits"

// A span is a piece of one path through the tree: cached blocks that one
// request used last and that have equal prospects. From its shallow end
// requests take blocks back into use; from its deep end blocks are evicted, to
// the next tier or to memory alone. So the blocks in a higher tier stand above
// those in a lower one.
type span struct {
	deep   [tiers]int32 // the deepest node in each tier, 0 if there is none
	count  [tiers]int32 // nodes in each tier
	ghosts int32        // blocks evicted altogether and still remembered

	kind   uint8
	bucket uint8 // of its age
	over   bool  // its tenant or class is over budget
	inCell [tiers]bool

	tenant, class int32
	since, keep   int64  // nanoseconds: last use, and end of retention (0: none)
	order         uint64 // of creation: within one release, the deep ones first
	heapAt        int32  // 1 + place in the heap of retained spans, 0 if not there

	links [linkCell + int(tiers)]link
}

// A span stands in several lists at once.
const (
	linkAge = iota
	linkTenant
	linkClass
	linkCell // one for each tier
)

type link struct{ prev, next int32 }

// A list is a chain of spans, the oldest first. 0 is unused.
type list struct{ head, tail int32 }

func (s *span) blocks() int { return int(s.count[Device] + s.count[Host] + s.count[Disk]) }

func (c *Cache) pushBack(l *list, which int, id int32) {
	c.spans[id].links[which] = link{prev: l.tail}
	if l.tail == 0 {
		l.head = id
	} else {
		c.spans[l.tail].links[which].next = id
	}
	l.tail = id
}

func (c *Cache) unlink(l *list, which int, id int32) {
	at := &c.spans[id].links[which]
	if at.prev == 0 {
		l.head = at.next
	} else {
		c.spans[at.prev].links[which].next = at.next
	}
	if at.next == 0 {
		l.tail = at.prev
	} else {
		c.spans[at.next].links[which].prev = at.prev
	}
	*at = link{}
}

// insert puts a span where its order belongs, if that is near one end; else
// somewhere between, which costs a little precision within one bucket of age
// and never more than a few steps. Under LRU it is always at the old end.
func (c *Cache) insert(l *list, which int, id int32) {
	const stepsMost = 16
	order := c.spans[id].order
	next, steps := l.head, 0
	for next != 0 && c.spans[next].order < order && steps < stepsMost {
		next = c.spans[next].links[which].next
		steps++
	}
	if steps == stepsMost && next != 0 {
		prev := l.tail
		for next, steps = 0, 0; steps < stepsMost && c.spans[prev].order > order; steps++ {
			next, prev = prev, c.spans[prev].links[which].prev
		}
	}
	if next == 0 {
		c.pushBack(l, which, id)
		return
	}
	prev := c.spans[next].links[which].prev
	c.spans[id].links[which] = link{prev, next}
	c.spans[next].links[which].prev = id
	if prev == 0 {
		l.head = id
	} else {
		c.spans[prev].links[which].next = id
	}
}

// A cellSet holds the spans of one tier whose deepest block can be evicted, by
// kind and age.
type cellSet struct {
	lists [kinds][buckets]list
	full  [kinds]uint64 // bit k: lists[kind][k] is not empty
}

func (c *Cache) cellOf(s *span, t Tier) (*cellSet, *list) {
	set := &c.cells[t][0]
	if s.over && t == Device {
		set = &c.cells[t][1]
	}
	return set, &set.lists[s.kind][s.bucket]
}

func (c *Cache) enterCell(id int32, t Tier) {
	s := &c.spans[id]
	set, l := c.cellOf(s, t)
	c.insert(l, linkCell+int(t), id)
	set.full[s.kind] |= 1 << s.bucket
	s.inCell[t] = true
}

func (c *Cache) leaveCell(id int32, t Tier) {
	s := &c.spans[id]
	if !s.inCell[t] {
		return
	}
	set, l := c.cellOf(s, t)
	c.unlink(l, linkCell+int(t), id)
	if l.head == 0 {
		set.full[s.kind] &^= 1 << s.bucket
	}
	s.inCell[t] = false
}

// settle puts a span into the cell of each tier in which it can lose a block
// now, and takes it out of the others. Retained spans can lose none on the device.
func (c *Cache) settle(id int32) {
	s := &c.spans[id]
	for t := range tiers {
		can := s.count[t] > 0 && c.childless(s.deep[t], t) && (t != Device || s.heapAt == 0)
		if can && !s.inCell[t] {
			c.enterCell(id, t)
		} else if !can {
			c.leaveCell(id, t)
		}
	}
}

// childless reports whether no child of the node stands in its tier or a higher one.
func (c *Cache) childless(node int32, t Tier) bool {
	kids := &c.nodes[node].kids
	n := kids[Device]
	for u := Host; u <= t; u++ {
		n += kids[u]
	}
	return n == 0
}

// newSpan makes a span of the nodes from deep upwards, all in one tier, that
// were just released by one table.
func (c *Cache) newSpan(deep int32, blocks int, kind uint8, t *Table, keep int64) {
	id := int32(len(c.spans))
	if n := len(c.freeSpans); n > 0 {
		id = c.freeSpans[n-1]
		c.freeSpans = c.freeSpans[:n-1]
	} else {
		c.spans = append(c.spans, span{})
	}
	c.order++
	c.spans[id] = span{
		kind:   kind,
		tenant: t.tenant,
		class:  t.class,
		since:  c.now,
		keep:   keep,
		order:  c.order,
	}
	s := &c.spans[id]
	tier := c.nodes[deep].tier
	s.deep[tier], s.count[tier] = deep, int32(blocks)
	for range blocks {
		c.nodes[deep].span = id
		deep = c.nodes[deep].parent
	}
	c.cached[tier] += blocks
	c.learn.arrive(kind, blocks)
	c.pushBack(&c.ages[0], linkAge, id)
	if tier == Device {
		c.charge(id, blocks)
		c.retain(id)
	}
	c.settle(id)
}

// takeNode takes the shallowest node of a span into use. A hit is learned from.
func (c *Cache) takeNode(node int32, hit bool) {
	n := &c.nodes[node]
	id, t := n.span, n.tier
	s := &c.spans[id]
	if hit {
		c.learn.reuse(s.kind, s.bucket)
	} else {
		c.learn.lose(s.kind, s.bucket)
	}
	c.leaveSpan(node)
	if s.count[t] == 0 {
		c.settle(id)
	}
	c.dropIfEmpty(id)
}

// leaveSpan takes the node out of its span's counts. The node is the span's
// shallowest one, or the deepest in its tier.
func (c *Cache) leaveSpan(node int32) {
	n := &c.nodes[node]
	id, t := n.span, n.tier
	s := &c.spans[id]
	s.count[t]--
	c.cached[t]--
	n.span = 0
	switch {
	case s.count[t] == 0:
		s.deep[t] = 0
	case s.deep[t] == node:
		s.deep[t] = n.parent
	}
	if t == Device {
		if s.heapAt != 0 {
			c.retainedBlocks--
			if s.count[Device] == 0 {
				c.endRetention(id)
			}
		}
		c.discharge(id, 1)
	}
}

// dropIfEmpty forgets a span that has neither blocks nor ghosts. One that has
// ghosts alone stays for the sake of learning.
func (c *Cache) dropIfEmpty(id int32) {
	s := &c.spans[id]
	if s.blocks() > 0 {
		return
	}
	for t := range tiers {
		c.leaveCell(id, t)
	}
	if s.ghosts > 0 {
		return
	}
	c.unlink(&c.ages[s.bucket], linkAge, id)
	c.freeSpans = append(c.freeSpans, id)
}

// age moves spans on to the bucket of their age. Each list is in order of
// time, so only its head needs a look.
func (c *Cache) age() {
	if c.cfg.Policy == LRU {
		return
	}
	for k := range uint8(buckets - 1) {
		for id := c.ages[k].head; id != 0 && c.seconds(id) >= c.learn.edges[k+1]; id = c.ages[k].head {
			s := &c.spans[id]
			in := s.inCell
			for t := range tiers {
				c.leaveCell(id, t)
			}
			c.unlink(&c.ages[k], linkAge, id)
			c.learn.grow(s.kind, k, s.blocks()+int(s.ghosts))
			s.bucket = k + 1
			c.pushBack(&c.ages[k+1], linkAge, id)
			for t := range tiers {
				if in[t] {
					c.enterCell(id, t)
				}
			}
		}
	}
}

func (c *Cache) seconds(id int32) float64 { return float64(c.now-c.spans[id].since) / 1e9 }

// least returns the span of a set that is worth least, and its worth per block
// and second; 0 if the set is empty. Under LRU it is the oldest.
func (c *Cache) least(set *cellSet) (id int32, worth float64) {
	for kind := range uint8(kinds) {
		for full := set.full[kind]; full != 0; full &= full - 1 {
			k := uint8(bits.TrailingZeros64(full))
			l := &set.lists[kind][k]
			candidate := l.head
			if c.learn.risesAt(kind, k) && c.cfg.Policy == Learned {
				candidate = l.tail
			}
			if w := c.worth(candidate); id == 0 || w < worth {
				id, worth = candidate, w
			}
		}
	}
	return id, worth
}

func (c *Cache) worth(id int32) float64 {
	s := &c.spans[id]
	if c.cfg.Policy == LRU {
		return float64(s.order)
	}
	return c.learn.worthAt(s.kind, s.bucket, c.seconds(id))
}
