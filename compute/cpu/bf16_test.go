package cpu

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"parley/model/weights"
)

// brainSet returns the kernels for bfloat16, if this machine has them.
func brainSet(t *testing.T) *brainKernels {
	for _, p := range paths() {
		if p.supported && p.kernels.brain != nil {
			return p.kernels.brain
		}
	}
	t.Skip("this processor has no matrix unit for bfloat16")
	return nil
}

func TestSplitEqualsTwinExactly(t *testing.T) {
	k, r := brainSet(t), newRand(3)
	for _, steps := range []int{1, 2, 5} {
		src := randomFloats(r, steps*stepColumns)
		copy(src, []float32{0, 1, -1, 1e-30, 3e38, 1 + 1./256, 1 + 3./256, -1 - 1./256})
		for class := range brainClasses {
			got, want := make([]byte, class.parts()*steps*brainBytes), make([]byte, class.parts()*steps*brainBytes)
			k.rows[class](got, src, steps)
			plainSplit(class, want, src, steps)
			if !bytes.Equal(got, want) {
				t.Errorf("%d steps as %d parts differ from the twin", steps, class.parts())
			}
			wide := make([]float32, class.parts()*steps*stepColumns)
			k.floats[class](wide, src, steps)
			for i, v := range wide {
				if v != brainAt(want[2*i:]) {
					t.Errorf("float %d of %d steps as %d parts is %v, wanted %v", i, steps, class.parts(), v,
						brainAt(want[2*i:]))
				}
			}
		}
	}
}

func TestRoundedWeightsEqualTwinExactly(t *testing.T) {
	k, r := brainSet(t), newRand(4)
	for _, steps := range []int{1, 3, 8} {
		panel := randomTensor(r, weights.F16, steps*stepColumns, panelOutputs)
		values, err := panel.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		got, want := make([]byte, steps*panelStep), make([]byte, steps*panelStep)
		k.roundF16(got, panel.Data, steps)
		plainRound(want, steps, func(col, o int) float32 { return values[col*panelOutputs+o] })
		if !bytes.Equal(got, want) {
			t.Errorf("%d steps of half floats differ from the twin", steps)
		}
	}
	const blocks = 16
	for kind, q := range packings {
		panel := extremePanel(r, q, blocks)
		got, want := make([]byte, blocks*panelStep), make([]byte, blocks*panelStep)
		k.roundPacked[q.kind](got, panel, blocks)
		plainRound(want, blocks, q.reader(panel))
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from the twin", kind)
		}
	}
}

// reader returns a function that reads single weights of a panel.
func (q *packing) reader(panel []byte) func(col, o int) float32 {
	var open openBlock
	current := -1
	return func(col, o int) float32 {
		if b := col / quantBlock; b != current {
			run := panel[b/q.run*q.runBytes():][:q.runBytes()]
			q.open(&open, run[:q.head], run[q.head+b%q.run*q.blockBytes():][:q.blockBytes()])
			current = b
		}
		in := col % quantBlock
		w, scale := float32(open.weights[in/4*4*panelOutputs+o*4+in%4]), open.scales[in*q.subs/quantBlock][o]
		offset := -scale * float32(q.zero)
		if q.mins {
			offset = -open.mins[o]
		}
		return fma32(w+float32(q.zero), scale, offset)
	}
}

// brainCase is what a kernel for bfloat16 takes.
type brainCase struct {
	act, panel []byte
	actStride  int
}

func newBrainCase(r *rand.Rand, class brainClass, rows, steps int) brainCase {
	c := brainCase{actStride: brainRowBytes(steps*stepColumns, class.parts())}
	c.act = make([]byte, rows*c.actStride)
	for row := range rows {
		plainSplit(class, c.act[row*c.actStride:], randomFloats(r, steps*stepColumns), steps)
	}
	c.panel = make([]byte, steps*panelStep)
	plainRound(c.panel, steps, func(int, int) float32 { return float32(r.NormFloat64()) })
	return c
}

func TestBrainTilesEqualTwinExactly(t *testing.T) {
	k, r := brainSet(t), newRand(5)
	for class := range brainClasses {
		for _, rows := range []int{1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 64, 96} {
			steps := 1 + r.IntN(6)
			c := newBrainCase(r, class, rows, steps)
			got := randomFloats(r, rows*40)
			want := slices.Clone(got)
			for _, more := range []bool{true, false} {
				last := min(rows, 2*brainTile)
				k.gemm[class][(last-1)/brainTile](max(1, rows/(2*brainTile)), got, 40, c.act, c.actStride, c.panel,
					steps, brainConfigs[last][:], more)
				plainBrainGemm(class, rows, want, 40, c.act, c.actStride, c.panel, steps, more)
				if err := sameBits(got, want); err != nil {
					t.Errorf("%s: %v", fmt.Sprintf("class %d, %d rows, %d steps", class, rows, steps), err)
				}
			}
		}
	}
}

// A fewCase is a kernel for few rows, and what it must agree with.
type fewCase struct {
	kind   weights.DType
	class  brainClass
	kernel gemmFewFunc
	open   func(dst, panel []byte, steps int)
}

// TestFewRowsEqualTilesExactly compares what vectors compute with what the
// matrix unit does, which takes numbers as zero that are too small to be normal.
func TestFewRowsEqualTilesExactly(t *testing.T) {
	k, r := brainSet(t), newRand(6)
	for name, few := range map[string]fewCase{
		"F16 rounded":  {weights.F16, brainRounded, k.fewF16, k.roundF16},
		"BF16":         {weights.BF16, brainSplit, k.fewBF16[brainSplit], nil},
		"BF16 rounded": {weights.BF16, brainRounded, k.fewBF16[brainRounded], nil},
	} {
		for rows := 1; rows <= brainFew; rows++ {
			for _, steps := range []int{1, 2, 7} {
				x := randomFloats(r, rows*steps*stepColumns)
				for i := range x {
					x[i] *= []float32{1, 1, 1, 1e-38, 1e-36, 1e-30}[r.IntN(6)]
				}
				panel := make([]byte, steps*panelStep)
				for i := range len(panel) / 2 {
					putFloat(panel, few.kind, i, float32(r.NormFloat64()))
				}
				got := randomFloats(r, rows*40)
				want := slices.Clone(got)
				for _, more := range []bool{true, false} {
					few.run(k, rows, got, want, x, panel, steps, more)
					if err := sameBits(got, want); err != nil {
						t.Errorf("%s, %d rows, %d steps: %v", name, rows, steps, err)
					}
				}
			}
		}
	}
}

func (f fewCase) run(k *brainKernels, rows int, got, want, x []float32, panel []byte, steps int, more bool) {
	parts := f.class.parts()
	wide, act := make([]float32, parts*len(x)), make([]byte, parts*2*len(x))
	k.floats[f.class](wide, x, rows*steps)
	k.rows[f.class](act, x, rows*steps)
	f.kernel(rows, got, 40, wide, parts*steps*stepColumns, panel, steps, more)
	if f.open != nil {
		opened := make([]byte, len(panel))
		f.open(opened, panel, steps)
		panel = opened
	}
	k.gemm[f.class][0](1, want, 40, act, parts*steps*brainBytes, panel, steps, brainConfigs[rows][:], more)
}
