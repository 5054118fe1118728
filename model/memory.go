package model

import (
	"slices"

	"parley/compute"
	"parley/model/weights"
)

// Limits bound the steps a model will be asked to compute.
type Limits struct {
	// Rows is the most tokens in one step, over all sequences.
	Rows int
	// Outputs is the most rows whose logits are wanted in one step.
	Outputs int
	// Blocks is the size of the key/value pool.
	Blocks int
	// KV is how the pool keeps keys and values; the zero value is float32.
	KV compute.KVType
	// RoundF8 rounds matrices to FP8 when they are loaded; see [weights.Tensor.RoundsToF8].
	RoundF8 bool
	// Narrow loads four-bit integers as the smallest type that has them; see [weights.Tensor.Narrow].
	Narrow bool
}

// KVShape returns the geometry of a pool of blocks blocks of the given type for the model.
func KVShape(cfg *weights.Config, blocks int, kind compute.KVType) compute.KVShape {
	return compute.KVShape{
		Layers:  cfg.Layers,
		KVHeads: cfg.KVHeads,
		HeadDim: cfg.HeadDim,
		Blocks:  blocks,
		Type:    kind,
	}
}

// Window returns how many tokens, itself included, a token looks back on at most in every layer; 0 if that has no
// bound in some layer.
func Window(cfg *weights.Config) int {
	if slices.Contains(cfg.Sliding, false) {
		return 0
	}
	return cfg.SlidingWindow
}

// ActivationBytes returns what Load takes for activations, apart from the
// backend's own scratch memory.
func ActivationBytes(cfg *weights.Config, rows int) int64 {
	perRow := 3*cfg.Hidden + 2*cfg.QueryDim() + 2*cfg.KVDim()
	return 4 * int64(rows) * int64(perRow)
}

// ScratchLimits returns what the backend must be ready for.
func ScratchLimits(cfg *weights.Config, limits Limits) compute.Limits {
	return compute.Limits{
		Rows: limits.Rows, Outputs: limits.Outputs, Experts: cfg.ExpertsPerToken,
		Width: max(cfg.FFN, cfg.ExpertFFN, cfg.Hidden, cfg.QueryDim()),
	}
}
