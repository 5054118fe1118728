package scale

import (
	"time"

	"parley/internal/exactmath"
)

// A capacity is how many requests a worker is believed to serve in a second. With
// requests that wait it is seen. Without, workers may be able to do more than they are
// given, and a scaler that never tries would pay for them for ever: so more is believed of
// them little by little, as long as they are near what is believed and no request waits;
// the slower, the less time has passed since as much was too much.
type capacity struct {
	each float64
	// limit is what was served when requests last waited, 0 if they never did, and calm
	// the seconds since.
	limit, calm float64
	// unknown says that each is nothing but the most that was seen: the config says no rate, and
	// requests never waited.
	unknown bool
}

const (
	// fullMemory is how long what full workers serve is averaged over.
	fullMemory = time.Minute
	// tryMore is by how much more is believed after the steady time, and calmParts after
	// how many of them a limit is forgotten.
	tryMore   = 0.05
	calmParts = 60
	// near is the share of what is believed from which on it is worth trying more.
	near = 0.6
)

// learn takes in the rates at which each worker began requests and was sent them, and of these what it
// served lately without doubt. That is believed at once: an average with what was believed before
// would be too low for as long as more and more comes.
func (c *capacity) learn(begun, sent, served float64, cfg *Config, state *State, since float64) {
	gain := 1 - exactmath.Exp(-since/cfg.within(fullMemory).Seconds())
	steady := max(1, cfg.Steady.Seconds())
	// An estimate of the wait may be wrong; so the queue must have what comes in a quarter of the aim.
	some := float64(state.Queued) >= begun*float64(state.Ready)*cfg.Wait.Seconds()/4
	waiting := state.Queued > 0 && state.Wait > cfg.Wait/4 && some
	switch {
	case waiting && state.Wait > cfg.Wait:
		c.each += float64((begun - c.each) * gain)
		c.limit, c.calm, c.unknown = c.each, 0, false
	case waiting:
		c.each += float64((min(begun, c.each) - c.each) * gain)
		c.limit, c.calm, c.unknown = c.each, 0, false
	case c.unknown && sent*(1+cfg.Spare) > c.each:
		c.each = sent * (1 + cfg.Spare) // as long as these serve what comes, no more of them are wanted
	case sent > c.each:
		c.each = max(served, c.each+float64((sent-c.each)*gain))
	case sent > max(near, state.KV/cfg.KV)*c.each: // and memory is not nearer to its limit
		step := tryMore
		if c.limit > 0 && c.each >= c.limit {
			step *= min(1, c.calm/steady/calmParts)
		}
		c.each *= exactmath.Exp(step * since / steady)
		c.calm += since
	}
	c.each = max(c.each, 1e-6)
}
