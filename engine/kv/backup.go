package kv

import (
	"cmp"
	"slices"

	"parley"
)

// The disk outlives the process, but a block is found by the path that leads
// to it, and the paths begin with the blocks that are used most and so never
// leave the device. So blocks in higher tiers may have a copy on the disk:
// one that came up from there leaves it behind, and Backup makes others. A
// block that has a copy goes down to the disk without being written again.
//
// Copies may always take a quarter of the disk, and what else is free there.

// giveUpCopy frees the slot of the oldest copy, if copies have more than their quarter.
func (c *Cache) giveUpCopy() bool {
	k := &c.copies
	if k.n <= c.slots.total[Disk]/4 {
		return false
	}
	for len(k.queue) > 0 {
		slot := k.queue[0]
		k.queue = k.queue[1:]
		if id := k.owner[slot]; id != 0 {
			c.freeCopy(id)
			return true
		}
	}
	return false
}

// Backup wants up to most blocks copied to the disk, so that they are found
// there when the process has ended, and reports how many it listed among the
// [Cache.Moves]. A block is copied after its parent. It is for idle moments:
// it looks at every block.
func (c *Cache) Backup(most int) (listed int) {
	if c.slots.total[Disk] == 0 {
		return 0
	}
	k := &c.copies
	for range len(c.tree.nodes) {
		if k.hand++; int(k.hand) >= len(c.tree.nodes) {
			k.hand = 1
		}
		n := &c.tree.nodes[k.hand]
		if !n.sealed || n.tier == Disk || n.copy != 0 || n.parent != 0 && c.tree.nodes[n.parent].copy == 0 {
			continue
		}
		if listed == most || len(c.slots.free[Disk]) == 0 && !c.roomForCopy() {
			k.hand--
			break
		}
		slot := c.popSlot(Disk)
		c.copies.moves = append(c.copies.moves, c.moveOf(k.hand, Disk, slot))
		c.keepCopy(k.hand, slot)
		listed++
	}
	return listed
}

// roomForCopy evicts a block of the disk, if copies have less than their quarter.
func (c *Cache) roomForCopy() bool {
	loser, worth := c.least(&c.cached.cells[Disk][0])
	if loser == 0 || c.copies.n >= c.slots.total[Disk]/4 {
		return false
	}
	c.evictFrom(loser, Disk, worth)
	return true
}

// A DiskBlock is a block that an earlier process left on the disk.
type DiskBlock struct {
	Hash, Parent parley.BlockHash
	Slot         int32
}

// Adopt takes blocks into a new cache that were found on the disk. Those whose
// path from the root is not complete are left out, and so are those whose slot
// does not exist or was named before. It returns how many it took.
func (c *Cache) Adopt(found []DiskBlock) (taken int) {
	if c.slots.total[Disk] == 0 || len(c.slots.free[Disk]) < c.slots.total[Disk] {
		return 0
	}
	byHash := make(map[parley.BlockHash]int, len(found))
	for i := range found {
		byHash[found[i].Hash] = i
	}
	delete(byHash, parley.BlockHash{}) // the name of no block
	held, seen := make([]bool, c.slots.total[Disk]), make([]bool, len(found))
	var path []int
	for i := range found {
		path = path[:0]
		for at, ok := i, true; ok && !seen[at]; at, ok = byHash[found[at].Parent] {
			path, seen[at] = append(path, at), true
		}
		slices.Reverse(path)
		taken += c.adoptPath(found, path, held)
	}
	c.slots.free[Disk] = c.slots.free[Disk][:0]
	for slot := int32(c.slots.total[Disk]) - 1; slot >= 0; slot-- {
		if !held[slot] {
			c.slots.free[Disk] = append(c.slots.free[Disk], slot)
		}
	}
	return taken
}

// adoptPath makes nodes of blocks of which each is the parent of the next.
func (c *Cache) adoptPath(found []DiskBlock, path []int, held []bool) (taken int) {
	var last, root int32
	for _, i := range path {
		f := &found[i]
		if c.lookup(&f.Hash) != 0 && taken == 0 {
			continue // under another slot
		}
		parent, ok := c.parentOf(f)
		if !ok || f.Slot < 0 || int(f.Slot) >= len(held) || held[f.Slot] || c.tree.byHash.find(key(&f.Hash)) != 0 {
			break
		}
		if taken == 0 {
			root = parent
		}
		held[f.Slot] = true
		end := len(c.tree.freeNodes) - 1
		last = c.tree.freeNodes[end]
		c.tree.freeNodes = c.tree.freeNodes[:end]
		c.tree.nodes[last] = node{hash: f.Hash, parent: parent, slot: f.Slot, tier: Disk}
		c.publish(last, nil)
		taken++
	}
	if taken > 0 {
		c.newSpan(last, taken, kindOf(0, false, begins, 0), &Table{}, 0)
		c.settle(c.tree.nodes[root].span)
	}
	return taken
}

// parentOf returns the node that a found block follows, 0 for the root.
func (c *Cache) parentOf(f *DiskBlock) (id int32, ok bool) {
	if f.Parent == (parley.BlockHash{}) {
		return 0, f.Hash != f.Parent
	}
	id = c.lookup(&f.Parent)
	return id, id != 0
}

// Forget drops a block whose content was lost, and everything that continues
// it. It reports false, and drops nothing, as long as any of it is in use.
func (c *Cache) Forget(hash parley.BlockHash) bool {
	id := c.lookup(&hash)
	if id == 0 {
		return true
	}
	doomed := c.subtree(id)
	if slices.ContainsFunc(doomed, func(id int32) bool { return c.tree.nodes[id].refs > 0 }) {
		return false
	}
	for _, id := range doomed {
		c.drop(id)
	}
	return true
}

// drop forgets a cached block that has no children and is the deepest of its
// span in its tier.
func (c *Cache) drop(id int32) {
	n := &c.tree.nodes[id]
	span, parent := n.span, n.parent
	c.learn.lose(c.cached.spans[span].kind, c.cached.spans[span].bucket)
	c.leaveSpan(id)
	c.unpublish(id)
	c.freeNode(id)
	c.settle(span)
	c.dropIfEmpty(span)
	if above := c.tree.nodes[parent].span; above != 0 && above != span {
		c.settle(above)
	}
}

// subtree lists a node and all that continue it, the deepest first.
func (c *Cache) subtree(root int32) []int32 {
	depth := map[int32]int{root: 1}
	var path, all []int32
	for id := range c.tree.nodes {
		path = path[:0]
		at := int32(id)
		for ; at != 0 && c.tree.nodes[at].sealed && depth[at] == 0; at = c.tree.nodes[at].parent {
			path = append(path, at)
		}
		if depth[at] == 0 {
			continue
		}
		slices.Reverse(path)
		for i, id := range path {
			depth[id] = depth[at] + 1 + i
			all = append(all, id)
		}
	}
	slices.SortFunc(all, func(a, b int32) int { return cmp.Compare(depth[b], depth[a]) })
	return append(all, root)
}
