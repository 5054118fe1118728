package sample

import (
	"math"

	"parley/compute"
)

const (
	// stepsPerOctave is the resolution of distances: that many steps halve a weight.
	stepsPerOctave = compute.DrawSteps
	// weightBits makes the best token's weight 1<<weightBits. A vocabulary of
	// MaxVocab such weights still sums to less than 1<<64.
	weightBits = 42
	weightOne  = 1 << weightBits
	// horizonSteps is the distance past which every weight rounds to 0.
	horizonSteps = (weightBits + 1) * stepsPerOctave
	// faintSteps is the distance past which fade adds nothing to a float64 sum
	// that starts at 1, however large the vocabulary.
	faintSteps = 100 * stepsPerOctave
)

// roots holds 2^(-i/stepsPerOctave).
var roots = compute.DrawRoots()

// fade returns 2^(-steps/stepsPerOctave) for steps from 0 to faintSteps, to a
// relative error below 2e-14. It stands in for math.Exp because that differs
// between machines, as would any product and sum that the compiler may fuse:
// the conversions forbid it.
func fade(steps float64) float64 {
	whole := uint(int(steps + 0.5))
	x := (float64(int(whole)) - steps) * (math.Ln2 / stepsPerOctave)
	series := 1 + float64(x*(1+float64(x*(0.5+float64(x*(1.0/6))))))
	octave := math.Float64frombits(uint64(1023-whole/stepsPerOctave) << 52)
	return float64(roots[whole%stepsPerOctave] * series * octave)
}

// stepsTo returns the distance at which a weight of 1 has faded to part, at
// most faintSteps. It searches, because a logarithm, too, differs between
// machines.
func stepsTo(part float64) float64 {
	near, far := 0.0, float64(faintSteps)
	for range 64 {
		if middle := (near + far) / 2; fade(middle) >= part {
			near = middle
		} else {
			far = middle
		}
	}
	return near
}

// A curve maps scores to weights: it is the softmax without its division.
type curve struct {
	// peak is the best score, stepsPerUnit what one unit of score is worth.
	peak, stepsPerUnit float64
}

// curveOf returns the softmax of scores divided by temperature.
func curveOf(peak float32, temperature float64) curve {
	return curve{float64(peak), stepsPerOctave * math.Log2E / temperature}
}

// steps is the distance of score below the peak. It is NaN or +Inf for a
// score that can never be chosen.
func (c curve) steps(score float32) float64 {
	return float64((c.peak - float64(score)) * c.stepsPerUnit)
}

// weight is the weight of a score, from 0 to weightOne, which is the peak's.
func (c curve) weight(score float32) uint64 {
	steps := c.steps(score)
	if !(steps < horizonSteps) {
		return 0
	}
	return weightAt(steps)
}

// weightAt is the weight at a distance below horizonSteps.
func weightAt(steps float64) uint64 {
	return uint64(int64(float64(fade(steps)*weightOne) + 0.5))
}

// A key packs a score and an index so that ascending keys run from the best
// score down, and equal scores from the lowest index up.
type key uint64

func keyOf(score float32, index int) key {
	// Adding 0 turns minus zero into zero, which it must tie with.
	order := math.Float32bits(score + 0)
	if order>>31 == 0 {
		order ^= math.MaxInt32
	}
	return key(order)<<32 | key(uint32(index))
}

func (k key) index() int { return int(uint32(k)) }

func (k key) score() float32 {
	order := uint32(k >> 32)
	if order>>31 == 0 {
		order ^= math.MaxInt32
	}
	return math.Float32frombits(order)
}

// clean replaces what is not a number by what the package says it counts as.
func clean(score float32) float32 {
	switch {
	case score != score:
		return float32(math.Inf(-1))
	case score > math.MaxFloat32:
		return math.MaxFloat32
	}
	return score
}
