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
	// quantBlock is how many columns share a scale in quantized activations.
	quantBlock = 32
	// stateHead is where the values begin in a query's softmax state. Before
	// them come 16 partial sums of weights, the greatest score, and the factor
	// by which the latter's last change has scaled all sums.
	stateHead, stateTop, stateFactor = 32, 16, 17
)

// gemmPackedFunc multiplies up to packedRows rows of quantized activations with
// a panel of quantized weights. facts begins with those about the first row's
// first block. With every block it may prefetch a number of cache lines of what
// is needed next, from its beginning on and also beyond its end.
type gemmPackedFunc func(rows int, dst []float32, dstStride int, act, facts []byte, actStride int, panel []byte,
	blocks int, next []byte, lines int)

// gemmFloatFunc multiplies up to floatRows rows with a panel [cols][32].
type gemmFloatFunc func(rows int, dst []float32, dstStride int, x []float32, xStride int, panel []byte, cols int,
	more bool)

// gemmWideFunc multiplies tileRows rows, side by side in columns, with a panel [cols][32].
type gemmWideFunc func(dst []float32, dstStride int, x []float32, panel []byte, cols int, more bool)

// A kernelSet is the inner loops for one instruction set. The generator
// (asmgen) documents them; the plain ones are their twins in Go.
type kernelSet struct {
	name                  string
	packedRows, floatRows int // most rows of one call

	gemmPacked                 [packKinds]gemmPackedFunc
	gemmF32, gemmF16, gemmBF16 gemmFloatFunc
	wideF32, wideF16, wideBF16 gemmWideFunc // nil where many rows are taken as few are
	quantize                   func(dst, facts []byte, src []float32, blocks int)
	pack                       [packKinds]func(dst, src []byte, rowBytes, blocks int) // nil where packings do it alone
	sumSquares                 func(lanes, x []float32, n int)
	scaleNorm                  func(dst, src, w []float32, n int, scale, offset float32)
	addTo                      func(dst, src []float32, n int)
	addScaled, scaleTo         func(dst, src []float32, n int, scale float32)
	blend                      func(dst, src []float32, n int, keep, add float32)
	gateSiLU, gateGELU         func(gate, up []float32, n int)
	rotate                     func(lo, hi, cos, sin []float32, n int)
	rotatePairs                func(x, cos, sin []float32, n int)
	attend                     [compute.KVTypes]attendKernels
	tiles                      *tileKernels  // nil without a matrix unit
	brain                      *brainKernels // nil without one for bfloat16
}

// attendKernels are the inner loops of attention over a pool of one type. They
// take the keys and values of a block and head as the pool holds them.
type attendKernels struct {
	scores func(dst, q []float32, keys []byte, dim, n int)
	// weigh turns scores into weights, addValues adds the values with these
	// weights. In between, the queries of a tile may be divided otherwise.
	weigh     func(states, scores []float32, values []byte, dim, n, from, to int, scale float32)
	addValues func(states, weights []float32, values []byte, dim, n, from, to int)
	// whole does all three for blocks that all queries see whole. It may be nil.
	whole func(states, scores, q []float32, keys []byte, blocks []int32, blockBytes, valuesAt, dim, n int,
		scale float32, open []float32)
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
			return nil, fmt.Errorf(
				"cpu: this processor has not all instructions of path %q: use another or leave it open", name)
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

// scale sets dst to scale times src.
func (k *kernelSet) scale(dst, src []float32, scale float32) {
	n := len(src) &^ (lanes - 1)
	k.scaleTo(dst, src, n, scale)
	plainScaleTo(dst[n:], src[n:], len(src)-n, scale)
}

// merge sets dst to keep times dst plus add times src.
func (k *kernelSet) merge(dst, src []float32, keep, add float32) {
	n := len(src) &^ (lanes - 1)
	k.blend(dst, src, n, keep, add)
	plainBlend(dst[n:], src[n:], len(src)-n, keep, add)
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

// turnPairs rotates the pairs of neighbours in x.
func (k *kernelSet) turnPairs(x, cos, sin []float32) {
	n := len(x) &^ (lanes - 1)
	k.rotatePairs(x, cos, sin, n)
	plainRotatePairs(x[n:], cos[n/2:], sin[n/2:], len(x)-n)
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
