package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{1, 3}, 2}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5}} {
		before := slices.Clone(c.values)
		if got := Median(c.values); got != c.want {
			t.Errorf("median of %v is %g, want %g", c.values, got, c.want)
		}
		if !slices.Equal(before, c.values) {
			t.Errorf("the values %v were moved to %v", before, c.values)
		}
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("nothing has a median")
	}
}

// The coverages are those of any table of order statistics for the median.
func TestMedianIntervalKnowsWhatItIsWorth(t *testing.T) {
	ten := []float64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}
	for _, c := range []struct {
		n         int
		low, high float64
		coverage  float64
	}{
		{1, 10, 10, 0}, {2, 9, 10, 0.5}, {5, 6, 10, 0.9375}, {6, 5, 10, 0.96875}, {8, 3, 10, 0.9921875},
		{9, 3, 9, 0.9609375}, {10, 2, 9, 0.978515625},
	} {
		got := MedianInterval(ten[:c.n], 0.95)
		if got.Low != c.low || got.High != c.high || math.Abs(got.Coverage-c.coverage) > 1e-12 {
			t.Errorf("%d values: %+v, want %g to %g with %g", c.n, got, c.low, c.high, c.coverage)
		}
	}
	if got := MedianInterval(nil, 0.95); !math.IsNaN(got.Low) || got.Coverage != 0 {
		t.Errorf("nothing gave %+v", got)
	}
}

// The interval holds the true median at least as often as it says, whatever
// the distribution: here a skewed one with outliers.
func TestMedianIntervalHoldsWhatItPromises(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func() float64 { return math.Exp(3 * rng.NormFloat64()) } // the median is 1
	for _, n := range []int{5, 7, 12, 30} {
		const trials = 4000
		held, promised := 0, 0.0
		for range trials {
			values := make([]float64, n)
			for i := range values {
				values[i] = draw()
			}
			interval := MedianInterval(values, 0.9)
			promised = interval.Coverage
			if interval.Low <= 1 && 1 <= interval.High {
				held++
			}
		}
		if share := float64(held) / trials; math.Abs(share-promised) > 0.02 {
			t.Errorf("%d values: held %g of the time, promised %g", n, share, promised)
		}
	}
}

func TestRatios(t *testing.T) {
	got, err := Ratios([]float64{2, 9}, []float64{1, 3})
	if err != nil || !slices.Equal(got, []float64{2, 3}) {
		t.Errorf("%v %v", got, err)
	}
	for _, bad := range [][2][]float64{{nil, nil}, {{1}, {1, 2}}, {{1}, {0}}, {{-1}, {1}}, {{math.NaN()}, {1}},
		{{1}, {math.Inf(1)}}} {
		if got, err := Ratios(bad[0], bad[1]); err == nil {
			t.Errorf("%v over %v gave %v", bad[0], bad[1], got)
		}
	}
}

func TestMiddle(t *testing.T) {
	var estimates []float64
	for i := range 1000 {
		estimates = append(estimates, float64(999-i))
	}
	estimates = append(estimates, math.NaN(), math.Inf(1))
	got, ok := Middle(estimates, 0.95)
	if !ok || got.Low != 24 || got.High != 974 {
		t.Errorf("%+v %v", got, ok)
	}
	if _, ok := Middle([]float64{math.NaN()}, 0.95); ok {
		t.Error("no number has an interval")
	}
}

func TestRank(t *testing.T) {
	for _, c := range []struct {
		p    float64
		n    int
		want int
	}{{0.9, 10, 8}, {0.5, 10, 4}, {0.99, 100, 98}, {1, 3, 2}, {0, 3, 0}, {0.025, 40, 0}} {
		if got := Rank(c.p, c.n); got != c.want {
			t.Errorf("rank of %g in %d is %d, want %d", c.p, c.n, got, c.want)
		}
	}
}

// TestTrimmedIntervals draws values around 1, of which a tenth went wrong, many times: the interval
// must hold 1 about as often as it promises, and be narrower than that of the median.
func TestTrimmedIntervals(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const times = 2000
	held, narrower := 0, 0
	for range times {
		values := make([]float64, 60)
		for i := range values {
			values[i] = 1 + rng.NormFloat64()/10
			if rng.IntN(10) == 0 {
				values[i] = 1 + 10*rng.NormFloat64()
			}
		}
		mean, at := TrimmedInterval(values, 0.1, 0.95)
		if at.Low > mean || at.High < mean {
			t.Fatalf("%g is not within %+v", mean, at)
		}
		if at.Low <= 1 && 1 <= at.High {
			held++
		}
		if median := MedianInterval(values, 0.95); at.High-at.Low < median.High-median.Low {
			narrower++
		}
	}
	if share := float64(held) / times; share < 0.93 || share > 0.99 {
		t.Errorf("%.3f of the intervals hold the mean, want about 0.95", share)
	}
	if narrower < times/2 {
		t.Errorf("%d of %d intervals are narrower than those of the median", narrower, times)
	}
	if _, at := TrimmedInterval([]float64{1}, 0.1, 0.95); !math.IsNaN(at.Low) {
		t.Errorf("one value has the interval %+v", at)
	}
}
