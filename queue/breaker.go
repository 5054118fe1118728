package queue

import (
	"errors"
	"time"
)

// A BreakerConfig says when work is kept from what fails. The zero value works.
type BreakerConfig struct {
	// Failures in a row, or half of at least Window requests, open it; default
	// 5 and 20.
	Failures, Window int
	// OpenMin is for how long it opens first. Each time that a trial fails this
	// doubles, up to OpenMax; default 1 s and 30 s.
	OpenMin, OpenMax time.Duration
	// Trials is how many requests in a row must succeed to close it; default 2.
	Trials int
	// Off never opens.
	Off bool
}

// Validate reports what is wrong with c.
func (c *BreakerConfig) Validate() error {
	if c.Failures < 0 || c.Window < 0 || c.OpenMin < 0 || c.OpenMax < 0 || c.Trials < 0 {
		return errors.New("a number of the circuit breaker is negative")
	}
	return nil
}

func (c BreakerConfig) withDefaults() BreakerConfig {
	setDefault(&c.Failures, 5)
	setDefault(&c.Window, 20)
	setDefault(&c.OpenMin, time.Second)
	setDefault(&c.OpenMax, 30*time.Second)
	setDefault(&c.Trials, 2)
	return c
}

// A BreakerState is what a [Breaker] lets through.
type BreakerState uint8

// The states of a breaker.
const (
	// Closed lets everything through.
	Closed BreakerState = iota
	// Trying lets one request through at a time, to see whether it succeeds.
	Trying
	// Open lets nothing through.
	Open
)

// String returns the state's name.
func (s BreakerState) String() string { return [...]string{"closed", "trying", "open"}[s] }

// A Breaker keeps work from a worker or a model that fails: what would fail
// anyway is told so at once, and what recovers is not crushed by all that waited
// for it. It is told how each request ended, and only failures that are not the
// request's own fault count.
type Breaker struct {
	cfg   BreakerConfig
	state BreakerState
	// row counts failures in a row, or successes while trying.
	row int
	// recent holds the last outcomes, newest in the lowest bit; known is how many.
	recent uint64
	known  int
	// until is when an open breaker tries, width how long it stays open.
	until time.Time
	width time.Duration
	// trial is true while a request is under way that shows how things are.
	trial bool
}

// NewBreaker makes a closed breaker.
func NewBreaker(cfg BreakerConfig) *Breaker {
	cfg = cfg.withDefaults()
	cfg.Window = min(cfg.Window, 64)
	return &Breaker{cfg: cfg, width: cfg.OpenMin}
}

// State returns what the breaker lets through at now.
func (b *Breaker) State(now time.Time) BreakerState {
	if b.state == Open && !now.Before(b.until) {
		b.state, b.row, b.trial = Trying, 0, false
	}
	return b.state
}

// Retry returns how long the breaker stays open, 0 if it is not.
func (b *Breaker) Retry(now time.Time) time.Duration {
	if b.State(now) != Open {
		return 0
	}
	return b.until.Sub(now)
}

// Ready reports whether a request may go.
func (b *Breaker) Ready(now time.Time) bool {
	switch b.State(now) {
	case Open:
		return false
	case Trying:
		return !b.trial
	}
	return true
}

// Go notes that a request goes; [Breaker.Ready] must have said that it may. The
// caller reports its end with Done or Abandon.
func (b *Breaker) Go(now time.Time) {
	if b.State(now) == Trying {
		b.trial = true
	}
}

// Abandon ends a request that showed nothing, because its client left or it
// was wrong itself.
func (b *Breaker) Abandon() { b.trial = false }

// Done ends a request that showed whether things work.
func (b *Breaker) Done(ok bool, now time.Time) {
	if b.cfg.Off {
		return
	}
	switch b.State(now) {
	case Closed:
		b.count(ok, now)
	case Trying:
		b.try(ok, now)
	}
}

func (b *Breaker) count(ok bool, now time.Time) {
	b.recent <<= 1
	b.known = min(b.known+1, b.cfg.Window)
	if ok {
		b.row = 0
		return
	}
	b.recent |= 1
	b.row++
	failed := 0
	for i := range b.known {
		failed += int(b.recent >> i & 1)
	}
	if b.row >= b.cfg.Failures || b.known == b.cfg.Window && 2*failed >= b.known {
		b.open(now)
	}
}

func (b *Breaker) try(ok bool, now time.Time) {
	b.trial = false
	if !ok {
		b.width = min(2*b.width, b.cfg.OpenMax)
		b.open(now)
		return
	}
	if b.row++; b.row >= b.cfg.Trials {
		*b = Breaker{cfg: b.cfg, width: b.cfg.OpenMin}
	}
}

func (b *Breaker) open(now time.Time) {
	b.state, b.until, b.row, b.recent, b.known = Open, now.Add(b.width), 0, 0, 0
}
