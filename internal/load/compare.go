package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"parley"
	"parley/internal/stat"
)

// A Change says how one number differs between two runs. Ratio is B over A,
// and in 95 of 100 repetitions of both runs it would lie between Low and High,
// as far as the runs themselves can tell.
type Change struct {
	Metric string `json:"metric"`
	// Unit is ms, 1/s or share.
	Unit string `json:"unit"`
	// HigherIsBetter is false of times.
	HigherIsBetter bool    `json:"higher_is_better"`
	A              float64 `json:"a"`
	B              float64 `json:"b"`
	Ratio          float64 `json:"ratio"`
	Low            float64 `json:"low"`
	High           float64 `json:"high"`
}

// A Significance says in a word what a change means.
type Significance string

// The verdicts. A change is unclear if its interval has room for no change.
const (
	Better  Significance = "better"
	Worse   Significance = "worse"
	Unclear Significance = "no clear difference"
)

// Verdict says whether B is better than A.
func (c *Change) Verdict() Significance {
	switch {
	case c.Low <= 1 && c.High >= 1:
		return Unclear
	case (c.Low > 1) == c.HigherIsBetter:
		return Better
	}
	return Worse
}

// Compare returns the changes from a to b. Intervals come from the bootstrap:
// both runs are drawn again many times from their own samples, requests for
// latencies and shares, and slices of time for rates, as neighbouring requests
// are not independent samples of throughput. Left out are metrics that one of
// the runs does not have, and percentiles with fewer than five samples beyond
// them, about which the bootstrap knows nothing: p99 takes 500 requests.
func Compare(a, b *Report, seed uint64) (changes []Change) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, m := range timeMetrics {
		changes = append(changes, m.compare(a, b, rng)...)
	}
	for _, m := range rateMetrics {
		changes = appendChange(changes, Change{Metric: m.name, Unit: "1/s", HigherIsBetter: true},
			slicesOf(a, m.amount), slicesOf(b, m.amount), rng)
	}
	return appendChange(changes, Change{Metric: "SLO met", Unit: "share", HigherIsBetter: true}, metOf(a), metOf(b),
		rng)
}

// beyondMin is how many samples must lie beyond a percentile.
const beyondMin = 5

const (
	resamplesMax  = 2000
	resamplesMin  = 200
	resampleDraws = 200_000_000 // in all, so that large runs do not take minutes
	sliceCount    = 50
)

func resamplesFor(n int) int {
	return min(max(resampleDraws/max(n, 1), resamplesMin), resamplesMax)
}

// timeMetrics are compared at several percentiles.
var timeMetrics = []timeMetric{
	{"TTFT", ttftOf, []float64{0.50, 0.90, 0.99}},
	{"TPOT", tpotOf, []float64{0.50, 0.90, 0.99}},
	{"longest gap", gapOf, []float64{0.50, 0.99}},
	{"total", totalOf, []float64{0.50, 0.90, 0.99}},
}

type timeMetric struct {
	name   string
	of     func(*Record) (Millis, bool)
	shares []float64
}

func (m *timeMetric) compare(a, b *Report, rng *rand.Rand) (changes []Change) {
	left, right := samples(a.Samples, m.of), samples(b.Samples, m.of)
	shares := slices.DeleteFunc(slices.Clone(m.shares), func(p float64) bool {
		return (1-p)*float64(min(len(left), len(right))) < beyondMin-1e-9
	})
	ratios := make([][]float64, len(shares))
	for range resamplesFor(len(left) + len(right)) {
		x, y := drawnPercentiles(left, shares, rng), drawnPercentiles(right, shares, rng)
		for i := range shares {
			ratios[i] = append(ratios[i], y[i]/x[i])
		}
	}
	for i, p := range shares {
		c := Change{
			Metric: fmt.Sprintf("%s p%.0f", m.name, 100*p), Unit: "ms",
			A: milliseconds(left[stat.Rank(p, len(left))]), B: milliseconds(right[stat.Rank(p, len(right))]),
		}
		if c.settle(ratios[i]) {
			changes = append(changes, c)
		}
	}
	return changes
}

