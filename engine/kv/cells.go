package kv

func (c *Cache) pushBack(l *list, which int, id int32) {
	c.cached.spans[id].links[which] = link{prev: l.tail}
	if l.tail == 0 {
		l.head = id
	} else {
		c.cached.spans[l.tail].links[which].next = id
	}
	l.tail = id
}

func (c *Cache) unlink(l *list, which int, id int32) {
	at := &c.cached.spans[id].links[which]
	if at.prev == 0 {
		l.head = at.next
	} else {
		c.cached.spans[at.prev].links[which].next = at.next
	}
	if at.next == 0 {
		l.tail = at.prev
	} else {
		c.cached.spans[at.next].links[which].prev = at.prev
	}
	*at = link{}
}

// insert puts a span where its order belongs, if that is near one end; else
// somewhere between, which costs a little precision within one bucket of age
// and never more than a few steps. Under LRU it is always at the old end.
func (c *Cache) insert(l *list, which int, id int32) {
	const stepsMost = 16
	order := c.cached.spans[id].order
	if l.tail == 0 || c.cached.spans[l.tail].order < order { // as spans that grow older come
		c.pushBack(l, which, id)
		return
	}
	next, steps := l.head, 0
	for next != 0 && c.cached.spans[next].order < order && steps < stepsMost {
		next = c.cached.spans[next].links[which].next
		steps++
	}
	if steps == stepsMost && next != 0 {
		prev := l.tail
		for next, steps = 0, 0; steps < stepsMost && c.cached.spans[prev].order > order; steps++ {
			next, prev = prev, c.cached.spans[prev].links[which].prev
		}
	}
	if next == 0 {
		c.pushBack(l, which, id)
		return
	}
	prev := c.cached.spans[next].links[which].prev
	c.cached.spans[id].links[which] = link{prev, next}
	c.cached.spans[next].links[which].prev = id
	if prev == 0 {
		l.head = id
	} else {
		c.cached.spans[prev].links[which].next = id
	}
}

func (c *Cache) cellOf(s *span, t Tier) (*cellSet, *list) {
	set := &c.cached.cells[t][0]
	if s.over && t == Device {
		set = &c.cached.cells[t][1]
	}
	return set, &set.lists[s.kind][s.bucket]
}

func (c *Cache) enterCell(id int32, t Tier) {
	s := &c.cached.spans[id]
	set, l := c.cellOf(s, t)
	c.insert(l, linkCell+int(t), id)
	set.full[s.kind] |= 1 << s.bucket
	s.inCell[t] = true
}

func (c *Cache) leaveCell(id int32, t Tier) {
	s := &c.cached.spans[id]
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

// childless reports whether no child of the node stands in its tier or a higher one.
func (c *Cache) childless(node int32, t Tier) bool {
	kids := &c.tree.nodes[node].kids
	n := kids[Device]
	for u := Host; u <= t; u++ {
		n += kids[u]
	}
	return n == 0
}

// settle puts a span into the cell of each tier in which it can lose a block
// now, and takes it out of the others. Retained spans can lose none on the device.
func (c *Cache) settle(id int32) {
	s := &c.cached.spans[id]
	for t := range tiers {
		can := s.count[t] > 0 && c.childless(s.deep[t], t) && (t != Device || s.heapAt == 0)
		if can && !s.inCell[t] {
			c.enterCell(id, t)
		} else if !can {
			c.leaveCell(id, t)
		}
	}
}
