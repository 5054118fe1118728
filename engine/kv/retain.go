package kv

// retain protects a new span until its time, if retention has room left.
func (c *Cache) retain(id int32) {
	s := &c.cached.spans[id]
	if s.times.keep <= c.clock.now {
		return
	}
	if c.cached.retainedBlocks+int(s.count[Device]) > int(c.cfg.RetainShare*float64(c.slots.total[Device])) {
		c.stats.RetainRefused += uint64(s.count[Device])
		return
	}
	c.cached.retainedBlocks += int(s.count[Device])
	c.cached.retained = append(c.cached.retained, id)
	s.heapAt = int32(len(c.cached.retained))
	c.heapUp(len(c.cached.retained) - 1)
}

// expire ends the retentions whose time has come.
func (c *Cache) expire() {
	for len(c.cached.retained) > 0 && c.cached.spans[c.cached.retained[0]].times.keep <= c.clock.now {
		id := c.cached.retained[0]
		c.endRetention(id)
		c.settle(id)
	}
}

func (c *Cache) endRetention(id int32) {
	s := &c.cached.spans[id]
	if s.heapAt == 0 {
		return
	}
	i, last := int(s.heapAt)-1, len(c.cached.retained)-1
	c.heapSwap(i, last)
	c.cached.retained = c.cached.retained[:last]
	if i < last {
		c.heapUp(i)
		c.heapDown(i)
	}
	c.cached.retainedBlocks -= int(s.count[Device])
	s.heapAt = 0
}

// leastRetained returns the retained span that can lose a block and whose time
// ends first. It looks at all of them; that happens only when the pool holds
// nothing else that could be evicted.
func (c *Cache) leastRetained() (best int32) {
	for _, id := range c.cached.retained {
		s := &c.cached.spans[id]
		if c.childless(s.deep[Device], Device) && (best == 0 || s.times.keep < c.cached.spans[best].times.keep) {
			best = id
		}
	}
	return best
}

func (c *Cache) heapSwap(i, j int) {
	h := c.cached.retained
	h[i], h[j] = h[j], h[i]
	c.cached.spans[h[i]].heapAt, c.cached.spans[h[j]].heapAt = int32(i+1), int32(j+1)
}

func (c *Cache) heapUp(i int) {
	for i > 0 && c.endsBefore(i, (i-1)/2) {
		c.heapSwap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (c *Cache) heapDown(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(c.cached.retained); child++ {
			if c.endsBefore(child, least) {
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

// endsBefore orders the heap: it compares the ends of two retentions.
func (c *Cache) endsBefore(i, j int) bool {
	spans, heap := c.cached.spans, c.cached.retained
	return spans[heap[i]].times.keep < spans[heap[j]].times.keep
}
