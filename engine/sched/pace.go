package sched

import (
	"time"

	"parley/engine/kv"
	"parley/internal/stat"
)

// Work is what makes a pass take time: how many rows it computes, and how many
// earlier positions those rows look back on, added up.
type Work struct {
	Rows     int
	Lookback int
}

// Add returns w with n tokens more of a sequence with the given number of computed tokens.
func (w Work) Add(n, computed int) Work {
	return Work{w.Rows + n, w.Lookback + n*computed + n*(n+1)/2}
}

// A Pace predicts how long a pass takes: a fixed time, a time for each row
// and one for each position looked back on. It learns the three from the
// passes that were measured, and forgets old ones, so that it follows a
// machine whose speed changes. Predictions lean to the long side by the size
// of its recent errors.
//
// The zero value knows nothing and predicts no time at all.
type Pace struct {
	weight [3]float64 // seconds per unit of each feature
	fit    stat.Least
	excess float64 // how far passes took longer than predicted, relatively
	passes int
}

// lookbackUnit scales the third feature to about the size of the others.
const lookbackUnit = 1024

func (w Work) features() [3]float64 {
	return [3]float64{1, float64(w.Rows), float64(w.Lookback) / lookbackUnit}
}

// Known reports whether enough passes were measured to predict one.
func (p *Pace) Known() bool { return p.passes >= 4 }

// Predict returns how long a pass of work w is expected to take.
func (p *Pace) Predict(w Work) time.Duration {
	var seconds float64
	for i, f := range w.features() {
		seconds += float64(f * p.weight[i])
	}
	return time.Duration(seconds * (1 + p.excess) * float64(time.Second))
}

// Price returns how long a pass of work w is expected to take, and how much longer
// with another row like those in it.
func (p *Pace) Price(w Work) (pass, row time.Duration) {
	pass = p.Predict(w)
	return pass, p.Predict(w.Add(1, w.Lookback/max(1, w.Rows))) - pass
}

// Learn takes in a measured pass.
func (p *Pace) Learn(w Work, took time.Duration) {
	p.passes++
	// Errors count relative to the pass, so that long passes do not drown short ones.
	x, scale := w.features(), 1/max(took.Seconds(), 1e-6)
	predicted := 0.0
	for i := range x {
		x[i] *= scale
		predicted += float64(x[i] * p.weight[i])
	}
	p.fit.Add(x)
	p.weight = p.fit.Solve()
	p.excess = max(p.excess*0.98, min(max(1-predicted, 0), 1)*0.5)
	if p.passes <= 4 {
		p.excess = 0
	}
}

// Fit returns the most tokens, up to most, that a sequence with
// computed tokens can add to the work so that the pass is expected to stay
// within the limit.
func (p *Pace) Fit(w Work, computed, most int, limit time.Duration) int {
	low, high := 0, most
	for low < high {
		mid := (low + high + 1) / 2
		if p.Predict(w.Add(mid, computed)) <= limit {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// A copyPace knows how long it takes to copy a block from tier to tier, from
// the copies that were measured.
type copyPace struct {
	block   [kv.Tiers][kv.Tiers]time.Duration // 0: never measured
	planned time.Duration                     // in the present pass
	claims  int
}
