package kv

import (
	"encoding/binary"
	"time"

	"parley"
)

// A Cache decides which block of memory holds which tokens. It is used by one
// goroutine at a time and does nothing on its own.
//
// Methods that take the time expect it not to go back; if it does, they use
// the latest they were given.
type Cache struct {
	cfg    Config
	origin time.Time
	now    int64 // nanoseconds since origin

	nodes     []node  // 0 is unused
	freeNodes []int32 // the last one is taken next
	total     [tiers]int
	free      [tiers][]int32 // free slots; the last one is taken next
	cached    [tiers]int     // sealed blocks not in use
	byHash    index          // sealed nodes
	byContent index          // how many sealed nodes hold the same tokens, whatever their salts
	tables    []*Table
	path      []int32 // scratch: the known prefix of the claim at hand

	spans     []span // 0 is unused
	freeSpans []int32
	order     uint64
	ages      [buckets]list
	cells     [tiers][2]cellSet // [1]: of those over budget
	learn     *learner
	ghosts    ghosts

	tenants, classes ledger
	retained         []int32 // heap of spans, the first to expire on top
	retainedBlocks   int

	copies copies
	moves  []Move
	log    eventLog
	stats  Stats
}

// A node is one block in use or cached.
type node struct {
	hash    parley.BlockHash // of a sealed block
	content uint64           // of the tokens up to its end, without salts; 0 if unknown
	keep    int64            // end of the longest retention asked for
	slot    int32
	copy    int32 // 1 + the disk slot that holds a copy of it; 0 if none
	parent  int32
	refs    int32        // entries in tables
	span    int32        // where it is cached, 0 if it is in use
	kids    [tiers]int32 // sealed children by tier
	tier    Tier
	hits    uint8
	sealed  bool
}

// A Move is a copy of one whole block that must be done before either end is
// used otherwise, and after the moves that were listed before it and share an
// end with it. Hash and Parent name the block, if it is sealed.
type Move struct {
	Hash, Parent     parley.BlockHash
	From, To         Tier
	FromSlot, ToSlot int32
}

// NewCache returns a cache with every block free.
func NewCache(cfg Config) (*Cache, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	c := &Cache{cfg: cfg, learn: newLearner(), total: [tiers]int{cfg.Blocks, cfg.HostBlocks, cfg.DiskBlocks}}
	blocks := cfg.Blocks + cfg.HostBlocks + cfg.DiskBlocks
	c.nodes = make([]node, 1+blocks)
	c.freeNodes = make([]int32, 0, blocks)
	for t := range tiers {
		c.free[t] = make([]int32, 0, c.total[t])
	}
	c.tenants = newLedger(linkTenant, int(cfg.TenantShare*float64(cfg.Blocks)))
	c.classes = newLedger(linkClass, int(cfg.ClassShare*float64(cfg.Blocks)))
	c.copies.owner = make([]int32, cfg.DiskBlocks)
	c.log = newEventLog(cfg, blocks)
	c.reset()
	for id := int32(blocks); id > 0; id-- {
		c.freeNodes = append(c.freeNodes, id)
	}
	for t := range tiers {
		for slot := int32(c.total[t]) - 1; slot >= 0; slot-- {
			c.free[t] = append(c.free[t], slot)
		}
	}
	return c, nil
}

// reset forgets every cached block and ghost, but neither which nodes and slots
// are free nor what was learned: users come back as before.
func (c *Cache) reset() {
	c.byHash = newIndex(len(c.nodes), c.cfg.Seed)
	c.byContent = newIndex(len(c.nodes), c.cfg.Seed)
	c.ghosts = newGhosts(c.cfg.Ghosts, c.cfg.Seed)
	c.spans, c.freeSpans = append(c.spans[:0], span{}), c.freeSpans[:0]
	c.ages, c.cells = [buckets]list{}, [tiers][2]cellSet{}
	c.cached = [tiers]int{}
	c.retained, c.retainedBlocks = c.retained[:0], 0
	c.learn.waiting = [kinds][buckets]float64{}
	c.copies.reset()
	c.tenants.reset()
	c.classes.reset()
}

// tick moves the cache's clock.
func (c *Cache) tick(now time.Time) {
	if c.origin.IsZero() {
		c.origin = now
	}
	if at := int64(now.Sub(c.origin)); at > c.now {
		c.now = at
		c.age()
		c.expire()
	}
}

// Config returns the configuration in force, with defaults filled in.
func (c *Cache) Config() Config { return c.cfg }

// Available returns how many device blocks could be had now: the free ones and
// those that can be evicted.
func (c *Cache) Available() int { return len(c.free[Device]) + c.cached[Device] }

// Moves returns the copies that were decided since the last call. The slice is
// valid until the next operation.
func (c *Cache) Moves() []Move {
	moves := c.moves
	c.moves = c.moves[:0]
	return moves
}

// BlocksFor returns how many blocks hold the given number of tokens.
func (c *Cache) BlocksFor(tokens int) int {
	return (tokens + c.cfg.BlockTokens - 1) / c.cfg.BlockTokens
}

func key(h *parley.BlockHash) uint64 { return binary.LittleEndian.Uint64(h[:8]) }

// lookup returns the node of a hash, or 0.
func (c *Cache) lookup(h *parley.BlockHash) int32 {
	if id := c.byHash.find(key(h)); id != 0 && c.nodes[id].hash == *h {
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
	last := len(c.freeNodes) - 1
	id := c.freeNodes[last]
	c.freeNodes = c.freeNodes[:last]
	c.nodes[id] = node{slot: slot, refs: 1}
	return id, true
}

// freeNode gives a node and its slot back. It is in no span and has no kids.
func (c *Cache) freeNode(id int32) {
	n := &c.nodes[id]
	c.freeCopy(id)
	c.free[n.tier] = append(c.free[n.tier], n.slot)
	*n = node{}
	c.freeNodes = append(c.freeNodes, id)
}

// publish makes a node findable under its hash.
func (c *Cache) publish(id int32, tokens []parley.Token) {
	n := &c.nodes[id]
	n.sealed = true
	c.nodes[n.parent].kids[n.tier]++
	c.byHash.put(key(&n.hash), id)
	if n.content != 0 {
		c.byContent.add(n.content, 1)
	}
	c.log.stored(c, id, tokens)
}

// unpublish removes a node's name, so that lookups no longer find it.
func (c *Cache) unpublish(id int32) {
	n := &c.nodes[id]
	n.sealed = false
	c.nodes[n.parent].kids[n.tier]--
	c.byHash.remove(key(&n.hash))
	if n.content != 0 {
		c.byContent.add(n.content, -1)
	}
	c.log.removed(n.hash, n.tier)
}

// move puts a node into another tier, or another slot of the device.
func (c *Cache) move(id int32, to Tier, slot int32) {
	c.moves = append(c.moves, c.moveOf(id, to, slot))
	c.relocate(id, to, slot)
}

// moveOf returns the copy of a node to another place.
func (c *Cache) moveOf(id int32, to Tier, slot int32) Move {
	n := &c.nodes[id]
	return Move{n.hash, c.nodes[n.parent].hash, n.tier, to, n.slot, slot}
}

// relocate records that a node's content stands elsewhere. Coming up from the
// disk, it leaves a copy there.
func (c *Cache) relocate(id int32, to Tier, slot int32) {
	n := &c.nodes[id]
	if n.tier == Disk {
		c.keepCopy(id, n.slot)
	} else {
		c.free[n.tier] = append(c.free[n.tier], n.slot)
	}
	parent := &c.nodes[n.parent]
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
