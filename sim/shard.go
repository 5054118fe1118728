package sim

import (
	"errors"
	"fmt"
	"math"
)

// An Estimate is a figure of the whole scenario, from shards of it.
type Estimate struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	// Chance is half the interval of 95 % for the mean of the shards. Size and Pace are by
	// how much the figure changes with shards of half the size, and at twice the pace.
	Chance float64 `json:"chance"`
	Size   float64 `json:"size"`
	Pace   float64 `json:"pace"`
}

// Off returns what the value may be off by, all told.
func (e *Estimate) Off() float64 {
	return math.Sqrt(float64(e.Chance*e.Chance) + float64(e.Size*e.Size) + float64(e.Pace*e.Pace))
}

// estimates are what is estimated: of the whole, so what counts in requests or workers is
// divided by the share, and what counts over the day multiplied by the pace.
var estimates = []struct {
	name string
	of   func(r *Result, p Shard) float64
}{
	{"requests", func(r *Result, p Shard) float64 { return float64(r.Total.Arrived) / p.Share * p.Pace }},
	{"within objectives, %", func(r *Result, _ Shard) float64 { return 100 * r.Total.Attainment }},
	{"TTFT p50, ms", func(r *Result, _ Shard) float64 { return 1e3 * r.Total.TTFT.P50 }},
	{"TTFT p95, ms", func(r *Result, _ Shard) float64 { return 1e3 * r.Total.TTFT.P95 }},
	{"TPOT p50, ms", func(r *Result, _ Shard) float64 { return 1e3 * r.Total.TPOT.P50 }},
	{"TPOT p95, ms", func(r *Result, _ Shard) float64 { return 1e3 * r.Total.TPOT.P95 }},
	{"prompt tokens cached, %", func(r *Result, _ Shard) float64 { return 100 * r.Total.HitRate }},
	{"KV memory in use, %", func(r *Result, _ Shard) float64 { return 100 * r.Fleet.KV }},
	{"requests running", func(r *Result, p Shard) float64 { return r.Fleet.Running / p.Share }},
	{"replicas", func(r *Result, p Shard) float64 { return r.Fleet.Count / p.Share }},
	{"most replicas", func(r *Result, p Shard) float64 {
		most := 0.0
		for i := range r.Rows {
			most = max(most, r.Rows[i].Ready)
		}
		return most / p.Share
	}},
	{"cost, $", func(r *Result, p Shard) float64 { return r.Fleet.Dollars / p.Share * p.Pace }},
}

// student is the quantile of Student's t for an interval of 95 %, by degrees of freedom.
var student = []float64{0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23}

// countMin and countMax are of shards.
const countMin, countMax = 2, 11

// kinds are the shards that are simulated: those of the sample, of half the size, and at twice the pace.
func (s Sampling) kinds() []Shard {
	if s == Whole {
		return []Shard{s.Shard}
	}
	return []Shard{s.Shard, {s.Share / 2, s.Pace}, {s.Share, 2 * s.Pace}}
}

// validate reports whether an error can be stated.
func (s Sampling) validate() error {
	if s == Whole {
		return nil
	}
	if s.Count < countMin || s.Count > countMax {
		return fmt.Errorf("%d shards: want %d to %d", s.Count, countMin, countMax)
	}
	return s.Validate()
}

// estimate returns a figure with its errors, from its value in each shard of each kind.
func (s Sampling) estimate(name string, value func(kind, shard int) float64) Estimate {
	kinds, n := len(s.kinds()), float64(s.Count)
	means, spread := make([]float64, kinds), 0.0
	for k := range kinds {
		for i := range s.Count {
			means[k] += value(k, i) / n
		}
	}
	e := Estimate{Name: name, Value: means[0]}
	if s == Whole {
		return e
	}
	for i := range s.Count {
		d := value(0, i) - means[0]
		spread += float64(d * d)
	}
	e.Chance = student[s.Count-1] * math.Sqrt(spread/(n-1)/n)
	e.Size, e.Pace = math.Abs(means[1]-means[0]), math.Abs(means[2]-means[0])
	return e
}

// A trial is one run of a shard, with a seed of its own and its pool changed, if change is not nil.
type trial struct {
	shard  Shard
	seed   int
	change func(*PoolSpec)
}

// trials are the runs of all shards of the sample of some kinds, kind by kind.
func (s Sampling) trials(kinds []Shard, change func(*PoolSpec)) (out []trial) {
	for _, kind := range kinds {
		for i := range s.Count {
			out = append(out, trial{kind, i, change})
		}
	}
	return out
}

// runAll simulates shards of a scenario.
func runAll(sc *Scenario, trials []trial, runner Runner) ([]*Result, error) {
	results, errs := make([]*Result, len(trials)), make([]error, len(trials))
	runner.Each(len(trials), func(i int) {
		results[i], errs[i] = trials[i].shard.run(sc, trials[i].seed, trials[i].change)
	})
	return results, errors.Join(errs...)
}

// run simulates one shard, with a seed of its own and its pool changed, if change is not nil.
func (p Shard) run(sc *Scenario, seed int, change func(*PoolSpec)) (*Result, error) {
	part, err := p.Of(sc)
	if err != nil {
		return nil, err
	}
	part.Seed += uint64(seed)
	if change != nil {
		part = part.changed(change)
	}
	return Run(part)
}

// Estimated runs the shards of a sample of a scenario, as many of half the size, and as many at twice the
// pace, and returns what they say about the whole.
func Estimated(sc *Scenario, by Sampling, runner Runner) (out []Estimate, err error) {
	if err := by.validate(); err != nil {
		return nil, err
	}
	kinds := by.kinds()
	results, err := runAll(sc, by.trials(kinds, nil), runner)
	if err != nil {
		return nil, err
	}
	for _, of := range estimates {
		out = append(out, by.estimate(of.name, func(k, i int) float64 {
			return of.of(results[k*by.Count+i], kinds[k])
		}))
	}
	return out, nil
}
