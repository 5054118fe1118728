package kv

import "time"

// Release gives up the table's blocks, whether the sequence is complete, cancelled or
// preempted. Sealed blocks that are no longer used become cached; private ones become
// free.
func (c *Cache) Release(t *Table, now time.Time) { c.Suspend(t, 0, now) }

// Suspend is Release for a sequence that will continue: its sealed blocks are
// retained for at least that time, if retention has room.
func (c *Cache) Suspend(t *Table, retain time.Duration, now time.Time) {
	t.retain = max(t.retain, min(retain, c.cfg.RetainMax))
	c.tick(now)
	if t.place == 0 {
		return
	}
	c.stats.ReleasedSlots += uint64(len(t.nodes) * c.cfg.BlockTokens)
	c.stats.ReleasedTokens += uint64(t.tokens)
	at := len(t.nodes) - 1
	for ; at >= 0 && !c.tree.nodes[t.nodes[at]].sealed; at-- {
		if id := t.nodes[at]; id != 0 {
			c.unuse(id)
		}
	}
	c.cachePath(t, at)
	c.delist(t)
	t.nodes, t.Blocks, t.sealed, t.tokens = t.nodes[:0], t.Blocks[:0], 0, 0
}

// cachePath gives up the references to the table's blocks from index at up to
// the root. Those without another form new spans, the deep ones first, each of
// one kind and one retention.
func (c *Cache) cachePath(t *Table, at int) {
	keep := c.clock.now + int64(t.retain)
	deep, blocks := int32(0), 0
	var kind uint8
	var until int64
	for ; at >= 0; at-- {
		id := t.nodes[at]
		n := &c.tree.nodes[id]
		n.refs--
		if n.refs > 0 {
			continue
		}
		if n.keep = max(n.keep, keep); n.keep <= c.clock.now {
			n.keep = 0
		}
		k := kindOf(n.hits, (at+1)*c.cfg.BlockTokens > t.prompt, t.from, t.size)
		if blocks > 0 && (k != kind || n.keep != until) {
			c.newSpan(deep, blocks, kind, t, until)
			blocks = 0
		}
		if blocks == 0 {
			deep, kind, until = id, k, n.keep
		}
		blocks++
	}
	if blocks > 0 {
		c.newSpan(deep, blocks, kind, t, until)
	}
}

// letGo gives up a reference to one sealed block that stands at the end of a
// path whose other blocks stay in use.
func (c *Cache) letGo(t *Table, id int32, kind uint8) {
	n := &c.tree.nodes[id]
	if n.refs--; n.refs == 0 {
		c.newSpan(id, 1, kind, t, n.keep)
	}
}

func (c *Cache) delist(t *Table) {
	last := len(c.tables) - 1
	c.tables[t.place-1] = c.tables[last]
	c.tables[t.place-1].place = t.place
	c.tables[last] = nil
	c.tables = c.tables[:last]
	t.place = 0
	c.accounts.tenants.accounts[t.tenant].tables--
	c.accounts.classes.accounts[t.class].tables--
	c.accounts.tenants.closeIfIdle(t.tenant)
	c.accounts.classes.closeIfIdle(t.class)
}
