package kv

import (
	"errors"
	"fmt"
	"time"
)

// A Policy says which cached block is evicted first.
type Policy uint8

const (
	// Learned evicts what is least likely to be used soon, as observed. The default.
	Learned Policy = iota
	// LRU evicts what was used least recently.
	LRU
)

// A Tier is a kind of memory, the fastest first.
type Tier uint8

// The tiers. Sequences compute on the device alone.
const (
	Device Tier = iota
	Host
	Disk
	tiers

	// Tiers is how many there are.
	Tiers = int(tiers)
)

// String returns the tier's name in the words of vLLM's block events.
func (t Tier) String() string { return [...]string{"GPU", "CPU", "STORAGE", "?"}[min(t, tiers)] }

// A Config says how much memory there is and how it is shared. Only Blocks
// must be set.
type Config struct {
	// Blocks is the number of blocks on the device. At least 1.
	Blocks int
	// HostBlocks and DiskBlocks are the sizes of the lower tiers; 0 means none.
	HostBlocks, DiskBlocks int
	// BlockTokens is the number of tokens in a block; 0 means 16.
	BlockTokens int
	// Policy orders evictions.
	Policy Policy
	// WatermarkBlocks is how many blocks an admission must leave to be had, so
	// that running sequences can grow. It does not bind when nothing runs.
	WatermarkBlocks int
	// TenantShare is the part of the device's blocks a tenant may keep cached
	// before it is evicted first; 0 means one half. ClassShare is the same for
	// a class of service; 0 means all of it. Both at most 1.
	TenantShare, ClassShare float64
	// RetainShare is the part of the device's blocks that retention may hold,
	// 0 means one quarter; RetainMax the longest retention, 0 means 1 hour.
	RetainShare float64
	RetainMax   time.Duration
	// Ghosts is how many evicted blocks are remembered, to learn from and to
	// explain misses; 0 means 8 for each block, but at most a million. Each
	// costs about 50 bytes.
	Ghosts int
	// Events is how many events are kept for replay; 0 keeps none and costs nothing.
	Events int
	// NoTokens keeps nothing of the tokens of blocks, which costs memory: events come
	// without them, and [MissOtherSalt] is not told from [MissNew].
	NoTokens bool
	// Seed mixes the hash tables, so that an attacker cannot aim at one entry.
	// It should be random in production; results do not depend on it.
	Seed uint64
}

// BlockTokens is the number of tokens in a block where nothing else is said. It is
// what backends compute with; the engine checks that at compile time.
const BlockTokens = 16

const (
	ghostsPerBlock = 8
	ghostsMost     = 1 << 20
	blocksMost     = 1 << 30
)

// withDefaults returns the config with every zero that has a meaning replaced.
func (c Config) withDefaults() Config {
	set := func(v *float64, to float64) {
		if *v == 0 {
			*v = to
		}
	}
	set(&c.TenantShare, 0.5)
	set(&c.ClassShare, 1)
	set(&c.RetainShare, 0.25)
	if c.BlockTokens == 0 {
		c.BlockTokens = BlockTokens
	}
	if c.RetainMax == 0 {
		c.RetainMax = time.Hour
	}
	if c.Ghosts == 0 {
		c.Ghosts = min(ghostsPerBlock*c.Blocks, ghostsMost)
	}
	return c
}

// Validate reports every field that is out of its limits.
func (c *Config) Validate() error {
	var problems []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Errorf("kv: "+format, args...))
		}
	}
	bad(c.Blocks < 1 || c.Blocks > blocksMost, "%d blocks, expected 1 to %d", c.Blocks, blocksMost)
	bad(c.HostBlocks < 0 || c.HostBlocks > blocksMost, "%d host blocks, want 0 to %d", c.HostBlocks, blocksMost)
	bad(c.DiskBlocks < 0 || c.DiskBlocks > blocksMost, "%d disk blocks, want 0 to %d", c.DiskBlocks, blocksMost)
	bad(c.BlockTokens < 0, "blocks of %d tokens, want 1 or more, or 0 for %d", c.BlockTokens, BlockTokens)
	bad(c.Policy > LRU, "policy %d is unknown", c.Policy)
	bad(c.WatermarkBlocks < 0 || c.WatermarkBlocks >= max(c.Blocks, 1),
		"a watermark of %d blocks, want less than the %d there are", c.WatermarkBlocks, c.Blocks)
	for _, s := range []struct {
		name  string
		share float64
	}{{"organisation", c.TenantShare}, {"class", c.ClassShare}, {"retain", c.RetainShare}} {
		bad(!(s.share >= 0 && s.share <= 1), "%s share: %g, want 0 to 1", s.name, s.share)
	}
	bad(c.RetainMax < 0, "a longest retention of %s, want 0 or more", c.RetainMax)
	bad(c.Ghosts < 0 || c.Ghosts > blocksMost, "%d ghosts, want 0 to %d", c.Ghosts, blocksMost)
	bad(c.Events < 0 || c.Events > blocksMost, "%d events kept, want 0 to %d", c.Events, blocksMost)
	return errors.Join(problems...)
}
