package weights

import (
	"fmt"
	"math"
)

// The values of [Rope.Type].
const (
	RopeDefault = "default"
	RopeLinear  = "linear"
	RopeLlama3  = "llama3"
	RopeYarn    = "yarn"
)

// A Rope says how positions are turned into rotations: pair i of a head of
// size d turns by position/Theta^(2i/d), changed by what Type says.
type Rope struct {
	Theta float64 `json:"theta"`
	// Type is one of [RopeDefault], [RopeLinear], [RopeLlama3], [RopeYarn].
	Type string `json:"type"`
	// Factor is by how much the context was stretched; 1 for the default type.
	Factor float64 `json:"factor"`
	// LowFreqFactor and HighFreqFactor belong to llama3: with OriginalContext
	// they bound the wavelengths between which the stretch sets in.
	LowFreqFactor   float64 `json:"low_freq_factor,omitempty"`
	HighFreqFactor  float64 `json:"high_freq_factor,omitempty"`
	OriginalContext int     `json:"original_context,omitempty"`
	// BetaFast and BetaSlow belong to yarn and count rotations within
	// OriginalContext.
	BetaFast float64 `json:"beta_fast,omitempty"`
	BetaSlow float64 `json:"beta_slow,omitempty"`
	// Untruncated says that yarn's two bounds are not rounded to whole
	// dimensions.
	Untruncated bool `json:"untruncated,omitempty"`
	// AttentionFactor multiplies the cosines and sines. It is final: yarn's
	// mscale settings are already in it. It is 1 for the other types.
	AttentionFactor float64 `json:"attention_factor"`
	// Interleaved says that neighbours 2i and 2i+1 rotate together, instead of
	// i and i+d/2.
	Interleaved bool `json:"interleaved"`
	// FreqFactors, if there are any, divide the frequency of each pair, after
	// whatever Type says. They come from GGUF's rope_freqs.weight, which is how
	// the llama3 type is stored there.
	FreqFactors []float32 `json:"freq_factors,omitempty"`
}

func (r *Rope) validate(what string) error {
	for _, f := range []struct {
		key      string
		value    float64
		min, max float64
	}{
		{"theta", r.Theta, 1, 1e15},
		{"factor", r.Factor, 1e-6, 1e6},
		{"low_freq_factor", r.LowFreqFactor, 0, 1e6},
		{"high_freq_factor", r.HighFreqFactor, 0, 1e6},
		{"beta_fast", r.BetaFast, 0, 1e6},
		{"beta_slow", r.BetaSlow, 0, 1e6},
		{"attention_factor", r.AttentionFactor, 1e-6, 1e6},
		{"original context", float64(r.OriginalContext), 0, contextMax},
	} {
		if !(f.value >= f.min && f.value <= f.max) {
			return fmt.Errorf("%s: %s is %g: want %g to %g", what, f.key, f.value, f.min, f.max)
		}
	}
	switch r.Type {
	case RopeDefault, RopeLinear:
	case RopeLlama3:
		if r.LowFreqFactor <= 0 || r.HighFreqFactor <= r.LowFreqFactor || r.OriginalContext == 0 {
			return fmt.Errorf(
				"%s: llama3 needs 0 < low_freq_factor < high_freq_factor and an original context, has %g, %g and %d",
				what, r.LowFreqFactor, r.HighFreqFactor, r.OriginalContext)
		}
	case RopeYarn:
		if r.OriginalContext == 0 || r.BetaFast <= r.BetaSlow || r.BetaSlow <= 0 {
			return fmt.Errorf("%s: yarn needs an original context and 0 < beta_slow < beta_fast, has %d, %g and %g",
				what, r.OriginalContext, r.BetaSlow, r.BetaFast)
		}
	default:
		return fmt.Errorf("%s: type %q is not supported: supported are default, linear, llama3 and yarn", what, r.Type)
	}
	for i, f := range r.FreqFactors {
		if !(f > 0) || math.IsInf(float64(f), 0) {
			return fmt.Errorf("%s: frequency factor %d is %g: want a positive number", what, i, f)
		}
	}
	return nil
}

// plainRope is the rotation without any stretch.
func plainRope(theta float64) Rope {
	return Rope{Theta: theta, Type: RopeDefault, Factor: 1, AttentionFactor: 1}
}

// yarnMscale is the growth of attention's temperature with the stretch.
func yarnMscale(factor, mscale float64) float64 {
	if factor <= 1 {
		return 1
	}
	return 0.1*mscale*math.Log(factor) + 1
}

// llama3Factors returns by how much the llama3 type divides the frequency of
// each pair of a head: 1 for short wavelengths, Factor for long ones, and a
// blend between.
func (r *Rope) llama3Factors(headDim int) []float32 {
	low := float64(r.OriginalContext) / r.LowFreqFactor
	high := float64(r.OriginalContext) / r.HighFreqFactor
	factors := make([]float32, headDim/2)
	for i := range factors {
		wavelength := 2 * math.Pi * math.Pow(r.Theta, float64(2*i)/float64(headDim))
		switch {
		case wavelength < high:
			factors[i] = 1
		case wavelength > low:
			factors[i] = float32(r.Factor)
		default:
			smooth := (float64(r.OriginalContext)/wavelength - r.LowFreqFactor) / (r.HighFreqFactor - r.LowFreqFactor)
			factors[i] = float32(1 / ((1-smooth)/r.Factor + smooth))
		}
	}
	return factors
}
