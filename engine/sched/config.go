package sched

import (
	"cmp"
	"math"
	"time"

	"parley"
	"parley/engine/kv"
)

// Config bounds the scheduler.
type Config struct {
	// Blocks is the size of the pool.
	Blocks int
	// StepTokens is the most tokens in one pass. At least 1.
	StepTokens int
	// StepOutputs is the most rows of logits in one pass. At least 1.
	StepOutputs int
	// Seqs is the most sequences running at once. At least 1, and at most
	// StepTokens and StepOutputs, so that all of them can write in one pass.
	Seqs int
	// Target is how long a pass with writers in it should take; 0 means any time.
	Target time.Duration
	// Weights share turns between classes; a zero means the class's default:
	// 1 for free, 4 for pro, 16 for enterprise.
	Weights [parley.Classes]float64
	// Reserve is the share, 0 to 1, of the pool and of the seats that only a class
	// itself uses, and of what prompts may take of a pass that it gets before others;
	// the latter is lent to them while the class has no use for it. A share above 0
	// is at least one seat where there are several.
	Reserve [parley.Classes]float64
	// CacheShares is the part, 0 to 1, of the pool that a class may keep cached
	// before it is evicted ahead of others; 0 is what Cache says for all.
	CacheShares [parley.Classes]float64
	// TenantShares is the part, 0 to 1, of the pool that each tenant of a class may keep
	// cached before it is evicted ahead of others; 0 is what Cache says for all.
	TenantShares [parley.Classes]float64
	// Window is how many tokens, itself included, a token looks back on at most in every layer of the model; 0 if
	// that has no bound in some layer.
	Window int
	// Cache says how the pool is shared; its sizes are set from this config.
	Cache kv.Config
	// AgeMax is how long a request waits before it goes ahead of every class, if its
	// own has not its share of the seats; 0 means 30 seconds.
	AgeMax time.Duration
	// BackgroundWait is how long the background goes without a turn before one of
	// its sequences is admitted; 0 means a minute, less than 0 for ever.
	BackgroundWait time.Duration
	// Pace is what an earlier process learned of this model on this machine; the
	// zero value is nothing.
	Pace Pace
	// Baseline turns mechanisms off, for measurements alone.
	Baseline Baseline
}

func (c Config) withDefaults() Config {
	for i, w := range []float64{parley.Free: 1, parley.Pro: 4, parley.Enterprise: 16} {
		c.Weights[i] = cmp.Or(c.Weights[i], w)
	}
	c.AgeMax = cmp.Or(c.AgeMax, ageMaxDefault)
	c.BackgroundWait = cmp.Or(c.BackgroundWait, backgroundWaitDefault)
	c.Cache.Blocks, c.Cache.BlockTokens = c.Blocks, kv.BlockTokens
	c.Cache.WatermarkBlocks = cmp.Or(c.Cache.WatermarkBlocks, c.Blocks/64)
	return c
}

// Fit reports whether the sequence could ever run: in an otherwise empty pool,
// beside what other classes reserve.
func (c *Config) Fit(q *Seq) bool {
	return blocks(q.Most) <= c.Blocks-c.reserved(q.Class) && 1+q.Forks <= c.Seats(q.Class)
}

// reserved returns how many blocks classes other than this one reserve.
func (c *Config) reserved(but parley.Class) (n int) {
	for i, share := range c.Reserve {
		if parley.Class(i) != but {
			n += int(share * float64(c.Blocks))
		}
	}
	return n
}

// reservedSeats returns how many seats only each class itself uses: its share of
// all, at least one if it reserves any. One seat is left for every class, so that
// none is refused for want of a seat.
func (c *Config) reservedSeats() (seats [parley.Classes]int) {
	left := c.Seqs - 1
	for class := parley.Classes - 1; class >= 0; class-- {
		if share := c.Reserve[class]; share > 0 {
			seats[class] = min(left, max(1, int(math.Round(share*float64(c.Seqs)))))
			left -= seats[class]
		}
	}
	return seats
}

// Seats returns how many seats a class can ever have: those that no other class
// reserves.
func (c *Config) Seats(class parley.Class) int {
	n := c.Seqs
	for other, seats := range c.reservedSeats() {
		if parley.Class(other) != class {
			n -= seats
		}
	}
	return n
}

// A Baseline turns mechanisms off, so that a benchmark can say what each is
// worth on the machine at hand. Each is how servers worked before the better
// way was published. The zero value turns nothing off; never serve with another.
type Baseline struct {
	// StaticBatches lets no sequence join those that run: the next batch starts
	// when all of this one have ended.
	StaticBatches bool
	// ReserveWhole takes the memory of the longest answer allowed at admission,
	// not as the answer grows.
	ReserveWhole bool
	// WholePrompts computes a prompt in one pass however long that takes. Where
	// StepTokens is less than the prompt, it is cut there.
	WholePrompts bool
	// NoPrefixCache computes every prompt from its beginning and keeps nothing
	// of it for others.
	NoPrefixCache bool
}

const (
	// chunkMin is how many prompt tokens a pass should compute at least, if any
	// are wanted: one block. For that it may go beyond the target, by
	// trickleFactor; where even that is too little, it computes one token.
	chunkMin      = kv.BlockTokens
	trickleFactor = 1.25
	// chunkBlind is how many it computes beside writers before passes were measured.
	chunkBlind = 4 * kv.BlockTokens
	// targetUse is the share of the target that a pass is planned for; the
	// rest covers what the prediction does not know.
	targetUse = 0.9
	// quietFactor is by how much a pass without writers may be longer: no stream
	// waits for it, but the next request must wait for its end. It may always be
	// quietFixed times as long as what a pass takes whatever is in it, so that at
	// most a twentieth of the time goes there.
	quietFactor   = 8
	quietFixed    = 20
	ageMaxDefault = 30 * time.Second
	// backgroundWaitDefault leaves a busy server to interactive requests, and lets a
	// thousand requests through in a day at the worst.
	backgroundWaitDefault = time.Minute
)
