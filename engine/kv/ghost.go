package kv

import "parley"

// ghosts remember blocks that were evicted lately: which span they were in, so
// that their reuse is learned from as if they had stayed, and how often they
// were hit. The oldest is forgotten when there is no room.
type ghosts struct {
	ring  []ghost
	next  int
	byKey index // 1 + place in ring
}

type ghost struct {
	key  uint64
	span int32 // 0: empty
	hits uint8
}

func newGhosts(most int, seed uint64) ghosts {
	return ghosts{ring: make([]ghost, most), byKey: newIndex(most, seed)}
}

// remember keeps an evicted node of a span as a ghost.
func (c *Cache) remember(id int32, n *node) {
	g := &c.ghosts
	s := &c.spans[id]
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
	id := c.exorcise(place)
	s := &c.spans[id]
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
	id := c.exorcise(place)
	s := &c.spans[id]
	c.learn.reuse(s.kind, s.bucket)
	c.dropIfEmpty(id)
	return hits, true
}

// exorcise takes a ghost out and returns its span.
func (c *Cache) exorcise(place int) int32 {
	g := &c.ghosts.ring[place]
	id := g.span
	c.ghosts.byKey.remove(g.key)
	*g = ghost{}
	c.spans[id].ghosts--
	return id
}
