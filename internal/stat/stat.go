// Package stat has the few statistics by which measurements are judged.
//
// Two programs on one machine are compared in rounds: A, B, A, B, and so on. What
// disturbs the machine for a while disturbs both sides of a round, so a round's
// ratio ([Ratios]) says more than either number, and the median over rounds is
// not moved by a few that went wrong. How far the median may be trusted is told
// by order statistics ([MedianInterval]): that needs no assumption about how
// measurements are distributed, and is right for five rounds as for five
// hundred. Where there are hundreds of samples, as of requests, the bootstrap
// serves better; [Middle] reads its interval off the estimates.
//
// Nothing here reads a clock or draws a number by itself.
package stat

import (
	"fmt"
	"math"
	"slices"
)

// Rank returns the index of the smallest of n sorted values that at least the
// share p of them does not exceed. The small number keeps a product such as
// 0.9*10 from being rounded to just above 9.
func Rank(p float64, n int) int {
	return min(max(int(math.Ceil(float64(p*float64(n))-1e-9))-1, 0), n-1)
}

// Median returns the middle of the values, or the mean of the two in the
// middle. It is NaN of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// An Interval is where a number lies with the probability Coverage.
type Interval struct {
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Coverage float64 `json:"coverage"`
}

// MedianInterval returns the narrowest interval between two of the values that
// holds the median of what they were drawn from with at least the wanted
// probability. If there are too few values for that, it is the interval from
// the least to the greatest, and Coverage says how little that is worth: five
// values give 0.9375, two give 0.5. It is NaN to NaN, with no coverage, of none.
func MedianInterval(values []float64, wanted float64) Interval {
	n := len(values)
	if n == 0 {
		return Interval{Low: math.NaN(), High: math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(values))
	outside := 0 // how many values are left out on each side
	for 2*(outside+1) < n && coverage(n, outside+1) >= wanted {
		outside++
	}
	return Interval{Low: sorted[outside], High: sorted[n-1-outside], Coverage: coverage(n, outside)}
}

// TrimmedInterval returns the mean of the values without the share trim of them on either side, and
// the interval that holds it with the probability wanted, by Tukey and McLaughlin: the mean of many
// values that scatter evenly is surer than their median, and a few that went wrong do not count.
// It is meant for at least twenty values. The interval is NaN to NaN of fewer than two that remain.
func TrimmedInterval(values []float64, trim, wanted float64) (mean float64, at Interval) {
	sorted := slices.Sorted(slices.Values(values))
	n, out := len(sorted), int(trim*float64(len(sorted)))
	kept := n - 2*out
	if kept < 2 {
		return math.NaN(), Interval{Low: math.NaN(), High: math.NaN()}
	}
	for _, v := range sorted[out : n-out] {
		mean += v / float64(kept)
	}
	var all, squares float64 // of the values with those left out moved to the nearest that remain
	for _, v := range sorted {
		all += min(max(v, sorted[out]), sorted[n-1-out]) / float64(n)
	}
	for _, v := range sorted {
		d := min(max(v, sorted[out]), sorted[n-1-out]) - all
		squares += float64(d * d)
	}
	share := float64(kept) / float64(n)
	half := math.Sqrt2 * math.Erfinv(wanted) * math.Sqrt(squares/float64(n-1)/float64(n)) / share
	return mean, Interval{Low: mean - half, High: mean + half, Coverage: wanted}
}

// coverage is the probability that the median lies between the values number
// outside and n-1-outside of n sorted ones. Each value falls below the median
// with probability one half, so the count of those below is binomial, and the
// median escapes if that count is at most outside, on either side.
func coverage(n, outside int) float64 {
	term := math.Ldexp(1, -n)
	var tail float64
	for k := 0; k <= outside; k++ {
		tail += term
		term *= float64(n-k) / float64(k+1)
	}
	return max(0, 1-2*tail)
}

// Ratios returns a over b, round by round. Both must have the same number of
// rounds, and every measurement must be positive: a program that did nothing
// was not measured.
func Ratios(a, b []float64) ([]float64, error) {
	if len(a) != len(b) || len(a) == 0 {
		return nil, fmt.Errorf("%d measurements against %d: expected pairs", len(a), len(b))
	}
	out := make([]float64, len(a))
	for i := range a {
		if !(a[i] > 0 && b[i] > 0) || math.IsInf(a[i], 0) || math.IsInf(b[i], 0) {
			return nil, fmt.Errorf("round %d measured %g against %g: expected positive numbers", i+1, a[i], b[i])
		}
		out[i] = a[i] / b[i]
	}
	return out, nil
}

// Middle returns the interval that holds the share wanted of the estimates,
// with as many below it as above. Estimates that are not numbers do not count;
// it reports false if there are no others.
func Middle(estimates []float64, wanted float64) (Interval, bool) {
	sorted := slices.DeleteFunc(slices.Clone(estimates), func(v float64) bool {
		return math.IsNaN(v) || math.IsInf(v, 0)
	})
	if len(sorted) == 0 {
		return Interval{}, false
	}
	slices.Sort(sorted)
	tail := float64((1 - wanted) / 2)
	return Interval{Low: sorted[Rank(tail, len(sorted))], High: sorted[Rank(1-tail, len(sorted))], Coverage: wanted},
		true
}
