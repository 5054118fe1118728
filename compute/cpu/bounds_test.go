//go:build unix

package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"

	"parley/compute"
	"parley/model/weights"
)

// A yard hands out memory that ends at a page that nobody may touch: kernels check
// no bounds, and a file's last tensor may end where its mapping does.
type yard struct {
	testing.TB
	mapped [][]byte
}

func newYard(t testing.TB) *yard {
	y := &yard{TB: t}
	t.Cleanup(y.clear)
	return y
}

func (y *yard) clear() {
	for _, b := range y.mapped {
		if err := syscall.Munmap(b); err != nil {
			y.Error(err)
		}
	}
	y.mapped = nil
}

// fenced returns a copy of x that nothing follows.
func fenced[T any](y *yard, x []T) []T {
	y.Helper()
	var one T
	page, size := syscall.Getpagesize(), len(x)*int(unsafe.Sizeof(one))
	room := (size + page - 1) / page * page
	b, err := syscall.Mmap(-1, 0, room+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		y.Fatal(err)
	}
	y.mapped = append(y.mapped, b)
	if err := syscall.Mprotect(b[room:], syscall.PROT_NONE); err != nil {
		y.Fatal(err)
	}
	copied := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b[room-size:]))), len(x))
	copy(copied, x)
	return copied
}

// floats returns fenced room for n numbers.
func (y *yard) floats(n int) []float32 { return fenced(y, make([]float32, n)) }

// bytes returns fenced room for n bytes.
func (y *yard) bytes(n int) []byte { return fenced(y, make([]byte, n)) }

// inside fails the test if do touches what it was not given.
func (y *yard) inside(what string, do func()) {
	y.Helper()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if reason := recover(); reason != nil {
			y.Errorf("%s: %v", what, reason)
		}
	}()
	do()
}

// forEachYard runs f on every path that is not its own twin.
func forEachYard(t *testing.T, f func(y *yard, k *kernelSet, r *rand.Rand)) {
	forEachKernelSet(t, func(t *testing.T, k *kernelSet, r *rand.Rand) { f(newYard(t), k, r) })
}

func TestFencesHold(t *testing.T) {
	y := newYard(t)
	f := y.floats(3)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if !panics(func() { plainAddTo(unsafe.Slice(&f[0], 4), []float32{1, 1, 1, 1}, 4) }) || f[2] != 1 {
		t.Error("what follows can be written to")
	}
}

func TestPackingStaysInside(t *testing.T) {
	forEachYard(t, func(y *yard, k *kernelSet, r *rand.Rand) {
		for kind, q := range packings {
			for _, outputs := range []int{1, 31, 32, 33} {
				cols := kind.BlockLen() * (1 + r.IntN(5))
				tensor := randomTensor(r, kind, outputs, cols)
				tensor.Data = fenced(y, tensor.Data)
				first := outputs - 1 - (outputs-1)%panelOutputs
				y.inside(fmt.Sprintf("packing %s, %d rows of %d", kind, outputs, cols), func() {
					q.pack(k, y.bytes(q.bytes(cols/quantBlock)), &tensor, first, outputs-first)
				})
			}
		}
	})
}

func TestGemmsStayInside(t *testing.T) {
	forEachYard(t, func(y *yard, k *kernelSet, r *rand.Rand) {
		for kind, q := range packings {
			for rows := 1; rows <= k.packedRows; rows++ {
				blocks := q.run * (1 + r.IntN(4))
				act, facts, stride := extremeActivations(r, rows, blocks)
				// The last row's facts end with it.
				act = fenced(y, act[:(rows-1)*stride+blocks*(quantBlock+factBytes)])
				facts = act[blocks*quantBlock:]
				panel := fenced(y, extremePanel(r, q, blocks))
				dst := y.floats((rows-1)*40 + panelOutputs)
				y.inside(fmt.Sprintf("%s, %d rows, %d blocks", kind, rows, blocks), func() {
					k.gemmPacked[q.kind](rows, dst, 40, act, facts, stride, panel, blocks, panel, 3)
				})
			}
		}
		for _, kind := range []weights.DType{weights.F32, weights.F16, weights.BF16} {
			for _, cols := range []int{1, 2, 15, 16, 33} {
				y.floatGemms(k, r, kind, cols)
			}
		}
		for blocks := range 4 {
			src := fenced(y, randomFloats(r, blocks*quantBlock))
			dst, facts := y.bytes(blocks*quantBlock), y.bytes(blocks*factBytes)
			y.inside(fmt.Sprintf("quantizing %d blocks", blocks), func() { k.quantize(dst, facts, src, blocks) })
		}
	})
}

