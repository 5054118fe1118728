package traffic

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"parley/internal/exactmath"
)

// Gaps describe the times between events by their mean and their coefficient
// of variation, the standard deviation over the mean. A CV of 0 is a
// metronome, 1 is a Poisson process, and above 1 events come in bursts; all
// others are gamma distributed.
type Gaps struct {
	Mean time.Duration
	CV   float64
}

// The bounds of [Gaps]: outside them the numbers say nothing any more.
const (
	gapMeanMax = 24 * time.Hour
	gapCVMax   = 100
)

// PerSecond returns the gaps of rate events a second.
func PerSecond(rate, cv float64) (Gaps, error) {
	mean := float64(time.Second) / rate
	if !(rate > 0) || mean < 1 || mean > float64(gapMeanMax) {
		return Gaps{}, fmt.Errorf("a rate of %g per second: expected more than one a day and at most 1e9", rate)
	}
	g := Gaps{Mean: time.Duration(mean), CV: cv}
	return g, g.Validate()
}

// Validate reports what is wrong with the numbers.
func (g Gaps) Validate() error {
	var problems []error
	if g.Mean < 0 || g.Mean > gapMeanMax {
		problems = append(problems, fmt.Errorf("a mean gap of %v: expected 0 to %v", g.Mean, gapMeanMax))
	}
	if !(g.CV >= 0 && g.CV <= gapCVMax) {
		problems = append(problems, fmt.Errorf("a coefficient of variation of %g: expected 0 to %d", g.CV, gapCVMax))
	}
	return errors.Join(problems...)
}

// Next draws one gap. The gaps must be valid.
func (g Gaps) Next(rng *rand.Rand) time.Duration {
	mean := float64(g.Mean)
	switch g.CV {
	case 0:
		return g.Mean
	case 1:
		return time.Duration(mean * exactmath.Exponential(rng))
	}
	shape := 1 / (g.CV * g.CV)
	return time.Duration(min(mean/shape*gamma(rng, shape), math.MaxInt64/4))
}

// From returns a function that draws gaps, all from one seed.
func (g Gaps) From(seed uint64) func() time.Duration {
	rng := newRand(seed, streamGaps)
	return func() time.Duration { return g.Next(rng) }
}

// gamma draws from the gamma distribution of the given shape and scale 1, by
// the method of Marsaglia and Tsang: a cubed normal variable, accepted with a
// probability that is seldom below 0.95.
func gamma(rng *rand.Rand, shape float64) float64 {
	if shape < 1 {
		// The method needs a shape of 1 or more; a power of a uniform variable
		// carries a larger shape back to the one wanted.
		return gamma(rng, shape+1) * exactmath.Pow(1-float64(rng.Float64()), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := exactmath.Normal(rng)
		v := 1 + float64(c*x)
		if v <= 0 {
			continue
		}
		v = float64(v * v * v)
		if exactmath.Log(1-float64(rng.Float64())) < float64(0.5*x*x)+float64(d*(1-v+exactmath.Log(v))) {
			return d * v
		}
	}
}

// The streams keep the random choices of one seed apart: more draws for
// lengths must not change the arrivals.
const (
	streamGaps uint64 = iota + 1
	streamWorkload
	// streamTalk is the first of the talks' streams, far from those of a workload.
	streamTalk uint64 = 1 << 32
)

func newRand(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }
