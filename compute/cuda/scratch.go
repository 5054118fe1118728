package cuda

import (
	"fmt"

	"parley/compute"
)

// packedBytes is what rows take as 16-bit numbers, in tiles of 8. Kernels copy as many
// rows as their tiles have, so there is room behind the last.
func packedBytes(rows, cols int) int64 {
	const behind = 256 * 64 * 2
	return int64(roundUp(rows, 8))*int64(roundUp(cols, 64))*2 + behind
}

// codesBytes is what rows take that are quantized to 8 bits: 64 columns of a row are a
// piece of 80 bytes, with two scales and sums; see kernels/packed.cuh. E4M3 numbers take less.
func codesBytes(rows, cols int) int64 {
	return packedBytes(rows, roundUp(cols, 128)) / 128 * unitBytes / 8
}

// sizes are the bytes of what depends on the limits alone.
type sizes struct{ x16, x8, inner int64 }

func sizesOf(l compute.Limits) sizes {
	rows := l.Rows * max(1, l.Experts)
	if l.Experts > 0 {
		rows += maxExperts * (mixtureTiles[len(mixtureTiles)-1] - 1)
	}
	return sizes{
		x16:   packedBytes(rows, l.Width),
		x8:    codesBytes(rows, l.Width),
		inner: 4 * int64(rows) * int64(l.Width),
	}
}

// ScratchBytes returns about how much device memory Reserve takes for steps
// within the limits, with kernels and graphs, and with logits of vocab tokens.
func ScratchBytes(l compute.Limits, vocab int) int64 {
	const kernelsAndGraphs = 512 << 20
	s := sizesOf(l)
	return 2*s.x16 + s.x8 + 2*s.inner + 4*int64(l.Outputs)*int64(vocab) +
		maxPartials*partialBytesTypical + stagingBytes + kernelsAndGraphs
}

// partialBytesTypical is what the result of a partition takes with 40 heads of 128.
const partialBytesTypical = 40 * (128 + 2) * 4

// reserve takes what depends on the limits alone.
func (c *CUDA) reserve(l compute.Limits) error {
	s := sizesOf(l)
	c.grow(&c.x16, s.x16, "packed activations")
	c.grow(&c.hidden16, s.x16, "the inside of an MLP")
	c.grow(&c.x8, s.x8, "quantized activations")
	c.grow(&c.gate, s.inner, "the inside of an MLP")
	c.grow(&c.up, s.inner, "the inside of an MLP")
	err := c.failed
	c.failed = nil
	c.broken.Store(nil)
	if err != nil {
		return fmt.Errorf("%w: use fewer tokens in a step than %d", err, l.Rows)
	}
	return c.reserveStep(stepFields + 16*l.Rows)
}