// floatGemms multiplies with a panel of floats.
func (y *yard) floatGemms(k *kernelSet, r *rand.Rand, kind weights.DType, cols int) {
	panel := fenced(y, randomTensor(r, kind, cols, panelOutputs).Data)
	gemm, wide := k.floats(kind)
	for _, more := range []bool{false, true} {
		for rows := 1; rows <= k.floatRows; rows++ {
			dst, x := y.floats((rows-1)*35+panelOutputs), fenced(y, randomFloats(r, (rows-1)*(cols+3)+cols))
			y.inside(fmt.Sprintf("%s, %d rows of %d", kind, rows, cols), func() {
				gemm(rows, dst, 35, x, cols+3, panel, cols, more)
			})
		}
		if wide != nil {
			dst, x := y.floats((tileRows-1)*35+panelOutputs), fenced(y, randomFloats(r, tileRows*cols))
			y.inside(fmt.Sprintf("%s, a tile of %d columns", kind, cols), func() {
				wide(dst, 35, x, panel, cols, more)
			})
		}
	}
}

func TestRowKernelsStayInside(t *testing.T) {
	forEachYard(t, func(y *yard, k *kernelSet, r *rand.Rand) {
		for _, n := range []int{0, 1, 15, 16, 17, 31, 48, 65} {
			a, b, c, d := fenced(y, randomFloats(r, n)), fenced(y, randomFloats(r, n)), fenced(y,
				randomFloats(r, n)), fenced(y, randomFloats(r, n))
			pairs, cos, sin := fenced(y, randomFloats(r, 2*n)), fenced(y, randomFloats(r, n)), fenced(y,
				randomFloats(r, n))
			for what, do := range map[string]func(){
				"add":         func() { k.add(a, b) },
				"addWeighted": func() { k.addWeighted(a, b, 2) },
				"scale":       func() { k.scale(a, b, 2) },
				"merge":       func() { k.merge(a, b, 2, 3) },
				"norm":        func() { k.norm(a, b, c, y.floats(lanes), 1e-5, 0) },
				"SiLU":        func() { k.activate(compute.SiLU, a, b) },
				"GELU":        func() { k.activate(compute.GELUTanh, a, b) },
				"turn":        func() { k.turn(a, b, c, d) },
				"turnPairs":   func() { k.turnPairs(pairs, cos, sin) },
			} {
				y.inside(fmt.Sprintf("%s of %d", what, n), do)
			}
		}
	})
}

func TestAttentionStaysInside(t *testing.T) {
	forEachYard(t, func(y *yard, k *kernelSet, r *rand.Rand) {
		for kind := range compute.KVType(compute.KVTypes) {
			for _, dim := range []int{2, 6, 16, 48, 80, 128} {
				for n := 1; n < 9; n++ {
					y.attend(k, r, kind, dim, n)
					y.clear()
				}
			}
		}
	})
}

// attend takes the last block of a pool into n queries' states.
func (y *yard) attend(k *kernelSet, r *rand.Rand, kind compute.KVType, dim, n int) {
	pool := kvPool{shape: compute.KVShape{Layers: 1, KVHeads: 2, HeadDim: dim, Blocks: 2, Type: kind}}
	for range pool.shape.Blocks * 2 * pool.shape.KVHeads {
		pool.data = append(pool.data, randomPart(r, kind, dim)...)
	}
	pool.data = fenced(y, pool.data)
	size := stateHead + dim
	states, scores, q := y.floats(n*size), y.floats(n*lanes), fenced(y, randomFloats(r, n*dim))
	for i := range n {
		states[i*size+stateTop] = float32(math.Inf(-1))
	}
	f, what := k.attend[kind], fmt.Sprintf("%v, %d queries of %d", kind, n, dim)
	keys, values := pool.head(1, 0, 1)
	y.inside("scores of "+what, func() { f.scores(scores, q, fenced(y, keys), dim, n) })
	if dim%lanes != 0 {
		return
	}
	from := r.IntN(lanes)
	to := from + 1 + r.IntN(lanes-from)
	y.inside("weights of "+what, func() { f.weigh(states, scores, values, dim, n, from, to, 0.5) })
	y.inside("values of "+what, func() { f.addValues(states, scores, values, dim, n, from, to) })
	if f.whole == nil {
		return
	}
	first, valuesAt := pool.from(0, 1)
	y.inside("whole blocks of "+what, func() {
		f.whole(states, scores, q, first, fenced(y, []int32{0, 1, 1}), int(pool.shape.BlockBytes()), valuesAt, dim, n,
			0.5, y.floats(openedBlock(dim)))
	})
}
