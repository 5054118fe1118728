package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// A Runner does things side by side: Each calls do with every number below n, the lower ones first and Width of them
// at a time.
type Runner struct {
	Width int
	Each  func(n int, do func(i int))
}

// parts are the mechanisms of a scaler that are turned off, one row of the table each.
var parts = []mechanism{
	{"as it is", func(*ScaleSpec) {}},
	{"no_forecast", func(s *ScaleSpec) { s.NoForecast = true }},
	{"no_warm_pool", func(s *ScaleSpec) { s.NoWarmPool = true }},
	{"no_forecast, no_warm_pool", func(s *ScaleSpec) { s.NoForecast, s.NoWarmPool = true, true }},
	{"utilisation", func(s *ScaleSpec) { s.Utilisation = true }},
}

// A mechanism is one row of that table.
type mechanism struct {
	name string
	off  func(*ScaleSpec)
}

// change turns the mechanism of a pool off.
func (m *mechanism) change(p *PoolSpec) { m.off(p.Scale) }

// fixed gives a pool as many workers all the time.
func fixed(workers int) func(*PoolSpec) {
	return func(p *PoolSpec) { p.Workers, p.Scale = workers, nil }
}

// knowing gives a pool the clairvoyant scaler.
func knowing(serve float64) func(*PoolSpec) {
	return func(p *PoolSpec) { p.Scale.Clairvoyant = serve }
}

// trying gives a pool the clairvoyant scaler for as long as it may still meet the objectives.
func trying(serve float64) func(*PoolSpec) {
	return func(p *PoolSpec) { p.Scale.Clairvoyant, p.Scale.onlyWhether = serve, true }
}

// changed returns the scenario with its pool changed.
func (sc *Scenario) changed(change func(*PoolSpec)) *Scenario {
	other := *sc
	pool := sc.Pools[0]
	spec := *pool.Scale
	pool.Scale = &spec
	change(&pool)
	other.Pools = []PoolSpec{pool}
	return &other
}

// A Shard is the part of a scenario that is simulated, where the whole would take too long.
type Shard struct {
	// Share is the part of the users and of the workers: a fleet of thousands behaves as many
	// smaller ones do, if these are not too small.
	Share float64
	// Pace is how many times as fast the load changes over time. Requests take as long as they
	// do, and workers start as slowly; so it is harder for a scaler.
	Pace float64
}

// Validate reports whether the shard is one.
func (p Shard) Validate() error {
	if !(p.Share > 0 && p.Share <= 1) || !(p.Pace >= 1 && p.Pace <= 1000) {
		return fmt.Errorf("a share of %g at a pace of %g: want more than 0 and at most 1, and 1 to 1000", p.Share,
			p.Pace)
	}
	return nil
}

// Of returns the part of a scenario, which is not changed.
func (p Shard) Of(sc *Scenario) (*Scenario, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	out := *sc
	if p == Whole.Shard { // a trace cannot be divided, but it can be replayed
		return &out, nil
	}
	out.Duration, out.Window = p.sooner(sc.Duration), max(time.Second, p.sooner(sc.Window))
	out.Pools, out.Traffic, out.Events = slices.Clone(sc.Pools), slices.Clone(sc.Traffic), slices.Clone(sc.Events)
	for i := range out.Pools {
		pool := &out.Pools[i]
		pool.Workers = p.some(pool.Workers)
		pool.QueueDepth = p.some(pool.QueueDepth)
		pool.Scale = p.ofScale(pool.Scale)
		if pool.Prefill != nil {
			pool.Prefill = &PrefillSpec{p.some(pool.Prefill.Workers), p.ofScale(pool.Prefill.Scale)}
		}
	}
	for i := range out.Traffic {
		if err := p.ofTraffic(&out.Traffic[i]); err != nil {
			return nil, err
		}
	}
	for i := range out.Events {
		e := &out.Events[i]
		e.At, e.Lose, e.Start = p.sooner(e.At), p.some(e.Lose), p.some(e.Start)
	}
	return &out, out.Validate()
}

func (p Shard) ofScale(s *ScaleSpec) *ScaleSpec {
	if s == nil {
		return nil
	}
	out := *s
	out.Min, out.Max, out.Budget = p.some(s.Min), p.some(s.Max), s.Budget*p.Share
	out.Day = p.sooner(cmp.Or(s.Day, 24*time.Hour))
	out.History = p.sooner(s.History)
	return &out
}

func (p Shard) ofTraffic(t *TrafficSpec) error {
	if t.Replay != nil {
		return fmt.Errorf("traffic %s replays a trace, which cannot be divided: use a rate or a day", t.Name)
	}
	if t.Limits != nil && float64(t.Tenants)*p.Share < 1 {
		return fmt.Errorf("traffic %s has %d organisations with limits, of which a share of %g is less than one: use "+
			"a larger share", t.Name, t.Tenants, p.Share)
	}
	t.Tenants, t.Groups = p.some(t.Tenants), p.some(t.Groups)
	t.Stamped, t.StampedUntil = p.sooner(t.Stamped), p.sooner(t.StampedUntil)
	t.Rate = slices.Clone(t.Rate)
	for i := range t.Rate {
		t.Rate[i].At, t.Rate[i].PerSecond = p.sooner(t.Rate[i].At), t.Rate[i].PerSecond*p.Share
	}
	if t.RateFile != nil {
		f := *t.RateFile
		f.Scale, f.Speed = f.Scale*p.Share, f.Speed*p.Pace
		t.RateFile = &f
	}
	if t.Day != nil {
		d := *t.Day
		d.Trough, d.Peak, d.Mean = d.Trough*p.Share, d.Peak*p.Share, d.Mean*p.Share
		d.PeakAt, d.Length = p.sooner(d.PeakAt), p.sooner(d.Length)
		t.Day = &d
	}
	return nil
}

// some returns the share of a number, at least one of any.
func (p Shard) some(n int) int {
	if n == 0 {
		return 0
	}
	return max(1, int(math.Round(float64(n)*p.Share)))
}

func (p Shard) sooner(d time.Duration) time.Duration {
	return time.Duration(math.Round(float64(d) / p.Pace))
}

// A Sampling is how a scenario is estimated: by Count shards with different seeds.
type Sampling struct {
	Shard
	Count int
}

// Whole is a scenario itself, whose figures have no error.
var Whole = Sampling{Shard{1, 1}, 1}
