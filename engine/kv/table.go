package kv

import (
	"fmt"
	"time"

	"parley"
)

// A survey is what an admission would find and take.
type survey struct {
	found  int  // blocks
	shared int  // of these, how many the table will share
	copied bool // the last one is copied, so that its last token can be computed again
}

// survey looks for the longest known prefix of a claim, and whether there is
// room for the rest.
func (c *Cache) survey(claim *Claim, tokens int) (survey, bool) {
	c.trace(claim)
	v := survey{found: len(c.tree.path)}
	v.shared = v.found
	if v.found > 0 && v.found*c.cfg.BlockTokens >= claim.tokens() {
		v.shared--
		v.copied = true
	}
	if !c.hasRoom(v, tokens) {
		// Without the copy one more block can be evicted.
		v.found, v.copied = v.shared, false
		if !c.hasRoom(v, tokens) {
			return v, false
		}
	}
	return v, true
}

// trace sets c.path to the nodes of the longest known prefix of a claim.
func (c *Cache) trace(claim *Claim) {
	c.tree.path = c.tree.path[:0]
	hashes := claim.Hashes[:c.fullBlocks(claim)]
	var ids [together]int32
	for ; len(hashes) > 0; hashes = hashes[min(together, len(hashes)):] {
		some := hashes[:min(together, len(hashes))]
		for i := range some {
			ids[i] = c.tree.byHash.find(key(&some[i]))
		}
		for i, id := range ids[:len(some)] {
			n := &c.tree.nodes[id]
			if id == 0 || n.hash != some[i] || claim.Above > 0 && n.tier >= claim.Above {
				return
			}
			c.tree.path = append(c.tree.path, id)
		}
	}
}

// fullBlocks returns how many blocks of the claim could be known.
func (c *Cache) fullBlocks(claim *Claim) int {
	return min(len(claim.Hashes), claim.tokens()/c.cfg.BlockTokens)
}

// hasRoom reports whether the blocks that c.path does not provide can be had.
func (c *Cache) hasRoom(v survey, tokens int) bool {
	have, need := c.Available(), max(c.BlocksFor(tokens), v.found)
	for i, id := range c.tree.path[:v.found] {
		n := &c.tree.nodes[id]
		if n.tier == Device && n.span != 0 {
			have--
		}
		if n.tier == Device && i < v.shared {
			need--
		}
	}
	if len(c.tables) > 0 {
		have -= c.cfg.WatermarkBlocks
	}
	return need <= have
}

// Admit gives t the blocks of the longest cached prefix of claim and room for tokens
// in total. It does all of it or, without room, nothing.
func (c *Cache) Admit(t *Table, claim *Claim, tokens int, now time.Time) (Admission, bool) {
	c.tick(now)
	v, ok := c.survey(claim, tokens)
	if !ok || t.place != 0 || claim.tokens() == 0 {
		return Admission{}, false
	}
	c.open(t, claim)
	a := Admission{HitTokens: v.shared * c.cfg.BlockTokens, MissBlock: len(c.tree.path)}
	a.Miss = c.missing(claim, len(c.tree.path))
	c.share(t, v, &a)
	c.characterise(t, claim, v.found)
	if v.copied {
		a.HitTokens = claim.tokens() - 1
		c.copyLast(t, c.tree.path[v.shared])
	}
	c.learn.study()
	c.stats.admitted(&a, claim)
	c.grow(t, tokens)
	return a, true
}

// open registers the table and whose it is.
func (c *Cache) open(t *Table, claim *Claim) {
	*t = Table{
		Blocks:  t.Blocks[:0],
		nodes:   t.nodes[:0],
		prompt:  claim.tokens(),
		revived: revival{hits: t.revived.hits[:0]},
	}
	t.retain = min(claim.Retain, c.cfg.RetainMax)
	t.tenant, t.class = c.accounts.tenants.open(claim.Tenant), c.accounts.classes.open(claim.Class)
	c.joinClass(t.tenant, t.class)
	c.enlist(t)
}

func (c *Cache) enlist(t *Table) {
	c.tables = append(c.tables, t)
	t.place = len(c.tables)
	c.accounts.tenants.accounts[t.tenant].tables++
	c.accounts.classes.accounts[t.class].tables++
}

