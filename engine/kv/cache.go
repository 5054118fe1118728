package kv

import (
	"time"

	"parley/internal/largepage"
)

// NewCache returns a cache with every block free.
func NewCache(cfg Config) (*Cache, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	c := &Cache{cfg: cfg, learn: newLearner()}
	c.slots.total = [tiers]int{cfg.Blocks, cfg.HostBlocks, cfg.DiskBlocks}
	blocks := cfg.Blocks + cfg.HostBlocks + cfg.DiskBlocks
	c.tree.nodes = make([]node, 1+blocks)
	largepage.Ask(c.tree.nodes)
	c.tree.freeNodes = make([]int32, 0, blocks)
	for t := range tiers {
		c.slots.free[t] = make([]int32, 0, c.slots.total[t])
	}
	c.accounts.tenants = newLedger(linkTenant, int(cfg.TenantShare*float64(cfg.Blocks)))
	c.accounts.classes = newLedger(linkClass, int(cfg.ClassShare*float64(cfg.Blocks)))
	c.copies.owner = make([]int32, cfg.DiskBlocks)
	c.log = newEventLog(cfg, blocks)
	c.reset()
	for id := int32(blocks); id > 0; id-- {
		c.tree.freeNodes = append(c.tree.freeNodes, id)
	}
	for t := range tiers {
		for slot := int32(c.slots.total[t]) - 1; slot >= 0; slot-- {
			c.slots.free[t] = append(c.slots.free[t], slot)
		}
	}
	return c, nil
}

// reset forgets every cached block and ghost, but neither which nodes and slots
// are free nor what was learned: users come back as before.
func (c *Cache) reset() {
	c.tree.byHash = newIndex(len(c.tree.nodes), c.cfg.Seed)
	contents := len(c.tree.nodes)
	if c.cfg.NoTokens {
		contents = 0
	}
	c.tree.byContent = newIndex(contents, c.cfg.Seed)
	c.ghosts = newGhosts(c.cfg.Ghosts, c.cfg.Seed)
	c.cached.spans, c.cached.freeSpans = append(c.cached.spans[:0], span{}), c.cached.freeSpans[:0]
	c.cached.ages, c.cached.cells = [buckets]list{}, [tiers][2]cellSet{}
	c.cached.aging, c.cached.agingFirst = [buckets]int64{}, 0
	c.slots.cached = [tiers]int{}
	c.cached.retained, c.cached.retainedBlocks = c.cached.retained[:0], 0
	c.learn.waiting = [kinds][buckets]float64{}
	c.copies.reset()
	c.accounts.tenants.reset()
	c.accounts.classes.reset()
}

// tick moves the cache's clock.
func (c *Cache) tick(now time.Time) {
	if c.clock.origin.IsZero() {
		c.clock.origin = now
	}
	if at := int64(now.Sub(c.clock.origin)); at > c.clock.now {
		c.clock.now = at
		c.age()
		c.expire()
	}
}

// Config returns the configuration in force, with defaults filled in.
func (c *Cache) Config() Config { return c.cfg }

// Available returns how many device blocks could be had now: the free ones and
// those that can be evicted.
func (c *Cache) Available() int { return len(c.slots.free[Device]) + c.slots.cached[Device] }

// Moves returns the copies that were decided since the last call. The slice is
// valid until the next operation.
func (c *Cache) Moves() []Move {
	moves := c.copies.moves
	c.copies.moves = c.copies.moves[:0]
	return moves
}

// BlocksFor returns how many blocks hold the given number of tokens.
func (c *Cache) BlocksFor(tokens int) int {
	return (tokens + c.cfg.BlockTokens - 1) / c.cfg.BlockTokens
}
