package cpu

import (
	"fmt"
	"strings"

	"parley/compute"
)

//go:generate go run ./asmgen

// The layouts that kernels and their callers agree on.
const (
	// lanes is how many outputs, tokens or columns a kernel treats alike.
	lanes = 16
	// panelOutputs is how many outputs of a matrix lie side by side in a panel.
	panelOutputs = 32
	// quantBlock is how many columns share a scale in Q8_0 and in quantized activations.
	quantBlock = 32
	// actBlockBytes is the size of a block of quantized activations: 32 int8,
	// a float32 scale, and an int32 that is -128 times the sum of the 32.
	actBlockBytes = 40
	// q8BlockBytes is the size of a block of a Q8_0 panel: 32 f16 scales, then
	// the 32 outputs' weights for 8 times 4 columns, with 128 added.
	q8BlockBytes = 64 + 8*panelOutputs*4
	// stateHead is where the values begin in a query's softmax state. Before
	// them come 16 partial sums of weights, the greatest score, and the factor
	// by which the latter's last change has scaled all sums.
	stateHead, stateTop, stateFactor = 32, 16, 17
)

// gemmFloatFunc multiplies up to floatRows rows with a panel [cols][32].
type gemmFloatFunc func(rows int, dst []float32, dstStride int, x []float32, xStride int, panel []byte, cols int, more bool)

// A kernelSet is the inner loops for one instruction set. The generator
// (asmgen) documents them; the plain ones are their twins in Go.
type kernelSet struct {
	name              string
	q8Rows, floatRows int // most rows of one call

	gemmQ8                     func(rows int, dst []float32, dstStride int, act []byte, actStride int, panel []byte, blocks int)
	gemmF32, gemmF16, gemmBF16 gemmFloatFunc
	quantize                   func(dst []byte, src []float32, blocks int)
	sumSquares                 func(lanes, x []float32, n int)
	scaleNorm                  func(dst, src, w []float32, n int, scale, offset float32)
	addTo                      func(dst, src []float32, n int)
	addScaled                  func(dst, src []float32, n int, scale float32)
	gateSiLU, gateGELU         func(gate, up []float32, n int)
	rotate                     func(lo, hi, cos, sin []float32, n int)
	attend                     [compute.KVTypes]attendKernels
}

// attendKernels are the inner loops of attention over a pool of one type. They
// take the keys and values of a block and head as the pool holds them.
type attendKernels struct {
	scores func(dst, q []float32, keys []byte, dim, n int)
	absorb func(states, scores []float32, values []byte, dim, n, from, to int, scale float32)
}

// A path is a kernel set and whether this processor can run it.
type path struct {
	kernels   *kernelSet
	supported bool
}

// pickPath returns the kernels of the named path, or the best ones for "".
func pickPath(all []path, name string) (*kernelSet, error) {
	var names []string
	for _, p := range all {
		if p.supported && (name == "" || name == p.kernels.name) {
			return p.kernels, nil
		}
		if name == p.kernels.name {
			return nil, fmt.Errorf("cpu: this processor has not all instructions of path %q: use another or leave it open", name)
		}
		names = append(names, p.kernels.name)
	}
	return nil, fmt.Errorf("cpu: no path %q: use one of %s, or leave it open", name, strings.Join(names, ", "))
}

// add adds src to dst.
func (k *kernelSet) add(dst, src []float32) {
	n := len(src) &^ (lanes - 1)
	k.addTo(dst, src, n)
	plainAddTo(dst[n:], src[n:], len(src)-n)
}

// addWeighted adds scale times src to dst.
func (k *kernelSet) addWeighted(dst, src []float32, scale float32) {
	n := len(src) &^ (lanes - 1)
	k.addScaled(dst, src, n, scale)
	plainAddScaled(dst[n:], src[n:], len(src)-n, scale)
}

// norm sets dst to the RMS norm of src times (w + offset). sums is room for 16 values.
func (k *kernelSet) norm(dst, src, w, sums []float32, eps, offset float32) {
	n := len(src) &^ (lanes - 1)
	k.sumSquares(sums, src, n)
	for i, v := range src[n:] {
		sums[i] += v * v
	}
	scale := inverseRoot(fold(sums)/float32(len(src)) + eps)
	k.scaleNorm(dst, src, w, n, scale, offset)
	plainScaleNorm(dst[n:], src[n:], w[n:], len(src)-n, scale, offset)
}

// turn rotates the pairs of lo and hi.
func (k *kernelSet) turn(lo, hi, cos, sin []float32) {
	n := len(lo) &^ (lanes - 1)
	k.rotate(lo, hi, cos, sin, n)
	plainRotate(lo[n:], hi[n:], cos[n:], sin[n:], len(lo)-n)
}

// fold adds sixteen lanes in the order in which all kernels do: halves, quarters, and so on.
func fold(sums []float32) float32 {
	var s [lanes]float32
	copy(s[:], sums)
	for n := lanes / 2; n > 0; n /= 2 {
		for i := range n {
			s[i] += s[i+n]
		}
	}
	return s[0]
}