// share takes the found blocks into use. All are referenced before any is
// moved up, so that none is evicted to make room for another.
func (c *Cache) share(t *Table, v survey, a *Admission) {
	for i, id := range c.tree.path[:v.found] {
		a.HitBlocks[c.tree.nodes[id].tier]++
		c.use(id, true)
		c.tree.nodes[id].hits = min(c.tree.nodes[id].hits, 254) + 1
		if i < v.shared {
			t.nodes = append(t.nodes, id)
		}
	}
	for _, id := range t.nodes {
		if c.tree.nodes[id].tier != Device {
			if slot, ok := c.obtain(); ok {
				c.move(id, Device, slot)
			}
		}
		t.Blocks = append(t.Blocks, c.tree.nodes[id].slot)
	}
	t.sealed = v.shared
}

// use adds a reference to a node. A hit is learned from.
func (c *Cache) use(id int32, hit bool) {
	n := &c.tree.nodes[id]
	if n.span != 0 {
		c.takeNode(id, hit)
	}
	n.refs++
}

// characterise notes what sort of request this is, for the prospects of its
// blocks, counting those that would have been found but for eviction.
func (c *Cache) characterise(t *Table, claim *Claim, found int) {
	full := c.fullBlocks(claim)
	var last uint8
	if found > 0 {
		last = c.tree.nodes[c.tree.path[found-1]].hits
	}
	known := found
	t.revived.from = found
	for known < full {
		hits, ok := c.recall(&claim.Hashes[known])
		if !ok {
			break
		}
		last = min(hits, 254) + 1
		t.revived.hits = append(t.revived.hits, last)
		known++
	}
	t.from = originOf(known, full, last)
	t.size = sizeOf((full - known) * c.cfg.BlockTokens)
}

// missing returns why a claim's block is not there. found blocks before it are.
func (c *Cache) missing(claim *Claim, found int) Miss {
	size, full := c.cfg.BlockTokens, c.fullBlocks(claim)
	if full == 0 {
		return MissShort
	}
	if found == full {
		return MissNone
	}
	if c.ghosts.byKey.find(key(&claim.Hashes[found])) != 0 || c.lookup(&claim.Hashes[found]) != 0 {
		return MissEvicted
	}
	var parent *node
	content := uint64(0)
	if found > 0 {
		parent = &c.tree.nodes[c.tree.path[found-1]]
		content = parent.content
	}
	if !c.cfg.NoTokens && (found == 0 || content != 0) && len(claim.Prompt) >= (found+1)*size {
		if c.tree.byContent.find(contentOf(content, claim.Prompt[found*size:(found+1)*size])) != 0 {
			return MissOtherSalt
		}
	}
	if parent != nil && parent.kids != [tiers]int32{} {
		return MissDiverged
	}
	return MissNew
}

// copyLast gives the table a private copy of the last block of a prompt that
// was found completely, and lets go of the original.
func (c *Cache) copyLast(t *Table, source int32) {
	if id, ok := c.newNode(); ok {
		to := &c.tree.nodes[id]
		c.copies.moves = append(c.copies.moves, c.moveOf(source, Device, to.slot))
		t.nodes = append(t.nodes, id)
		t.Blocks = append(t.Blocks, to.slot)
	}
	c.letGo(t, source, kindOf(c.tree.nodes[source].hits, false, t.from, t.size))
}

// Grow gives t room for tokens in total, evicting cached blocks.
// It reports false, and changes nothing, when there is not enough to be had.
func (c *Cache) Grow(t *Table, tokens int, now time.Time) bool {
	c.tick(now)
	return c.grow(t, tokens)
}

func (c *Cache) grow(t *Table, tokens int) bool {
	if t.place == 0 || c.BlocksFor(tokens)-len(t.nodes) > c.Available() {
		return false
	}
	for len(t.nodes) < c.BlocksFor(tokens) {
		id, ok := c.newNode()
		if !ok {
			return false
		}
		if i := len(t.nodes) - t.revived.from; i >= 0 && i < len(t.revived.hits) {
			c.tree.nodes[id].hits = t.revived.hits[i]
		}
		t.nodes = append(t.nodes, id)
		t.Blocks = append(t.Blocks, c.tree.nodes[id].slot)
	}
	t.tokens = max(t.tokens, tokens)
	return true
}

// unuse takes a reference from a private node and frees it with the last one.
func (c *Cache) unuse(id int32) {
	n := &c.tree.nodes[id]
	if n.refs--; n.refs == 0 {
		c.freeNode(id)
	}
}

// Approach reads memory that [Cache.Seal] will need for the table's next blocks, whose
// names these are. It changes nothing but speed.
func (c *Cache) Approach(t *Table, hashes []parley.BlockHash) {
	if t.private {
		return
	}
	nodes := t.nodes[min(t.sealed, len(t.nodes)):]
	for i := range hashes[:min(len(hashes), len(nodes))] {
		k := key(&hashes[i])
		c.tree.read += c.tree.byHash.approach(k) + c.ghosts.byKey.approach(k) + c.tree.nodes[nodes[i]].refs
	}
}

