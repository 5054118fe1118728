package kv

import "parley"

// A Prospect is a block that may be worth keeping beyond this cache, and the chance that it is
// used again.
type Prospect struct {
	Name   parley.BlockHash
	Chance float64
}

// Prospects looks at up to most blocks, beginning with number from, and appends to dst those in
// memory whose chance of being used again is at least least, each after all blocks before it in
// its sequence. A block has at least the chance of those that continue it. Blocks that known
// reports are left out. Next is where to continue; 0 after the last block. The disk is not looked
// at: its blocks were in memory before.
func (c *Cache) Prospects(dst []Prospect, from int32, most int, least float64,
	known func(*parley.BlockHash) bool) (list []Prospect, next int32) {
	listed := map[int32]int{} // 1 + place in dst
	var path []int32
	from = max(from, 1)
	end := min(len(c.tree.nodes), int(from)+most)
	for id := from; int(id) < end; id++ {
		chance := c.chance(id)
		if chance < least {
			continue
		}
		path = path[:0]
		at := id
		for at != 0 && listed[at] == 0 && !known(&c.tree.nodes[at].hash) {
			path = append(path, at)
			at = c.tree.nodes[at].parent
		}
		for ; at != 0 && listed[at] != 0 && dst[listed[at]-1].Chance < chance; at = c.tree.nodes[at].parent {
			dst[listed[at]-1].Chance = chance
		}
		for i := len(path) - 1; i >= 0; i-- {
			dst = append(dst, Prospect{c.tree.nodes[path[i]].hash, max(chance, c.chance(path[i]))})
			listed[path[i]] = len(dst)
		}
	}
	if end == len(c.tree.nodes) {
		return dst, 0
	}
	return dst, int32(end)
}

// chance returns the chance that a block in memory is used again; 0 if that cannot be said yet,
// because the first sequence with it runs.
func (c *Cache) chance(id int32) float64 {
	n := &c.tree.nodes[id]
	switch {
	case !n.sealed || n.tier == Disk || n.span == 0 && n.hits == 0:
		return 0
	case n.span == 0:
		return 1
	}
	s := &c.cached.spans[n.span]
	return c.learn.later[s.kind][s.bucket]
}
