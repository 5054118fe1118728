package kv

import (
	"encoding/binary"
	"slices"

	"parley"
)

func key(h *parley.BlockHash) uint64 { return binary.LittleEndian.Uint64(h[:8]) }

// lookup returns the node of a hash, or 0.
func (c *Cache) lookup(h *parley.BlockHash) int32 {
	if id := c.tree.byHash.find(key(h)); id != 0 && c.tree.nodes[id].hash == *h {
		return id
	}
	return 0
}

// newNode makes a private node with a device slot. There must be one to be had.
func (c *Cache) newNode() (int32, bool) {
	slot, ok := c.obtain()
	if !ok {
		return 0, false
	}
	last := len(c.tree.freeNodes) - 1
	id := c.tree.freeNodes[last]
	c.tree.freeNodes = c.tree.freeNodes[:last]
	c.tree.nodes[id] = node{slot: slot, refs: 1}
	return id, true
}

// freeNode gives a node and its slot back. It is in no span and has no kids.
func (c *Cache) freeNode(id int32) {
	n := &c.tree.nodes[id]
	c.freeCopy(id)
	c.slots.free[n.tier] = append(c.slots.free[n.tier], n.slot)
	*n = node{}
	c.tree.freeNodes = append(c.tree.freeNodes, id)
}

// publish makes a node findable under its hash.
func (c *Cache) publish(id int32, tokens []parley.Token) {
	n := &c.tree.nodes[id]
	n.sealed = true
	c.tree.nodes[n.parent].kids[n.tier]++
	c.tree.byHash.put(key(&n.hash), id)
	if n.content != 0 {
		c.tree.byContent.add(n.content, 1)
	}
	c.log.stored(c, id, tokens)
}

// unpublish removes a node's name, so that lookups no longer find it.
func (c *Cache) unpublish(id int32) {
	n := &c.tree.nodes[id]
	n.sealed = false
	c.tree.nodes[n.parent].kids[n.tier]--
	c.tree.byHash.remove(key(&n.hash))
	if n.content != 0 {
		c.tree.byContent.add(n.content, -1)
	}
	c.log.removed(n.hash, n.tier)
}

// move puts a node into another tier, or another slot of the device.
func (c *Cache) move(id int32, to Tier, slot int32) {
	c.copies.moves = append(c.copies.moves, c.moveOf(id, to, slot))
	c.relocate(id, to, slot)
}

// moveOf returns the copy of a node to another place.
func (c *Cache) moveOf(id int32, to Tier, slot int32) Move {
	n := &c.tree.nodes[id]
	return Move{n.hash, c.tree.nodes[n.parent].hash, n.tier, to, n.slot, slot}
}

// relocate records that a node's content stands elsewhere. Coming up from the
// disk, it leaves a copy there.
func (c *Cache) relocate(id int32, to Tier, slot int32) {
	n := &c.tree.nodes[id]
	if n.tier == Disk {
		c.keepCopy(id, n.slot)
	} else {
		c.slots.free[n.tier] = append(c.slots.free[n.tier], n.slot)
	}
	parent := &c.tree.nodes[n.parent]
	parent.kids[n.tier]--
	parent.kids[to]++
	from := n.tier
	n.tier, n.slot = to, slot
	c.log.stored(c, id, nil)
	c.log.removed(n.hash, from)
}

// contentOf extends the salt-free name of a context by one block. It is the
// same for equal tokens under different salts. It serves diagnosis alone, so it need
// not be cryptographic.
func contentOf(parent uint64, tokens []parley.Token) uint64 {
	const odd = 0xff51afd7ed558ccd
	h := parent + odd
	for ; len(tokens) > 1; tokens = tokens[2:] {
		h = (h ^ uint64(uint32(tokens[0])) ^ uint64(tokens[1])<<32) * odd
		h ^= h >> 29
	}
	if len(tokens) > 0 {
		h = (h ^ uint64(uint32(tokens[0]))) * odd
	}
	return max(h^h>>32, 1)
}

// keepCopy makes a disk slot the copy of a node.
func (c *Cache) keepCopy(id, slot int32) {
	k := &c.copies
	c.tree.nodes[id].copy = slot + 1
	k.owner[slot] = id
	k.n++
	if len(k.queue) >= 2*len(k.owner) {
		k.queue = slices.DeleteFunc(k.queue, func(slot int32) bool { return k.owner[slot] == 0 })
		slices.Sort(k.queue)
		k.queue = slices.Compact(k.queue)
	}
	k.queue = append(k.queue, slot)
}

// takeCopy ends a node's copy and returns its slot, which is the caller's then.
func (c *Cache) takeCopy(id int32) (slot int32) {
	n := &c.tree.nodes[id]
	slot, n.copy = n.copy-1, 0
	c.copies.owner[slot] = 0
	c.copies.n--
	return slot
}

// freeCopy gives the slot of a node's copy back, if it has one.
func (c *Cache) freeCopy(id int32) {
	if c.tree.nodes[id].copy != 0 {
		c.slots.free[Disk] = append(c.slots.free[Disk], c.takeCopy(id))
	}
}