func milliseconds(m Millis) float64 { return float64(m) / float64(time.Millisecond) }

// drawnPercentiles draws as many samples as there are, with replacement, and
// returns their percentiles. Shares must ascend.
func drawnPercentiles(sorted []Millis, shares []float64, rng *rand.Rand) []float64 {
	counts := make([]int32, len(sorted))
	for range sorted {
		counts[rng.IntN(len(sorted))]++
	}
	out := make([]float64, 0, len(shares))
	seen := 0
	for i, n := range counts {
		seen += int(n)
		for len(out) < len(shares) && seen > stat.Rank(shares[len(out)], len(sorted)) {
			out = append(out, float64(sorted[i]))
		}
	}
	return out
}

// settle sets the ratio and its interval. It reports false if there is none,
// because a number is zero.
func (c *Change) settle(ratios []float64) bool {
	c.Ratio = c.B / c.A
	interval, ok := stat.Middle(ratios, 0.95)
	if !ok || math.IsNaN(c.Ratio) || math.IsInf(c.Ratio, 0) {
		return false
	}
	c.Low, c.High = interval.Low, interval.High
	return true
}

// appendChange compares the means of two lists of values.
func appendChange(changes []Change, c Change, a, b []float64, rng *rand.Rand) []Change {
	if len(a) == 0 || len(b) == 0 {
		return changes
	}
	c.A, c.B = mean(a), mean(b)
	ratios := make([]float64, resamplesFor(len(a)+len(b)))
	for i := range ratios {
		x := drawnMean(a, rng)
		ratios[i] = drawnMean(b, rng) / x
	}
	if c.settle(ratios) {
		changes = append(changes, c)
	}
	return changes
}

func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func drawnMean(values []float64, rng *rand.Rand) float64 {
	var sum float64
	for range values {
		sum += values[rng.IntN(len(values))]
	}
	return sum / float64(len(values))
}

// rateMetrics are amounts that completed requests add to the time they took.
var rateMetrics = []struct {
	name   string
	amount func(*Record) float64
}{
	{"output tokens", func(r *Record) float64 { return float64(r.OutputTokens) }},
	{"requests", func(*Record) float64 { return 1 }},
}

// slicesOf cuts the run into slices of time and returns the rate in each. What
// a request adds is spread over the time from its first text to its end.
func slicesOf(r *Report, amount func(*Record) float64) []float64 {
	out := make([]float64, sliceCount)
	width := float64(r.Elapsed) / sliceCount
	for i := range r.Samples {
		s := &r.Samples[i]
		if s.Outcome != Completed {
			continue
		}
		spread(out, float64(s.Intended+s.TTFT)/width, float64(s.end())/width, amount(s)/width*float64(time.Second))
	}
	return out
}

// spread adds amount evenly to the slices from begin to end.
func spread(out []float64, begin, end, amount float64) {
	last := float64(len(out))
	end = min(max(end, 0), last)
	begin = min(max(begin, 0), end)
	if end-begin < 1e-9 {
		out[min(int(end), len(out)-1)] += amount
		return
	}
	for i := int(begin); i < len(out) && float64(i) < end; i++ {
		part := min(end, float64(i+1)) - max(begin, float64(i))
		out[i] += amount * part / (end - begin)
	}
}

// metOf returns 1 for each request that met its run's objectives and 0 for
// each other one.
func metOf(r *Report) (out []float64) {
	slo := parley.SLO{TTFT: time.Duration(r.SLO.TTFT), CachedTTFT: time.Duration(r.SLO.CachedTTFT),
		TPOT: time.Duration(r.SLO.TPOT)}
	for i := range r.Samples {
		switch s := &r.Samples[i]; {
		case s.Outcome == Unfinished:
		case s.met(&slo):
			out = append(out, 1)
		default:
			out = append(out, 0)
		}
	}
	return out
}