// Seal names the table's next block: it is full, computed, and will not change.
// tokens are the block's own, or nil if unknown. If another sequence sealed the same content
// first, the table shares that block from now on and its own becomes free,
// which is safe because equal names mean equal bits.
func (c *Cache) Seal(t *Table, hash parley.BlockHash, tokens []parley.Token) error {
	if t.place == 0 || t.sealed >= len(t.nodes) || tokens != nil && len(tokens) != c.cfg.BlockTokens {
		return fmt.Errorf(
			"kv: sealing block %d of a table of %d blocks with %d tokens, want %d and a block that is full", t.sealed,
			len(t.nodes), len(tokens), c.cfg.BlockTokens)
	}
	if t.private {
		return nil
	}
	if c.cfg.NoTokens {
		tokens = nil
	}
	own := t.nodes[t.sealed]
	switch other := c.tree.byHash.find(key(&hash)); {
	case c.tree.nodes[own].sealed:
	case other == 0:
		c.name(t, own, hash, tokens)
	case c.tree.nodes[other].hash != hash || !c.adopt(t, own, other):
		// A name that differs in its second half only cannot be indexed beside
		// the other one; and a block that cannot be moved up cannot be shared.
		t.private = true
		return nil
	}
	t.sealed++
	return nil
}

// together is how many blocks are looked for at a time: a processor waits for several lines
// of memory at once, if what it does with one does not depend on another.
const together = 16

// name makes a private block a sealed one.
func (c *Cache) name(t *Table, id int32, hash parley.BlockHash, tokens []parley.Token) {
	n := &c.tree.nodes[id]
	var content uint64
	if t.sealed > 0 {
		n.parent = t.nodes[t.sealed-1]
		content = c.tree.nodes[n.parent].content
	}
	n.hash = hash
	if tokens != nil && (t.sealed == 0 || content != 0) {
		n.content = contentOf(content, tokens)
	}
	c.forget(int(c.ghosts.byKey.find(key(&hash))) - 1)
	if tokens == nil {
		c.log.blank(id)
	}
	c.publish(id, tokens)
}

// adopt replaces a table's own block by one with the same content. If that one
// is in a lower tier, it takes the place of the own one on the device.
func (c *Cache) adopt(t *Table, own, other int32) bool {
	alone := c.tree.nodes[own].refs == 1
	if c.tree.nodes[other].tier != Device && !alone && c.Available() == 0 {
		return false
	}
	c.stats.Deduplicated++
	c.use(other, false)
	switch {
	case c.tree.nodes[other].tier == Device:
		c.unuse(own)
	case alone:
		c.relocate(other, Device, c.tree.nodes[own].slot)
		c.tree.nodes[own] = node{}
		c.tree.freeNodes = append(c.tree.freeNodes, own)
	default:
		slot, _ := c.obtain()
		c.move(other, Device, slot)
		c.unuse(own)
	}
	t.nodes[t.sealed], t.Blocks[t.sealed] = other, c.tree.nodes[other].slot
	return true
}

// Fork makes child a continuation of parent after tokens computed ones. Full
// blocks are shared; if the last one is not full, child gets a copy of it. It
// reports false, and changes nothing, when there is no block for the copy.
func (c *Cache) Fork(parent, child *Table, tokens int, now time.Time) bool {
	c.tick(now)
	full, partial := tokens/c.cfg.BlockTokens, tokens%c.cfg.BlockTokens > 0
	if parent.place == 0 || child.place != 0 || c.BlocksFor(tokens) > len(parent.nodes) ||
		partial && c.Available() == 0 {
		return false
	}
	nodes, blocks, revived := child.nodes[:0], child.Blocks[:0], child.revived.hits[:0]
	*child = *parent
	child.nodes, child.Blocks, child.revived.hits = append(nodes, parent.nodes[:full]...), append(blocks,
		parent.Blocks[:full]...), revived
	child.sealed, child.tokens = min(parent.sealed, full), tokens
	for _, id := range child.nodes {
		if id != 0 {
			c.tree.nodes[id].refs++
		}
	}
	c.enlist(child)
	if partial {
		id, _ := c.newNode()
		child.nodes, child.Blocks = append(child.nodes, id), append(child.Blocks, c.tree.nodes[id].slot)
		c.copies.moves = append(c.copies.moves,
			Move{From: Device, To: Device, FromSlot: parent.Blocks[full], ToSlot: c.tree.nodes[id].slot})
	}
	child.standIn()
	return true
}
