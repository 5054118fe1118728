package kv

import "parley"

// remember keeps an evicted node of a span as a ghost.
func (c *Cache) remember(id int32, n *node) {
	g := &c.ghosts
	s := &c.cached.spans[id]
	if len(g.ring) == 0 {
		c.learn.lose(s.kind, s.bucket)
		return
	}
	k := key(&n.hash)
	s.ghosts++
	c.forget(int(g.byKey.find(k)) - 1)
	c.forget(g.next)
	g.ring[g.next] = ghost{k, id, n.hits}
	g.byKey.put(k, int32(g.next+1))
	g.next = (g.next + 1) % len(g.ring)
}

// forget drops a ghost that was never asked for.
func (c *Cache) forget(place int) {
	if place < 0 || c.ghosts.ring[place].span == 0 {
		return
	}
	id := c.removeGhost(place)
	s := &c.cached.spans[id]
	c.learn.lose(s.kind, s.bucket)
	c.dropIfEmpty(id)
}

// recall reports whether the block was evicted lately, and how often it had
// been hit before. It learns that it would have been used.
func (c *Cache) recall(h *parley.BlockHash) (hits uint8, ok bool) {
	place := int(c.ghosts.byKey.find(key(h))) - 1
	if place < 0 {
		return 0, false
	}
	hits = c.ghosts.ring[place].hits
	id := c.removeGhost(place)
	s := &c.cached.spans[id]
	c.learn.reuse(s.kind, s.bucket)
	c.dropIfEmpty(id)
	return hits, true
}

// removeGhost takes a ghost out and returns its span.
func (c *Cache) removeGhost(place int) int32 {
	g := &c.ghosts.ring[place]
	id := g.span
	c.ghosts.byKey.remove(g.key)
	*g = ghost{}
	c.cached.spans[id].ghosts--
	return id
}
