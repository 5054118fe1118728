package kv

import "parley"

// Known returns how many of the leading names are those of blocks that can be found, in
// any tier.
func (c *Cache) Known(names []parley.BlockHash) (n int) {
	for n < len(names) && c.lookup(&names[n]) != 0 {
		n++
	}
	return n
}

// Find returns where the block of a name lies, as it will be when all [Cache.Moves] are
// done.
func (c *Cache) Find(name parley.BlockHash) (t Tier, slot int32, ok bool) {
	id := c.lookup(&name)
	if id == 0 {
		return 0, 0, false
	}
	return c.tree.nodes[id].tier, c.tree.nodes[id].slot, true
}
