package kv

// In a model whose every layer has a sliding window, a sequence leaves blocks behind that it never looks at again. As
// long as there is memory for them they stay, for a request that begins with the same tokens. Then they are taken from
// the sequence, which continues with the others: [Cache.Trim].

// Trim frees the first blocks of a table, which nothing looks at any more, and returns how many became free. Those
// stay that other tables have, or from which cached blocks hang, with all before them. No path leads to the rest of
// the table then, so it loses its names. In Blocks the next block of the table stands for each that is gone.
func (c *Cache) Trim(t *Table, blocks int) (freed int) {
	if t.place == 0 || blocks <= t.trimmed || blocks >= len(t.nodes) {
		return 0
	}
	t.trimmed = blocks
	from := c.ownFrom(t)
	if from >= blocks {
		return 0
	}
	c.unname(t, from)
	before := len(c.slots.free[Device])
	for i, id := range t.nodes[:blocks] {
		if i >= from && id != 0 {
			c.unuse(id)
			t.nodes[i] = 0
		}
	}
	t.standIn()
	return len(c.slots.free[Device]) - before
}

// ownFrom returns from where on a table's blocks are its own: no other table has them, and nothing cached
// hangs from them.
func (c *Cache) ownFrom(t *Table) int {
	follows := int32(0) // whether the next block of the table is one of a node's children
	for i := len(t.nodes) - 1; i >= 0; i-- {
		n, kids := &c.tree.nodes[t.nodes[i]], int32(0)
		if t.nodes[i] == 0 {
			continue
		}
		for _, k := range n.kids {
			kids += k
		}
		if n.refs > 1 || kids > follows {
			return i + 1
		}
		if n.sealed {
			follows = 1
		}
	}
	return 0
}

// unname makes the blocks of a table from an index on private ones for good.
func (c *Cache) unname(t *Table, from int) {
	for i := len(t.nodes) - 1; i >= from; i-- {
		id := t.nodes[i]
		if !c.tree.nodes[id].sealed {
			continue
		}
		c.freeCopy(id)
		c.unpublish(id)
		n := &c.tree.nodes[id]
		*n = node{slot: n.slot, refs: n.refs, hits: n.hits}
	}
	t.sealed, t.private = min(t.sealed, from), true
}

// standIn lets each block that is gone be the next one in Blocks that is not.
func (t *Table) standIn() {
	next := int32(0)
	for i := len(t.nodes) - 1; i >= 0; i-- {
		if t.nodes[i] != 0 {
			next = t.Blocks[i]
		}
		t.Blocks[i] = next
	}
}

// Held returns how many blocks the table has, without those that are gone.
func (t *Table) Held() (blocks int) {
	if t.trimmed == 0 {
		return len(t.nodes)
	}
	for _, id := range t.nodes {
		if id != 0 {
			blocks++
		}
	}
	return blocks
}
