package queue

import (
	"errors"
	"fmt"
	"time"

	"parley"
)

// A Config says how long the queue may get, and for whom. The zero value works.
type Config struct {
	// Tiers are the bounds of each class.
	Tiers [parley.Classes]Tier
	// DepthMax bounds the entries that wait, of all tiers together; default 1024.
	DepthMax int
	// Hold is for how long workers may hold work that they have not begun;
	// default 100 ms, about a pass.
	Hold time.Duration
	// TokenMax is the time between two tokens beyond which those that are written
	// are not to be slowed by more; default 50 ms. Where the workers are slower by
	// themselves it is twice what they take when little is asked of them.
	TokenMax time.Duration
	// PersonWaitMax bounds how long an entry of a person may wait; default 10 min.
	PersonWaitMax time.Duration
	// RetryMax bounds the time that those rejected are told; default 60 s,
	// the longest that clients obey.
	RetryMax time.Duration
	// Shed says when a share of what comes is rejected.
	Shed Shed
}

// A Tier is what a class of requests gets.
type Tier struct {
	// Weight is its share of the service beside other tiers that wait; default 1,
	// 4 and 16 for free, pro and enterprise.
	Weight float64
	// DepthMax bounds its waiting entries; default half of all for free, three
	// quarters for pro, and all for enterprise.
	DepthMax int
	// WaitMax bounds how long an entry may wait; default 60 s.
	WaitMax time.Duration
}

const (
	depthDefault  = 1024
	holdDefault   = 100 * time.Millisecond
	tokenDefault  = 50 * time.Millisecond
	retryDefault  = 60 * time.Second
	waitDefault   = 60 * time.Second
	personDefault = 10 * time.Minute
	retryMin      = time.Second
)

// Validate reports everything that is wrong with c, joined into one error.
func (c *Config) Validate() error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for class, t := range c.Tiers {
		name := parley.Class(class)
		if !(t.Weight >= 0 && t.Weight <= 1e6) {
			wrong("the weight of tier %s is %g: it must be 0 (default) to 1000000", name, t.Weight)
		}
		if t.DepthMax < 0 || t.WaitMax < 0 {
			wrong("the depth of tier %s is %d and its longest wait %v: neither may be negative", name, t.DepthMax,
				t.WaitMax)
		}
	}
	if min(c.Hold, c.TokenMax, c.RetryMax, c.PersonWaitMax) < 0 || c.DepthMax < 0 {
		wrong("DepthMax is %d, Hold %v, TokenMax %v, RetryMax %v and PersonWaitMax %v: none may be negative",
			c.DepthMax, c.Hold, c.TokenMax, c.RetryMax, c.PersonWaitMax)
	}
	s := c.Shed.withDefaults()
	if s.Stop < 0 || s.Stop >= s.Start {
		wrong("shedding starts at a wait of %v and stops at %v: the latter must be shorter", s.Start, s.Stop)
	}
	return errors.Join(problems...)
}

// WithDefaults returns c with defaults in place of zeros.
func (c Config) WithDefaults() Config {
	setDefault(&c.DepthMax, depthDefault)
	setDefault(&c.Hold, holdDefault)
	setDefault(&c.TokenMax, tokenDefault)
	setDefault(&c.RetryMax, retryDefault)
	setDefault(&c.PersonWaitMax, personDefault)
	weights := [parley.Classes]float64{parley.Free: 1, parley.Pro: 4, parley.Enterprise: 16}
	depths := [parley.Classes]int{parley.Free: max(1, c.DepthMax/2), parley.Pro: max(1, c.DepthMax*3/4),
		parley.Enterprise: c.DepthMax}
	for class := range c.Tiers {
		t := &c.Tiers[class]
		setDefault(&t.Weight, weights[class])
		setDefault(&t.DepthMax, depths[class])
		setDefault(&t.WaitMax, waitDefault)
	}
	c.Shed = c.Shed.withDefaults()
	return c
}
