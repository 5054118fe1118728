package cost

import (
	"fmt"
	"math"
	"slices"
	"time"

	"parley/internal/stat"
)

// A Sample is a pass that was measured.
type Sample struct {
	Pass
	Took time.Duration `json:"took"`
}

// A FitError says how far a model is off, relative to what was measured.
type FitError struct {
	// Passes were held back from fitting; the other numbers are about those.
	Passes int `json:"passes"`
	// Median and P95 are of the error's size. Total is how much longer (or shorter,
	// below 0) the model says that all of them take together.
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	Total  float64 `json:"total"`
}

const (
	// holdBack is one in how many samples the error is measured with.
	holdBack = 5
	// samplesMin is the fewest samples that can be fitted, and leave some to check.
	samplesMin = 40
	// knotFactor is the ratio of one knot's rows to the next one's.
	knotFactor = 2
	// sweeps bounds the rounds of the solver, and settled is the relative change of
	// the sum of squares at which it stops.
	sweeps  = 20000
	settled = 1e-12
	// reweighed is how often errors are measured anew, relative to what is expected.
	reweighed = 4
)

// Fit returns the model that fits measured passes best: the one with the least sum of
// squared relative errors, in which no coefficient is negative and more rows never take
// less time. Of passes that are alike and took different times it has the mean: that is what
// a fleet feels. Every fifth sample only measures the error.
func Fit(samples []Sample) (*Model, error) {
	if len(samples) < samplesMin {
		return nil, fmt.Errorf("%d passes were measured: at least %d are needed to fit a model", len(samples),
			samplesMin)
	}
	most := 0
	var train, check []Sample
	for i, s := range samples {
		if s.Took <= 0 || s.Rows < 1 {
			return nil, fmt.Errorf("pass %d has %d rows and took %v: want at least 1 row and more than 0 s", i, s.Rows,
				s.Took)
		}
		most = max(most, s.Rows)
		if i%holdBack == holdBack-1 {
			check = append(check, s)
		} else {
			train = append(train, s)
		}
	}
	knots := knotsUpTo(most)
	m := modelOf(knots, fitted(train, knots))
	m.Error = m.ErrorOn(check)
	return m, m.Validate()
}

// knotsUpTo returns the rows of the knots: 1, 4, 16 and so on to beyond most.
func knotsUpTo(most int) []int {
	knots := []int{1}
	for knots[len(knots)-1] < most {
		knots = append(knots, knots[len(knots)-1]*knotFactor)
	}
	if len(knots) == 1 {
		knots = append(knots, knotFactor)
	}
	return knots
}

// features returns what each coefficient is multiplied by: a pass at all, the rows
// between every two knots, sequences, positions read and looked back on.
func features(p Pass, knots []int) []float64 {
	x := make([]float64, 0, len(knots)+3)
	x = append(x, 1)
	for i := 1; i < len(knots); i++ {
		x = append(x, float64(min(max(p.Rows-knots[i-1], 0), knots[i]-knots[i-1])))
	}
	return append(x, float64(p.Sequences), float64(p.Read), float64(p.Lookback))
}

func modelOf(knots []int, c []float64) *Model {
	m := &Model{From: "fitted"}
	seconds := c[0]
	m.Rows = append(m.Rows, Knot{knots[0], seconds})
	for i := 1; i < len(knots); i++ {
		seconds += float64(c[i] * float64(knots[i]-knots[i-1]))
		m.Rows = append(m.Rows, Knot{knots[i], seconds})
	}
	rest := c[len(knots):]
	m.Sequence, m.Read, m.Lookback = rest[0], rest[1], rest[2]
	return m
}

// solve returns the coefficients, none of them negative, of the least sum of squared
// errors relative to a size, by going through them one by one until nothing changes.
func solve(samples []Sample, knots []int, size func(*Sample) float64) []float64 {
	n := len(knots) + 3
	products := make([][]float64, n)
	for i := range products {
		products[i] = make([]float64, n)
	}
	sums := make([]float64, n)
	for _, s := range samples {
		x, of := features(s.Pass, knots), size(&s)
		took := s.Took.Seconds() / of
		for i := range x {
			x[i] /= of
		}
		for i := range x {
			sums[i] += float64(x[i] * took)
			for j := range x {
				products[i][j] += float64(x[i] * x[j])
			}
		}
	}
	c := make([]float64, n)
	for range sweeps {
		changed := 0.0
		for i := range c {
			if products[i][i] == 0 {
				continue
			}
			gradient := sums[i]
			for j := range c {
				gradient -= float64(products[i][j] * c[j])
			}
			next := max(0, c[i]+gradient/products[i][i])
			changed += math.Abs(float64((next-c[i])*gradient)) / float64(len(samples))
			c[i] = next
		}
		if changed < settled {
			break
		}
	}
	return c
}

// fitted returns the coefficients of the least sum of squared errors, relative to what
// the model itself expects of a pass. Relative to what was measured, passes that were
// disturbed would count for little, and the model would be that of the quickest ones.
func fitted(samples []Sample, knots []int) []float64 {
	quickest := math.Inf(1)
	for _, s := range samples {
		quickest = min(quickest, s.Took.Seconds())
	}
	c := solve(samples, knots, func(s *Sample) float64 { return s.Took.Seconds() })
	for range reweighed {
		last := c
		c = solve(samples, knots, func(s *Sample) (expected float64) {
			for i, x := range features(s.Pass, knots) {
				expected += float64(x * last[i])
			}
			return max(expected, quickest)
		})
	}
	return c
}

// ErrorOn measures how far the model is off on samples, of which there must be one.
func (m *Model) ErrorOn(samples []Sample) *FitError {
	sizes := make([]float64, len(samples))
	var said, took float64
	for i, s := range samples {
		t, _ := m.Time(s.Pass)
		sizes[i] = math.Abs(t.Seconds()/s.Took.Seconds() - 1)
		said, took = said+t.Seconds(), took+s.Took.Seconds()
	}
	slices.Sort(sizes)
	return &FitError{
		Passes: len(samples),
		Median: sizes[stat.Rank(0.5, len(sizes))],
		P95:    sizes[stat.Rank(0.95, len(sizes))],
		Total:  said/took - 1,
	}
}
