package kv

// obtain returns a free slot on the device, evicting a cached block if it must.
func (c *Cache) obtain() (slot int32, ok bool) {
	if len(c.slots.free[Device]) == 0 && !c.evict() {
		return 0, false
	}
	return c.popSlot(Device), true
}

func (c *Cache) popSlot(t Tier) int32 {
	last := len(c.slots.free[t]) - 1
	slot := c.slots.free[t][last]
	c.slots.free[t] = c.slots.free[t][:last]
	return slot
}

// evict takes one cached block off the device: from those over budget, else
// from those within, else from those retained.
func (c *Cache) evict() bool {
	id, worth := c.least(&c.cached.cells[Device][1])
	if id == 0 {
		id, worth = c.least(&c.cached.cells[Device][0])
	}
	if id == 0 {
		id, worth = c.leastRetained(), 0
	}
	if id == 0 {
		return false
	}
	c.evictFrom(id, Device, worth)
	return true
}

// evictFrom takes the deepest block of a span in a tier out of that tier, into
// a lower one or out of memory.
func (c *Cache) evictFrom(id int32, t Tier, worth float64) {
	s := &c.cached.spans[id]
	at := s.deep[t]
	n := &c.tree.nodes[at]
	parent := n.parent
	c.stats.Evicted[t]++
	c.approachEviction(parent)
	if to, ok := c.roomBelow(at, t, worth); ok {
		c.leaveSpan(at)
		if to == Disk && n.copy != 0 {
			c.relocate(at, Disk, c.takeCopy(at))
		} else {
			c.move(at, to, c.popSlot(to))
		}
		n.span = id
		s.count[to]++
		c.slots.cached[to]++
		if s.deep[to] == 0 {
			s.deep[to] = at
		}
	} else {
		c.leaveSpan(at)
		c.unpublish(at)
		c.remember(id, n)
		c.freeNode(at)
	}
	c.settle(id)
	c.dropIfEmpty(id)
	if above := c.tree.nodes[parent].span; above != 0 && above != id {
		c.settle(above)
	}
}

// approachEviction reads memory that is needed to evict a node, the parent of one that is
// being evicted: most likely it is the next.
func (c *Cache) approachEviction(id int32) {
	n := &c.tree.nodes[id]
	k := key(&n.hash)
	c.tree.read += c.tree.byHash.approach(k) + c.tree.nodes[n.parent].refs
	if n.content != 0 {
		c.tree.read += c.tree.byContent.approach(n.content)
	}
	if g := &c.ghosts; len(g.ring) > 0 {
		c.tree.read += g.byKey.approach(k) + g.byKey.approach(g.ring[(g.next+1)%len(g.ring)].key)
	}
}

// roomBelow finds a lower tier for a block, making room there at the cost of
// blocks worth less. A block with children below it always finds room, so that
// none is cut off from the root.
func (c *Cache) roomBelow(at int32, t Tier, worth float64) (Tier, bool) {
	for to := t + 1; to < tiers; to++ {
		if c.slots.total[to] == 0 {
			continue
		}
		if len(c.slots.free[to]) > 0 || to == Disk && (c.tree.nodes[at].copy != 0 || c.giveUpCopy()) {
			return to, true
		}
		loser, less := c.least(&c.cached.cells[to][0])
		if loser != 0 && (less < worth || !c.childless(at, tiers-1)) {
			c.evictFrom(loser, to, less)
			return to, true
		}
	}
	return 0, false
}
