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
	return math.Sqrt(e.Chance*e.Chance + e.Size*e.Size + e.Pace*e.Pace)
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

// Estimated runs count shards of a scenario with different seeds, as many of half the size, and
// as many at twice the pace, and returns what they say about the whole.
func Estimated(sc *Scenario, p Shard, count int, each Each) ([]Estimate, error) {
	if count < countMin || count > countMax {
		return nil, fmt.Errorf("%d shards: want %d to %d", count, countMin, countMax)
	}
	kinds := []Shard{p, {p.Share / 2, p.Pace}, {p.Share, 2 * p.Pace}}
	results, errs := make([]*Result, len(kinds)*count), make([]error, len(kinds)*count)
	each(len(results), func(i int) {
		part, err := kinds[i/count].Of(sc)
		if err == nil {
			part.Seed += uint64(i % count)
			results[i], err = Run(part)
		}
		errs[i] = err
	})
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var out []Estimate
	for _, of := range estimates {
		means, spread := make([]float64, len(kinds)), 0.0
		for k, kind := range kinds {
			for _, r := range results[k*count : (k+1)*count] {
				means[k] += of.of(r, kind) / float64(count)
			}
		}
		for _, r := range results[:count] {
			d := of.of(r, p) - means[0]
			spread += float64(d * d)
		}
		n := float64(count)
		out = append(out, Estimate{
			Name:   of.name,
			Value:  means[0],
			Chance: student[count-1] * math.Sqrt(spread/(n-1)/n),
			Size:   math.Abs(means[1] - means[0]),
			Pace:   math.Abs(means[2] - means[0]),
		})
	}
	return out, nil
}
