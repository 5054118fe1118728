package kv

import (
	"errors"
	"fmt"
)

// Check reports every way in which the account disagrees with itself or with
// the tables. It looks at everything and is meant for tests and rare audits.
func (c *Cache) Check() error {
	k := checker{c: c, refs: make([]int32, len(c.tree.nodes)), kids: make([][tiers]int32, len(c.tree.nodes)),
		spans: make([]span, len(c.cached.spans))}
	k.tables()
	k.free()
	for id := 1; id < len(c.tree.nodes); id++ {
		k.node(int32(id))
	}
	k.spansAgree()
	k.totals()
	return errors.Join(k.problems...)
}

type checker struct {
	c        *Cache
	problems []error
	refs     []int32
	kids     [][tiers]int32
	unused   []bool
	use      [tiers]Use
	spans    []span // counts and ghosts as found
}

func (k *checker) bad(wrong bool, format string, args ...any) {
	const problemsMost = 20
	if wrong && len(k.problems) < problemsMost {
		k.problems = append(k.problems, fmt.Errorf("kv: "+format, args...))
	}
}

func (k *checker) tables() {
	for i, t := range k.c.tables {
		k.bad(t.place != i+1, "table %d believes it is table %d", i, t.place-1)
		k.bad(len(t.nodes) != len(t.Blocks), "table %d has %d nodes and %d blocks", i, len(t.nodes), len(t.Blocks))
		for j, id := range t.nodes {
			if id == 0 {
				k.bad(j < t.sealed || j >= t.trimmed || j+1 == len(t.nodes) || t.Blocks[j] != t.Blocks[j+1],
					"table %d has no block at %d, but %d with a name, and looks at those from %d on", i, j, t.sealed,
					t.trimmed)
				continue
			}
			n := &k.c.tree.nodes[id]
			k.refs[id]++
			k.bad(t.Blocks[j] != n.slot || n.tier != Device,
				"table %d has block %d at %d, but node %d is in slot %d of tier %s", i, t.Blocks[j], j, id, n.slot,
				n.tier)
			k.bad(j < t.sealed && !n.sealed, "table %d has %d sealed blocks, but number %d is not", i, t.sealed, j)
			k.bad(n.sealed && j > 0 && n.parent != t.nodes[j-1],
				"node %d follows %d in table %d, but its parent is %d", id, t.nodes[max(j-1, 0)], i, n.parent)
		}
	}
}

func (k *checker) free() {
	k.unused = make([]bool, len(k.c.tree.nodes))
	for _, id := range k.c.tree.freeNodes {
		k.bad(k.unused[id], "node %d is free twice", id)
		k.unused[id] = true
	}
	for t := range tiers {
		seen := make([]bool, k.c.slots.total[t])
		for _, slot := range k.c.slots.free[t] {
			k.bad(seen[slot], "slot %d of tier %s is free twice", slot, t)
			seen[slot] = true
		}
		for id := range k.c.tree.nodes {
			if n := &k.c.tree.nodes[id]; id > 0 && !k.unused[id] && n.tier == t {
				k.bad(seen[n.slot], "slot %d of tier %s is free, or has a second node besides %d", n.slot, t, id)
				seen[n.slot] = true
			}
		}
		for slot, id := range k.c.copies.owner {
			if id != 0 && t == Disk {
				k.bad(seen[slot] || k.c.tree.nodes[id].copy != int32(slot)+1,
					"slot %d on disk is not only the copy of node %d", slot, id)
				seen[slot] = true
				k.use[t].Copies++
			}
		}
		k.use[t].Free = len(k.c.slots.free[t])
	}
}

func (k *checker) node(id int32) {
	n := &k.c.tree.nodes[id]
	k.bad(n.refs != k.refs[id], "node %d has %d references, but stands in %d tables", id, n.refs, k.refs[id])
	if k.unused[id] {
		k.bad(n.sealed || n.refs != 0, "node %d is free and has %d references, sealed=%t", id, n.refs, n.sealed)
		return
	}
	if n.refs > 0 {
		k.use[n.tier].InUse++
		k.bad(n.span != 0, "node %d is in use and in span %d", id, n.span)
	} else {
		k.use[n.tier].Cached++
		k.bad(n.span == 0, "node %d has no span", id)
		k.spans[n.span].count[n.tier]++
	}
	if n.sealed {
		k.kids[n.parent][n.tier]++
		parent := &k.c.tree.nodes[n.parent]
		k.bad(n.parent != 0 && (!parent.sealed || parent.tier > n.tier),
			"node %d in tier %s hangs from %d in tier %s, sealed=%t", id, n.tier, n.parent, parent.tier, parent.sealed)
		k.bad(k.c.lookup(&n.hash) != id, "node %d is not found under its hash", id)
	}
}

