package kv

import (
	"math"
	"math/bits"

	"parley/internal/largepage"
)

// newSpan makes a span of the nodes from deep upwards, all in one tier, that
// were just released by one table.
func (c *Cache) newSpan(deep int32, blocks int, kind uint8, t *Table, keep int64) {
	id := int32(len(c.cached.spans))
	if n := len(c.cached.freeSpans); n > 0 {
		id = c.cached.freeSpans[n-1]
		c.cached.freeSpans = c.cached.freeSpans[:n-1]
	} else {
		room := cap(c.cached.spans)
		if c.cached.spans = append(c.cached.spans, span{}); cap(c.cached.spans) > room {
			largepage.Ask(c.cached.spans)
		}
	}
	c.cached.order++
	c.cached.spans[id] = span{
		kind:  kind,
		owner: spanOwner{t.tenant, t.class},
		times: spanTimes{c.clock.now, keep},
		order: c.cached.order,
	}
	s := &c.cached.spans[id]
	tier := c.tree.nodes[deep].tier
	s.deep[tier], s.count[tier] = deep, int32(blocks)
	for range blocks {
		c.tree.nodes[deep].span = id
		deep = c.tree.nodes[deep].parent
	}
	c.slots.cached[tier] += blocks
	c.learn.arrive(kind, blocks)
	c.pushBack(&c.cached.ages[0], linkAge, id)
	c.ages(id, 0)
	if tier == Device {
		c.charge(id, blocks)
		c.retain(id)
	}
	c.settle(id)
}

// takeNode takes the shallowest node of a span into use. A hit is learned from.
func (c *Cache) takeNode(node int32, hit bool) {
	n := &c.tree.nodes[node]
	id, t := n.span, n.tier
	s := &c.cached.spans[id]
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
	n := &c.tree.nodes[node]
	id, t := n.span, n.tier
	s := &c.cached.spans[id]
	s.count[t]--
	c.slots.cached[t]--
	n.span = 0
	switch {
	case s.count[t] == 0:
		s.deep[t] = 0
	case s.deep[t] == node:
		s.deep[t] = n.parent
	}
	if t == Device {
		if s.heapAt != 0 {
			c.cached.retainedBlocks--
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
	s := &c.cached.spans[id]
	if s.blocks() > 0 {
		return
	}
	for t := range tiers {
		c.leaveCell(id, t)
	}
	if s.ghosts > 0 {
		return
	}
	c.unlink(&c.cached.ages[s.bucket], linkAge, id)
	c.cached.freeSpans = append(c.cached.freeSpans, id)
}

// age moves spans on to the bucket of their age. Each list is in order of
// time, so only its head needs a look.
func (c *Cache) age() {
	if c.cfg.Policy == LRU || c.clock.now < c.cached.agingFirst {
		return
	}
	first := int64(math.MaxInt64)
	for k := range uint8(buckets - 1) {
		if c.clock.now < c.cached.aging[k] {
			first = min(first, c.cached.aging[k])
			continue
		}
		c.cached.aging[k] = math.MaxInt64
		for id := c.cached.ages[k].head; id != 0 && c.seconds(id) >= c.learn.edges[k+1]; id = c.cached.ages[k].head {
			s := &c.cached.spans[id]
			in := s.inCell
			for t := range tiers {
				c.leaveCell(id, t)
			}
			c.unlink(&c.cached.ages[k], linkAge, id)
			c.learn.grow(s.kind, k, s.blocks()+int(s.ghosts))
			s.bucket = k + 1
			c.pushBack(&c.cached.ages[k+1], linkAge, id)
			c.ages(id, k+1)
			for t := range tiers {
				if in[t] {
					c.enterCell(id, t)
				}
			}
		}
		if id := c.cached.ages[k].head; id != 0 {
			c.ages(id, k)
		}
		first = min(first, c.cached.aging[k])
	}
	c.cached.agingFirst = first
}

// ages notes that a span of a bucket will reach the next one.
func (c *Cache) ages(id int32, bucket uint8) {
	const early = 2 // nanoseconds, for what is rounded
	at := c.cached.spans[id].times.since + int64(c.learn.edges[bucket+1]*1e9) - early
	c.cached.aging[bucket] = min(c.cached.aging[bucket], at)
	c.cached.agingFirst = min(c.cached.agingFirst, at)
}

func (c *Cache) seconds(id int32) float64 {
	return float64(c.clock.now-c.cached.spans[id].times.since) / 1e9
}

// least returns the span of a set that is worth least, and its worth per block
// and second; 0 if the set is empty. Under LRU it is the oldest.
//
// The one before this was least is likely to be so again, or the next of its cell. What
// cannot be worth less is left out without a look at the memory of its spans.
func (c *Cache) least(set *cellSet) (id int32, worth float64) {
	bound := math.Inf(1)
	if at := set.latest; set.full[at.kind]&(1<<at.bucket) != 0 && c.cfg.Policy == Learned {
		bound = c.worth(c.candidate(set, at.kind, at.bucket))
	}
	for kind := range uint8(kinds) {
		for full := set.full[kind]; full != 0; full &= full - 1 {
			k := uint8(bits.TrailingZeros64(full))
			if c.learn.least[kind][k] > bound {
				continue
			}
			candidate := c.candidate(set, kind, k)
			if w := c.worth(candidate); id == 0 || w < worth {
				id, worth = candidate, w
				set.latest = cell{kind, k}
			}
		}
	}
	return id, worth
}

// candidate returns the span of a cell that is worth least.
func (c *Cache) candidate(set *cellSet, kind, bucket uint8) int32 {
	l := &set.lists[kind][bucket]
	if c.cfg.Policy == Learned && c.learn.risesAt(kind, bucket) {
		return l.tail
	}
	return l.head
}

func (c *Cache) worth(id int32) float64 {
	s := &c.cached.spans[id]
	if c.cfg.Policy == LRU {
		return float64(s.order)
	}
	return c.learn.worthAt(s.kind, s.bucket, c.seconds(id))
}
