package traffic

import (
	"math"
	"slices"
	"testing"
	"time"
)

// moments returns the mean and the coefficient of variation of n draws.
func moments(n int, draw func() float64) (mean, cv float64) {
	var sum, squares float64
	for range n {
		x := draw()
		sum += x
		squares += x * x
	}
	mean = sum / float64(n)
	return mean, math.Sqrt(max(0, squares/float64(n)-mean*mean)) / mean
}

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance*max(want, 1e-9) }

func TestGapsHaveTheMeanAndVariationAsked(t *testing.T) {
	for _, cv := range []float64{0, 0.3, 1, 2, 4} {
		g, err := PerSecond(5, cv)
		if err != nil {
			t.Fatal(err)
		}
		next := g.From(7)
		mean, got := moments(400_000, func() float64 { return next().Seconds() })
		if !near(mean, 0.2, 0.02) || math.Abs(got-cv) > 0.03*max(cv, 1) {
			t.Errorf("CV %g: mean gap %.4f s, CV %.3f", cv, mean, got)
		}
	}
}

func TestGapsFollowTheSeed(t *testing.T) {
	draw := func(seed uint64) (out []time.Duration) {
		next := Gaps{Mean: time.Second, CV: 2}.From(seed)
		for range 50 {
			out = append(out, next())
		}
		return out
	}
	if !slices.Equal(draw(1), draw(1)) {
		t.Error("the same seed gave different gaps")
	}
	if slices.Equal(draw(1), draw(2)) {
		t.Error("different seeds gave the same gaps")
	}
}

func TestGapsRefuseNonsense(t *testing.T) {
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1), 1e-9, 1e12} {
		if _, err := PerSecond(rate, 1); err == nil {
			t.Errorf("a rate of %g was taken", rate)
		}
	}
	for _, g := range []Gaps{{Mean: -1}, {Mean: time.Second, CV: -1}, {Mean: time.Second, CV: math.NaN()},
		{Mean: 25 * time.Hour}} {
		if g.Validate() == nil {
			t.Errorf("%+v was taken", g)
		}
	}
}

func TestStampTakeAndDeal(t *testing.T) {
	w := Workload{Kind: Independent, Prompt: Fixed(4), Output: Fixed(2)}
	stamped := Stamp(Take(w.Stream(0, 1), 4), func() time.Duration { return time.Second })
	var at []time.Duration
	for r := range stamped {
		at = append(at, r.At)
	}
	if want := []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(at, want) {
		t.Errorf("arrivals %v, want %v", at, want)
	}
	at = nil
	for r := range Deal(stamped, 1, 3) {
		at = append(at, r.At)
	}
	if len(at) != 1 || at[0] != time.Second {
		t.Errorf("hand 1 of 3 got %v", at)
	}
	for range Take(w.Stream(0, 1), 0) {
		t.Error("took one of none")
	}
}
