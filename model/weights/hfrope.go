package weights

import "fmt"

// hfRope is the object rope_scaling (old) or rope_parameters (new) of
// config.json. The new one may hold one object for each kind of layer.
type hfRope struct {
	Theta           *float64 `json:"rope_theta"`
	RopeType        string   `json:"rope_type"`
	OldType         string   `json:"type"`
	Factor          *float64 `json:"factor"`
	LowFreqFactor   *float64 `json:"low_freq_factor"`
	HighFreqFactor  *float64 `json:"high_freq_factor"`
	OriginalContext *int     `json:"original_max_position_embeddings"`
	AttentionFactor *float64 `json:"attention_factor"`
	BetaFast        *float64 `json:"beta_fast"`
	BetaSlow        *float64 `json:"beta_slow"`
	Mscale          *float64 `json:"mscale"`
	MscaleAllDim    *float64 `json:"mscale_all_dim"`
	Truncate        *bool    `json:"truncate"`
	PartialRotary   *float64 `json:"partial_rotary_factor"`
	Full            *hfRope  `json:"full_attention"`
	Sliding         *hfRope  `json:"sliding_attention"`
}

// setRope reads the rotations from whichever of the two styles the file uses.
func (h *hfConfig) setRope(c *Config) error {
	theta, localTheta := 10_000.0, 10_000.0
	if c.Architecture == ArchGemma3 {
		theta = 1_000_000
	}
	theta = or(h.RopeTheta, theta)
	localTheta = or(h.RopeLocalTheta, localTheta)

	global, local := h.RopeParameters, (*hfRope)(nil)
	if global == nil {
		global = h.RopeScaling
	}
	if global != nil && (global.Full != nil || global.Sliding != nil) {
		global, local = global.Full, global.Sliding
	}
	var err error
	if c.Rope, err = global.rope(theta, c); err != nil {
		return err
	}
	if c.Architecture != ArchGemma3 {
		return nil
	}
	c.RopeLocal, err = local.rope(localTheta, c)
	return err
}

// rope returns the rotation an object describes; of no object, the plain one.
func (r *hfRope) rope(theta float64, c *Config) (Rope, error) {
	if r == nil {
		return plainRope(theta), nil
	}
	if or(r.PartialRotary, 1) != 1 {
		return Rope{}, fmt.Errorf("partial_rotary_factor is %g: only 1 is supported", *r.PartialRotary)
	}
	out := plainRope(or(r.Theta, theta))
	if out.Type = r.RopeType; out.Type == "" {
		out.Type = r.OldType
	}
	switch out.Type {
	case "", "default", "dynamic":
		// Dynamic scaling changes nothing within the trained context, which
		// is all that is served.
		out.Type = RopeDefault
		return out, nil
	case RopeLinear, RopeLlama3, RopeYarn:
	default:
		return out, nil
	}
	if r.Factor == nil && out.Type != RopeYarn {
		return Rope{}, fmt.Errorf("rope type %s has no factor", out.Type)
	}
	out.Factor = or(r.Factor, 0)
	out.OriginalContext = or(r.OriginalContext, 0)
	switch out.Type {
	case RopeLlama3:
		out.LowFreqFactor = or(r.LowFreqFactor, 1)
		out.HighFreqFactor = or(r.HighFreqFactor, 4)
	case RopeYarn:
		r.setYarn(&out, c)
	}
	return out, nil
}

func (r *hfRope) setYarn(out *Rope, c *Config) {
	if out.OriginalContext == 0 {
		out.OriginalContext = c.Context
	}
	if out.Factor == 0 && out.OriginalContext > 0 {
		out.Factor = float64(c.Context) / float64(out.OriginalContext)
	}
	out.BetaFast, out.BetaSlow = or(r.BetaFast, 32), or(r.BetaSlow, 1)
	out.Untruncated = !or(r.Truncate, true)
	mscale, allDim := or(r.Mscale, 0), or(r.MscaleAllDim, 0)
	switch {
	case r.AttentionFactor != nil:
		out.AttentionFactor = *r.AttentionFactor
	case mscale != 0 && allDim != 0:
		out.AttentionFactor = yarnMscale(out.Factor, mscale) / yarnMscale(out.Factor, allDim)
	default:
		out.AttentionFactor = yarnMscale(out.Factor, 1)
	}
	c.Context = stretchedContext(c.Context, *out)
}

// stretchedContext returns the context a yarn model takes: configs give either
// the original length or the stretched one.
func stretchedContext(context int, r Rope) int {
	stretched := r.Factor * float64(r.OriginalContext)
	if stretched > contextMax {
		return context
	}
	return max(context, int(stretched))
}
