package sample

import "math/bits"

const (
	philoxMultiplier = 0xD2B74407B1CE6E93
	philoxKeyStep    = 0x9E3779B97F4A7C15
	philoxRounds     = 10
)

// philox returns the Philox2x64-10 block at the counter (low, high) under key.
// It is written out here because the standard library has no generator that
// can be asked for its i-th draw, and a seeded stream would depend on how many
// draws came before.
func philox(low, high, key uint64) (uint64, uint64) {
	for range philoxRounds {
		upper, lower := bits.Mul64(low, philoxMultiplier)
		low, high = upper^high^key, lower
		key += philoxKeyStep
	}
	return low, high
}

// drawBelow returns draw number position of a choice, scaled to [0, limit).
func drawBelow(limit, seed, choice, position uint64) uint64 {
	uniform, _ := philox(position, choice, seed)
	scaled, _ := bits.Mul64(uniform, limit)
	return scaled
}
