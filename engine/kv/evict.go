package kv

// obtain returns a free slot on the device, evicting a cached block if it must.
func (c *Cache) obtain() (slot int32, ok bool) {
	if len(c.free[Device]) == 0 && !c.evict() {
		return 0, false
	}
	return c.popSlot(Device), true
}

func (c *Cache) popSlot(t Tier) int32 {
	last := len(c.free[t]) - 1
	slot := c.free[t][last]
	c.free[t] = c.free[t][:last]
	return slot
}

// evict takes one cached block off the device: from those over budget, else
// from those within, else from those retained.
func (c *Cache) evict() bool {
	id, worth := c.least(&c.cells[Device][1])
	if id == 0 {
		id, worth = c.least(&c.cells[Device][0])
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
	s := &c.spans[id]
	at := s.deep[t]
	n := &c.nodes[at]
	parent := n.parent
	c.stats.Evicted[t]++
	if to, ok := c.roomBelow(at, t, worth); ok {
		c.leaveSpan(at)
		if to == Disk && n.copy != 0 {
			c.relocate(at, Disk, c.takeCopy(at))
		} else {
			c.move(at, to, c.popSlot(to))
		}
		n.span = id
		s.count[to]++
		c.cached[to]++
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
	if above := c.nodes[parent].span; above != 0 && above != id {
		c.settle(above)
	}
}

// roomBelow finds a lower tier for a block, making room there at the cost of
// blocks worth less. A block with children below it always finds room, so that
// none is cut off from the root.
func (c *Cache) roomBelow(at int32, t Tier, worth float64) (Tier, bool) {
	for to := t + 1; to < tiers; to++ {
		if c.total[to] == 0 {
			continue
		}
		if len(c.free[to]) > 0 || to == Disk && (c.nodes[at].copy != 0 || c.giveUpCopy()) {
			return to, true
		}
		loser, less := c.least(&c.cells[to][0])
		if loser != 0 && (less < worth || !c.childless(at, tiers-1)) {
			c.evictFrom(loser, to, less)
			return to, true
		}
	}
	return 0, false
}

// retain protects a new span until its time, if retention has room left.
func (c *Cache) retain(id int32) {
	s := &c.spans[id]
	if s.keep <= c.now {
		return
	}
	if c.retainedBlocks+int(s.count[Device]) > int(c.cfg.RetainShare*float64(c.total[Device])) {
		c.stats.RetainRefused += uint64(s.count[Device])
		return
	}
	c.retainedBlocks += int(s.count[Device])
	c.retained = append(c.retained, id)
	s.heapAt = int32(len(c.retained))
	c.heapUp(len(c.retained) - 1)
}

// expire ends the retentions whose time has come.
func (c *Cache) expire() {
	for len(c.retained) > 0 && c.spans[c.retained[0]].keep <= c.now {
		id := c.retained[0]
		c.endRetention(id)
		c.settle(id)
	}
}

func (c *Cache) endRetention(id int32) {
	s := &c.spans[id]
	if s.heapAt == 0 {
		return
	}
	i, last := int(s.heapAt)-1, len(c.retained)-1
	c.heapSwap(i, last)
	c.retained = c.retained[:last]
	if i < last {
		c.heapUp(i)
		c.heapDown(i)
	}
	c.retainedBlocks -= int(s.count[Device])
	s.heapAt = 0
}

// leastRetained returns the retained span that can lose a block and whose time
// ends first. It looks at all of them; that happens only when the pool holds
// nothing else that could be evicted.
func (c *Cache) leastRetained() (best int32) {
	for _, id := range c.retained {
		s := &c.spans[id]
		if c.childless(s.deep[Device], Device) && (best == 0 || s.keep < c.spans[best].keep) {
			best = id
		}
	}
	return best
}

func (c *Cache) heapSwap(i, j int) {
	h := c.retained
	h[i], h[j] = h[j], h[i]
	c.spans[h[i]].heapAt, c.spans[h[j]].heapAt = int32(i+1), int32(j+1)
}

func (c *Cache) heapUp(i int) {
	for i > 0 && c.spans[c.retained[i]].keep < c.spans[c.retained[(i-1)/2]].keep {
		c.heapSwap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (c *Cache) heapDown(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(c.retained); child++ {
			if c.spans[c.retained[child]].keep < c.spans[c.retained[least]].keep {
				least = child
			}
		}
		if least == i {
			return
		}
		c.heapSwap(i, least)
		i = least
	}
}
