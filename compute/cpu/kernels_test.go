package cpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"parley/compute"
	"parley/model/weights"
)

// twinBudget is how far a kernel may be from its twin in Go, as a share of the
// root mean square: both round each step, but not always at the same places.
const twinBudget = 2e-6

// forEachKernelSet runs f on every path that is not its own twin.
func forEachKernelSet(t *testing.T, f func(t *testing.T, k *kernelSet, r *rand.Rand)) {
	tested := false
	for _, p := range paths() {
		if p.supported && p.kernels != &plainKernels {
			tested = true
			t.Run(p.kernels.name, func(t *testing.T) { f(t, p.kernels, newRand(17)) })
		}
	}
	if !tested {
		t.Skip("this processor has the plain path only")
	}
}

func requireClose(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if err := differ(got, want, twinBudget); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func TestQuantizeEqualsTwin(t *testing.T) {
	forEachKernelSet(t, func(t *testing.T, k *kernelSet, r *rand.Rand) {
		for blocks := range 20 {
			src := randomFloats(r, blocks*quantBlock)
			for i := range src {
				src[i] *= float32(math.Exp2(float64(r.IntN(40) - 20)))
				if blocks%5 == 4 && i/quantBlock == 1 {
					src[i] = 0
				}
			}
			got, want := make([]byte, quantizedBytes(blocks*quantBlock)), make([]byte,
				quantizedBytes(blocks*quantBlock))
			k.quantize(got, got[blocks*quantBlock:], src, blocks)
			plainQuantize(want, want[blocks*quantBlock:], src, blocks)
			if !bytes.Equal(got, want) {
				t.Fatalf("%d blocks: %v, wanted %v", blocks, got, want)
			}
		}
	})
}

func TestPackEqualsTwin(t *testing.T) {
	forEachKernelSet(t, func(t *testing.T, k *kernelSet, r *rand.Rand) {
		for kind, q := range packings {
			for _, outputs := range []int{1, panelOutputs - 1, panelOutputs, 2*panelOutputs + 3} {
				cols := kind.BlockLen() * (1 + r.IntN(9))
				tensor := randomTensor(r, kind, outputs, cols)
				for first := 0; first < outputs; first += panelOutputs {
					n := min(panelOutputs, outputs-first)
					size := PackedBytes(kind, panelOutputs, cols)
					got, want := make([]byte, size+1), make([]byte, size+1)
					q.pack(k, got[:size], &tensor, first, n)
					q.pack(&plainKernels, want[:size], &tensor, first, n)
					if !bytes.Equal(got, want) {
						t.Fatalf("%s, %d columns, outputs %d..%d of %d differ", kind, cols, first, first+n, outputs)
					}
				}
			}
		}
	})
}

// extremePanel returns a panel of the given blocks of random bits, with scales
// that are numbers. In every other run all weights have the code zero, which
// for most types stands for the most negative weight.
func extremePanel(r *rand.Rand, q *packing, blocks int) []byte {
	panel := make([]byte, q.bytes(blocks))
	for at := 0; at < len(panel); at += q.runBytes() {
		run := panel[at:][:q.runBytes()]
		for i := range run {
			run[i] = byte(r.Uint32())
		}
		if at/q.runBytes()%2 == 1 {
			clear(run[q.head+scaleBytes:])
		}
		halves := run[:scaleBytes]
		if q.head > 0 {
			halves = run[:q.head]
		}
		for i := 0; i < len(halves); i += 2 {
			binary.LittleEndian.PutUint16(halves[i:], weights.ToF16(float32(r.NormFloat64())))
		}
	}
	return panel
}

// extremeActivations returns quantized rows and the facts about them, which
// have the same stride. The first block has all values at their limit.
func extremeActivations(r *rand.Rand, rows, blocks int) (act, facts []byte, stride int) {
	stride = quantizedBytes(blocks * quantBlock)
	act = make([]byte, rows*stride)
	for i := range rows {
		src := randomFloats(r, blocks*quantBlock)
		for c := range quantBlock {
			src[c] = -3
		}
		plainQuantize(act[i*stride:], act[i*stride+blocks*quantBlock:], src, blocks)
	}
	return act, act[blocks*quantBlock:], stride
}

func TestGemmPackedEqualsTwin(t *testing.T) {
	forEachKernelSet(t, func(t *testing.T, k *kernelSet, r *rand.Rand) {
		for kind, q := range packings {
			for rows := 1; rows <= k.packedRows; rows++ {
				for _, blocks := range []int{q.run, 2 * q.run, 7 * q.run} {
					act, facts, stride := extremeActivations(r, rows, blocks)
					panel := extremePanel(r, q, blocks)
					got, want := make([]float32, rows*40), make([]float32, rows*40)
					k.gemmPacked[q.kind](rows, got, 40, act, facts, stride, panel, blocks, nil, 0)
					plainKernels.gemmPacked[q.kind](rows, want, 40, act, facts, stride, panel, blocks, nil, 0)
					requireClose(t, fmt.Sprintf("%s, %d rows, %d blocks", kind, rows, blocks), got, want)
				}
			}
		}
	})
}

func TestTilesEqualRowsExactly(t *testing.T) {
	k, err := pickPath(paths(), "amx")
	if err != nil {
		t.Skip(err)
	}
	r := newRand(5)
	for kind, q := range packings {
		for tiles := 1; tiles <= 3; tiles++ {
			for _, blocks := range []int{q.run, 2 * q.run, 5 * q.run} {
				rows := tiles * tileRows
				act, facts, stride := extremeActivations(r, rows, blocks)
				panel := extremePanel(r, q, blocks)
				open, products := alignedBytes((blocks+1)*q.openBytes()), alignedBytes(productBytes)
				got, want := make([]float32, rows*40), make([]float32, rows*40)
				k.tiles.unpack[q.kind](open, panel, blocks)
				k.tiles.gemm[q.kind](tiles, got, 40, act, facts, stride, open, blocks, products)
				for row := 0; row < rows; row += k.packedRows {
					k.gemmPacked[q.kind](k.packedRows, want[row*40:], 40, act[row*stride:], facts[row*stride:], stride,
						panel, blocks, nil, 0)
				}
				if err := sameBits(got, want); err != nil {
					t.Errorf("%s, %d tiles, %d blocks: %v", kind, tiles, blocks, err)
				}
			}
		}
	}
}

func TestWideEqualsRowsExactly(t *testing.T) {
	forEachKernelSet(t, func(t *testing.T, k *kernelSet, r *rand.Rand) {
		if k.wideF32 == nil {
			t.Skip("no such kernels")
		}
		for _, kind := range []weights.DType{weights.F32, weights.F16, weights.BF16} {
			rowwise, wide := k.floats(kind)
			for _, cols := range []int{1, 2, 31, 100} {
				in := input{x: randomFloats(r, tileRows*cols), stride: cols, columns: make([]float32, tileRows*cols)}
				(&columnsJob{in}).run(0, 0, 1)
				panel := randomTensor(r, kind, cols, panelOutputs).Data
				got := randomFloats(r, tileRows*33)
				want := slices.Clone(got)
				for _, more := range []bool{true, false} {
					wide(got, 33, in.columns, panel, cols, more)
					for row := 0; row < tileRows; row += k.floatRows {
						rowwise(k.floatRows, want[row*33:], 33, in.x[row*cols:], cols, panel, cols, more)
					}
					if err := sameBits(got, want); err != nil {
						t.Errorf("%s, %d columns: %v", kind, cols, err)
					}
				}
			}
		}
	})
}

func TestGemmFloatEqualsTwin(t *testing.T) {
	forEachKernelSet(t, func(t *testing.T, k *kernelSet, r *rand.Rand) {
		for _, pair := range []struct {
			kind       weights.DType
			fast, twin gemmFloatFunc
		}{{weights.F32, k.gemmF32, plainGemmF32}, {weights.F16, k.gemmF16, plainGemmF16},
			{weights.BF16, k.gemmBF16, plainGemmBF16}} {
			for rows := 1; rows <= k.floatRows; rows++ {
				for _, cols := range []int{1, 2, 31, 100} {
					panel := randomTensor(r, pair.kind, cols, panelOutputs).Data
					x := randomFloats(r, rows*cols)
					got := randomFloats(r, rows*33)
					want := slices.Clone(got)
					for _, more := range []bool{true, false} {
						pair.fast(rows, got, 33, x, cols, panel, cols, more)
						pair.twin(rows, want, 33, x, cols, panel, cols, more)
						requireClose(t, pair.kind.String(), got, want)
					}
				}
			}
		}
	})
}

func TestRowKernelsEqualTwins(t *testing.T) {
	forEachKernelSet(t, func(t *testing.T, k *kernelSet, r *rand.Rand) {
		for n := 0; n <= 160; n += lanes {
			a, b, c, d := randomFloats(r, n+1), randomFloats(r, n+1), randomFloats(r, n+1), randomFloats(r, n+1)
			both := func(what string, do func(k *kernelSet, a, b []float32)) {
				gotA, gotB, wantA, wantB := slices.Clone(a), slices.Clone(b), slices.Clone(a), slices.Clone(b)
				do(k, gotA, gotB)
				do(&plainKernels, wantA, wantB)
				requireClose(t, what, gotA, wantA)
				requireClose(t, what, gotB, wantB)
			}
			both("addTo", func(k *kernelSet, a, b []float32) { k.addTo(a, b, n) })
			both("addScaled", func(k *kernelSet, a, b []float32) { k.addScaled(a, b, n, 0.3) })
			both("scaleTo", func(k *kernelSet, a, b []float32) { k.scaleTo(a, b, n, 0.3) })
			both("blend", func(k *kernelSet, a, b []float32) { k.blend(a, b, n, 0.3, -1.1) })
			both("scaleNorm", func(k *kernelSet, a, b []float32) { k.scaleNorm(a, b, c, n, 1.7, 0.5) })
			both("gateSiLU", func(k *kernelSet, a, b []float32) { k.gateSiLU(a, b, n) })
			both("gateGELU", func(k *kernelSet, a, b []float32) { k.gateGELU(a, b, n) })
			both("rotate", func(k *kernelSet, a, b []float32) { k.rotate(a, b, c, d, n) })
			both("rotatePairs", func(k *kernelSet, a, b []float32) { k.rotatePairs(a, c, d, n) })
			both("sumSquares", func(k *kernelSet, a, b []float32) {
				sums := make([]float32, lanes)
				k.sumSquares(sums, b, n)
				a[0] = fold(sums)
			})
		}
	})
}

func TestActivationsFarFromZero(t *testing.T) {
	values := []float32{0, 1e-20, -1e-20, 5, -5, 20, -20, 86, -86, 88, -88, 100, -100, 1e4, -1e4, 3e38}
	ones := slices.Repeat([]float32{1}, len(values))
	for _, path := range supportedPaths() {
		k, err := pickPath(paths(), path)
		if err != nil {
			t.Fatal(err)
		}
		silu, gelu := slices.Clone(values), slices.Clone(values)
		k.gateSiLU(silu, ones, lanes)
		k.gateGELU(gelu, ones, lanes)
		for i, x := range values {
			for act, got := range []float32{silu[i], gelu[i]} {
				want := refActivate(compute.Activation(act), x)
				if d := math.Abs(float64(got - want)); !(d <= 1e-6*math.Abs(float64(want))+1e-30) &&
					!(act == 1 && d < 1e-6) {
					t.Errorf("%s: activation %d of %v is %v, wanted %v", path, act, x, got, want)
				}
			}
		}
	}
}

func TestExponential(t *testing.T) {
	for x := float32(expMin); x <= expMax; x += 0.0137 {
		got, want := float64(exp32(x)), math.Exp(float64(x))
		if math.Abs(got-want) > 2e-7*want {
			t.Fatalf("exp(%v) is %v, wanted %v", x, got, want)
		}
	}
	if exp32(0) != 1 || expOrZero(-88) != 0 || expOrZero(float32(math.Inf(-1))) != 0 {
		t.Error("exp is not exact where it must be")
	}
}

func TestAttentionKernelsEqualTwins(t *testing.T) {
	forEachKernelSet(t, func(t *testing.T, k *kernelSet, r *rand.Rand) {
		for kind := range compute.KVType(compute.KVTypes) {
			fast, twin := k.attend[kind], plainKernels.attend[kind]
			for _, dim := range []int{16, 32, 64, 80, 96, 128, 208, 256} {
				for n := range 14 {
					q, keys := randomFloats(r, n*dim), randomPart(r, kind, dim)
					got, want := make([]float32, n*lanes), make([]float32, n*lanes)
					fast.scores(got, q, keys, dim, n)
					twin.scores(want, q, keys, dim, n)
					requireClose(t, fmt.Sprintf("scores of %v", kind), got, want)
				}
				testStates(t, k, r, kind, dim, 1+r.IntN(14))
				testWhole(t, &fast, r, kind, dim, 1+r.IntN(14))
			}
		}
	})
}

// randomPart returns the keys or the values of a block and head.
func randomPart(r *rand.Rand, kind compute.KVType, dim int) []byte {
	part := make([]byte, compute.KVShape{HeadDim: dim, Type: kind}.PartBytes())
	for t := range lanes {
		narrow(kind, part, t, t*dim, 1, randomFloats(r, dim))
	}
	return part
}

// testStates compares the states of n queries after several blocks, of which
// the values are added in one go or in two.
func testStates(t *testing.T, k *kernelSet, r *rand.Rand, kind compute.KVType, dim, n int) {
	size := stateHead + dim
	got := make([]float32, n*size)
	for i := range n {
		got[i*size+stateTop] = float32(math.Inf(-1))
	}
	want := slices.Clone(got)
	for block := range 30 {
		from := r.IntN(lanes) * (block % 2)
		to := from + 1 + r.IntN(lanes-from)
		scores, values := randomFloats(r, n*lanes), randomPart(r, kind, dim)
		for j := range scores {
			scores[j] *= 60
		}
		twin := slices.Clone(scores)
		middle := from + r.IntN(to-from+1)
		for _, p := range []struct {
			kernels         attendKernels
			states, weights []float32
		}{{k.attend[kind], got, scores}, {plainKernels.attend[kind], want, twin}} {
			p.kernels.weigh(p.states, p.weights, values, dim, n, from, to, 0.7)
			p.kernels.addValues(p.states, p.weights, values, dim, n, from, middle)
			p.kernels.addValues(p.states, p.weights, values, dim, n, middle, to)
		}
		if kind != compute.KVFP8 { // whose kernels scale codes by way of the weights
			requireClose(t, "weights", scores, twin)
		}
		for i := range n {
			g, w := got[i*size:][:size], want[i*size:][:size]
			requireClose(t, "sums of weights", g[:lanes], w[:lanes])
			requireClose(t, "greatest score", g[stateTop:stateTop+1], w[stateTop:stateTop+1])
			requireClose(t, "values", g[stateHead:], w[stateHead:])
		}
	}
}

// testWhole demands that whole blocks, taken in one go, leave the same bits as
// the kernels that it stands for, block by block.
func testWhole(t *testing.T, k *attendKernels, r *rand.Rand, kind compute.KVType, dim, n int) {
	if k.whole == nil {
		return
	}
	pool := kvPool{shape: compute.KVShape{Layers: 2, KVHeads: 3, HeadDim: dim, Blocks: 7, Type: kind}}
	for range pool.shape.Blocks * pool.shape.Layers * 2 * pool.shape.KVHeads {
		pool.data = append(pool.data, randomPart(r, kind, dim)...)
	}
	const layer, head, scale = 1, 2, 0.9
	blocks, q := []int32{4, 0, 6, 6, 1}[:r.IntN(6)], randomFloats(r, n*dim)
	size, scores := stateHead+dim, make([]float32, n*lanes)
	got := make([]float32, n*size)
	for i := range n {
		got[i*size+stateTop] = float32(math.Inf(-1))
	}
	want := slices.Clone(got)
	keys, valuesAt := pool.from(layer, head)
	k.whole(got, scores, q, keys, blocks, int(pool.shape.BlockBytes()), valuesAt, dim, n, scale,
		make([]float32, openedBlock(dim)))
	for _, block := range blocks {
		keys, values := pool.head(block, layer, head)
		k.scores(scores, q, keys, dim, n)
		k.weigh(want, scores, values, dim, n, 0, lanes, scale)
		k.addValues(want, scores, values, dim, n, 0, lanes)
	}
	if err := sameBits(got, want); err != nil {
		t.Errorf("%d whole blocks of %v, %d queries of %d: %v", len(blocks), kind, n, dim, err)
	}
}