func (k *checker) spansAgree() {
	c := k.c
	for i := range c.ghosts.ring {
		if g := &c.ghosts.ring[i]; g.span != 0 {
			k.spans[g.span].ghosts++
			k.bad(c.ghosts.byKey.find(g.key) != int32(i+1), "ghost %d is not found", i)
		}
	}
	retained := 0
	for id := 1; id < len(c.cached.spans); id++ {
		s, want := &c.cached.spans[id], &k.spans[id]
		k.bad(s.count != want.count || s.ghosts != want.ghosts,
			"span %d counts %v blocks and %d ghosts, but has %v and %d", id, s.count, s.ghosts, want.count, want.ghosts)
		if s.heapAt != 0 {
			retained += int(s.count[Device])
		}
		for t := range tiers {
			ready := s.count[t] > 0 && c.childless(s.deep[t], t) && (t != Device || s.heapAt == 0)
			k.bad(ready != s.inCell[t], "span %d can lose a block in tier %s: %t, but it is listed so: %t", id, t,
				ready, s.inCell[t])
		}
	}
	k.bad(retained != c.cached.retainedBlocks, "%d blocks are retained, but %d are counted", retained,
		c.cached.retainedBlocks)
}

func (k *checker) totals() {
	c := k.c
	sealed := int32(0)
	for id := range c.tree.nodes {
		k.bad(c.tree.nodes[id].kids != k.kids[id], "node %d counts %v children, but has %v", id, c.tree.nodes[id].kids,
			k.kids[id])
		for _, n := range k.kids[id] {
			sealed += n
		}
	}
	k.bad(int(sealed) != c.tree.byHash.n, "%d blocks are sealed, but %d can be found", sealed, c.tree.byHash.n)
	for t := range tiers {
		u := k.use[t]
		k.bad(u.Cached != c.slots.cached[t], "tier %s has %d cached blocks, but counts %d", t, u.Cached,
			c.slots.cached[t])
		k.bad(u.Free+u.Cached+u.InUse+u.Copies != c.slots.total[t],
			"tier %s: %d free + %d cached + %d in use + %d copies are not %d", t, u.Free, u.Cached, u.InUse, u.Copies,
			c.slots.total[t])
		k.bad(t == Disk && u.Copies != c.copies.n, "%d copies are on disk, but %d are counted", u.Copies, c.copies.n)
	}
	for _, l := range []*ledger{&c.accounts.tenants, &c.accounts.classes} {
		cached := 0
		for i := range l.accounts {
			cached += l.accounts[i].cached
		}
		k.bad(cached != c.slots.cached[Device], "accounts hold %d cached blocks of %d", cached, c.slots.cached[Device])
	}
}

// Repair makes the law hold again by counting anew from the tables, and returns
// what [Cache.Check] had found; nil if nothing was wrong, in which case it
// changes nothing. Sequences keep their blocks. Cached blocks are forgotten:
// once the account was wrong, they cannot be trusted.
func (c *Cache) Repair() error {
	err := c.Check()
	if err != nil {
		c.log.cleared()
		c.rebuild()
	}
	return err
}

// rebuild frees every block that is in no table, and counts the others anew.
// Those that tables hold as sealed stay sealed.
func (c *Cache) rebuild() {
	used := make([]bool, len(c.tree.nodes))
	held := make([]bool, c.slots.total[Device])
	c.reset()
	c.tree.nodes[0] = node{}
	for _, t := range c.tables {
		for i, id := range t.nodes {
			if id == 0 { // it was trimmed
				continue
			}
			n := &c.tree.nodes[id]
			if !used[id] {
				*n = node{
					hash:    n.hash,
					content: n.content,
					keep:    n.keep,
					hits:    n.hits,
					slot:    t.Blocks[i],
				}
				used[id], held[n.slot] = true, true
			}
			n.refs++
		}
	}
	for _, t := range c.tables {
		for i, id := range t.nodes[:t.sealed] {
			if n := &c.tree.nodes[id]; !n.sealed {
				if i > 0 {
					n.parent = t.nodes[i-1]
				}
				c.publish(id, nil)
			}
		}
		c.accounts.tenants.accounts[t.tenant].tables++
		c.accounts.classes.accounts[t.class].tables++
	}
	c.accounts.tenants.closeIdle()
	c.accounts.classes.closeIdle()
	c.freeRest(used, held)
}

// freeRest frees the nodes and slots that are neither used nor held.
func (c *Cache) freeRest(used, held []bool) {
	c.tree.freeNodes = c.tree.freeNodes[:0]
	for id := len(c.tree.nodes) - 1; id > 0; id-- {
		if !used[id] {
			c.tree.nodes[id] = node{}
			c.tree.freeNodes = append(c.tree.freeNodes, int32(id))
		}
	}
	for t := range tiers {
		c.slots.free[t] = c.slots.free[t][:0]
		for slot := c.slots.total[t] - 1; slot >= 0; slot-- {
			if t != Device || !held[slot] {
				c.slots.free[t] = append(c.slots.free[t], int32(slot))
			}
		}
	}
}
