package engine

import (
	"sync"
	"time"

	"parley/engine/kv"
	"parley/engine/sched"
	"parley/engine/spec"
)

// Stats count what an engine has done and is doing.
type Stats struct {
	sched.Load
	// Steps counts passes, StepTokens the tokens computed in them, StepTime
	// how long they took together.
	Steps, StepTokens uint64
	StepTime          time.Duration
	// Ahead counts the passes that were launched before it was known what the pass
	// before has chosen, and Exposed is how long the device waited for the host to plan.
	Ahead   uint64
	Exposed time.Duration
	// Copied counts copies by the tiers they went from and to, Damaged those
	// that could not be made, Repairs how often blocks were not accounted for.
	Copied           [kv.Tiers][kv.Tiers]Copies
	Damaged, Repairs uint64
	// Failures counts passes that went wrong, Pauses how often a request was
	// paused because its client did not read.
	Failures, Pauses uint64
	// Guesses count the tokens that each drafter guessed ahead, DraftTime is how
	// long the draft network took, DraftFailures how often it went wrong.
	Guesses       [spec.Drafters]Guesses
	DraftTime     time.Duration
	DraftFailures uint64
}

// Guesses count what one drafter did.
type Guesses struct {
	// Rounds counts the passes with its guesses in them, for each sequence;
	// Guessed the tokens guessed, and Right those that came true.
	Rounds, Guessed, Right uint64
}

// Copies count the blocks that were copied from one tier to another.
type Copies struct {
	Blocks uint64
	Time   time.Duration
}

// counters are the stats of an engine that runs. The loop writes them, and any goroutine
// may read them.
type counters struct {
	mu    sync.Mutex
	stats Stats
}

// read returns the present counts.
func (c *counters) read() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// load takes in what the scheduler holds.
func (c *counters) load(l sched.Load) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Load = l
}

// step counts a pass over rows tokens.
func (c *counters) step(rows int, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Steps++
	c.stats.StepTokens += uint64(rows)
	c.stats.StepTime += took
}

// landed counts a pass that was launched ahead of the results of another, if it was,
// and how long the device waited for the host to plan it.
func (c *counters) landed(ahead bool, exposed time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ahead {
		c.stats.Ahead++
	}
	c.stats.Exposed += exposed
}

// copied counts copies of one kind.
func (c *counters) copied(from, to kv.Tier, blocks int, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &c.stats.Copied[from][to]
	n.Blocks += uint64(blocks)
	n.Time += took
}

// drafted counts the draft passes before a pass, which ended with err.
func (c *counters) drafted(took time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.DraftTime += took
	if err != nil {
		c.stats.DraftFailures++
	}
}

// guessed counts the guesses of one sequence in a pass.
func (c *counters) guessed(by spec.Drafter, guessed, right int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := &c.stats.Guesses[by]
	g.Rounds++
	g.Guessed += uint64(guessed)
	g.Right += uint64(right)
}

func (c *counters) damaged()  { c.increment(&c.stats.Damaged) }
func (c *counters) repaired() { c.increment(&c.stats.Repairs) }
func (c *counters) failed()   { c.increment(&c.stats.Failures) }
func (c *counters) paused()   { c.increment(&c.stats.Pauses) }

func (c *counters) increment(n *uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}
