package model

import (
	"math"

	"parley/compute"
	"parley/model/weights"
)

// The rotary encodings of a network, by their place in its list: layers with a
// sliding window may use another one than the rest.
const (
	ropeGlobal = iota
	ropeLocal
)

func ropes(cfg *weights.Config) []compute.Rope {
	return []compute.Rope{newRope(&cfg.Rope, cfg.HeadDim), newRope(&cfg.RopeLocal, cfg.HeadDim)}
}

// newRope works out the frequency of each pair of a head's dimensions:
// theta^(-2i/dim), stretched as the model says.
func newRope(r *weights.Rope, dim int) compute.Rope {
	inv := make([]float32, dim/2)
	for i := range inv {
		inv[i] = float32(math.Pow(r.Theta, -float64(2*i)/float64(dim)))
	}
	switch r.Type {
	case weights.RopeLinear:
		for i := range inv {
			inv[i] /= float32(r.Factor)
		}
	case weights.RopeLlama3:
		stretchLlama3(inv, r)
	case weights.RopeYarn:
		stretchYarn(inv, r, dim)
	}
	for i, f := range r.FreqFactors {
		inv[i] /= f
	}
	return compute.Rope{InvFreq: inv, Scale: float32(r.AttentionFactor), Interleaved: r.Interleaved}
}

// stretchLlama3 divides the frequencies of long waves by the factor, leaves
// those of short ones, and goes over smoothly between the two.
func stretchLlama3(inv []float32, r *weights.Rope) {
	original := float64(r.OriginalContext)
	for i, f := range inv {
		wave := 2 * math.Pi / float64(f)
		switch {
		case wave < original/r.HighFreqFactor:
		case wave > original/r.LowFreqFactor:
			inv[i] = f / float32(r.Factor)
		default:
			smooth := (original/wave - r.LowFreqFactor) / (r.HighFreqFactor - r.LowFreqFactor)
			inv[i] = float32((1-smooth)*float64(f)/r.Factor + smooth*float64(f))
		}
	}
}

// stretchYarn interpolates the dimensions that turn less than BetaSlow times
// over the original context, leaves those that turn more than BetaFast times,
// and ramps linearly over the dimensions between.
func stretchYarn(inv []float32, r *weights.Rope, dim int) {
	low, high := yarnDim(r, dim, r.BetaFast), yarnDim(r, dim, r.BetaSlow)
	if !r.Untruncated {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(dim-1))
	if low == high {
		high += 0.001
	}
	for i, f := range inv {
		ramp := min(max((float64(i)-low)/(high-low), 0), 1)
		inv[i] = float32(float64(f)/r.Factor*ramp + float64(f)*(1-ramp))
	}
}

// yarnDim returns the dimension whose wave makes the given number of turns over the
// original context.
func yarnDim(r *weights.Rope, dim int, turns float64) float64 {
	return float64(dim) * math.Log(float64(r.OriginalContext)/(turns*2*math.Pi)) / (2 * math.Log(r.Theta))
}
