package cpu

import (
	"fmt"

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

// gemmBrainFunc multiplies rows with steps of a panel: n times 32 rows, or as
// many as the configuration says.
type gemmBrainFunc func(n int, dst []float32, dstStride int, act []byte, actStride int, panel []byte, steps int,
	config []byte, more bool)

// gemmFewFunc multiplies up to brainFew rows with steps of a panel as it is stored.
// It gives the bits of a gemmBrainFunc.
type gemmFewFunc func(rows int, dst []float32, dstStride int, x []float32, xStride int, panel []byte, steps int,
	more bool)

// brainKernels are what a processor does whose matrix unit takes bfloat16. What
// they compute is defined by their twins (see [plainBrainGemm]).
type brainKernels struct {
	rows        [brainClasses]func(dst []byte, src []float32, steps int)
	floats      [brainClasses]func(dst, src []float32, steps int)
	roundF16    func(dst, panel []byte, steps int)
	roundPacked [packKinds]func(dst, panel []byte, blocks int)
	gemm        [brainClasses][2]gemmBrainFunc // for one tile of rows, and for two
	fewBF16     [brainClasses]gemmFewFunc
	fewF16      gemmFewFunc // rounded
}

// A brainForm is how a matrix meets the matrix unit.
type brainForm struct {
	// open writes steps of a panel as the unit takes them; nil if they are stored so.
	open func(dst, panel []byte, steps int)
	// few does it for few rows.
	few gemmFewFunc
	// from is from how many rows on the form is used.
	from int
}

// tileKernels are what a processor with a matrix unit does beyond a kernelSet.
type tileKernels struct {
	unpack [packKinds]func(dst, panel []byte, blocks int)
	gemm   [packKinds]gemmTilesFunc
}

// gemmTilesFunc multiplies n tiles of rows with unpacked blocks. It reads one
// block beyond them.
type gemmTilesFunc func(n int, dst []float32, dstStride int, act, facts []byte, actStride int, open []byte, blocks int,
	products []byte)

// Numerics say how exactly a [CPU] computes.
type Numerics uint8

const (
	// Exact numerics keep the promises of package compute.
	Exact Numerics = iota
	// Fast numerics round what meets in the matrix unit to bfloat16, where
	// there are many rows or the weights have 16 bits. What a row gives then
	// depends, in the last places, on whether many rows ran with it. A
	// processor without such a unit computes as with Exact.
	Fast
)

// String returns the name that [ParseNumerics] takes.
func (n Numerics) String() string {
	if n == Fast {
		return "fast"
	}
	return "exact"
}

// ParseNumerics returns the numerics of the given name.
func ParseNumerics(name string) (Numerics, error) {
	for _, n := range []Numerics{Exact, Fast} {
		if n.String() == name {
			return n, nil
		}
	}
	return Exact, fmt.Errorf("cpu: no numerics %q: use exact or fast", name)
}

// A brainClass says of how many parts activations are.
type brainClass uint8

// parts returns how many parts a row has.
func (b brainClass) parts() int { return int(b) + 1 }

const (
	brainRounded brainClass = iota
	brainSplit
	brainClasses
)

// A processor whose matrix unit takes bfloat16 ("brain" floats, the upper halves
// of float32) multiplies weights of that type with it, however few rows there
// are. Activations are split into two such numbers, which together have about as
// many bits as matter beside the rounding of sums. Products of these numbers are
// exact in float32, so the results are nearly as close to the reference as those
// of vector kernels.
//
// With [Fast] numerics activations and weights of most types are rounded to one
// such number each. Half floats in exact numerics stay with vector kernels: to
// take them apart costs one row more time than memory does.
//
// The unit takes steps of 32 columns: it adds up the products of the even ones
// and those of the odd ones, and adds the sum of both to what it has. This
// order depends on the columns alone.
const (
	// stepColumns is how many columns a step has.
	stepColumns = 32
	// brainBytes is the size of one part of a row's step, panelStep that of a panel's.
	brainBytes = 2 * stepColumns
	panelStep  = brainBytes * panelOutputs
	// brainTile is how many rows a tile has. Kernels take one or two.
	brainTile = 16
	// brainCols is how many columns of a panel pass over the rows at a time.
	brainCols = 2048
	// brainOpen bounds the panels that rows pass over one after the other, and
	// brainPassed those rows. Both together stay in the second-level cache.
	brainOpen   = 1 << 20
	brainPassed = 512 << 10
	// brainFew is up to how many rows vectors do what the matrix unit would.
	brainFew = 4
	// fewSlots is up to how many rows a mixture's experts may have together for
	// this, as each may have few.
	fewSlots = 64
	// brainSome is up to how many rows a panel is used at once, so that a
	// short piece of it is opened at a time: brainPiece columns.
	brainSome, brainPiece = 2 * brainTile, 256
)

// A path is a kernel set and whether this processor can run it.
type path struct {
	kernels   *kernelSet
	supported bool
}
