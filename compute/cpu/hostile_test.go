package cpu

import (
	"math"
	"slices"
	"testing"

	"parley/compute"
	"parley/compute/computetest"
	"parley/model/weights"
)

// TestNoNumberStaysVisible puts one value that is no number, or too large for one,
// into one of several rows: all of that row's outputs must show it, because whoever
// looks at logits takes anything else for an answer, and the other rows must not change.
func TestNoNumberStaysVisible(t *testing.T) {
	const cols, outputs, spoiled = 256, 40, 1
	forEachPath(t, func(t *testing.T, path string) {
		for _, kind := range allTypes {
			for _, rows := range []int{3, redoRows + 9, tiledFrom + 5} {
				good := make([]float32, rows*cols)
				want := spoiledLinear(kind, rows, cols, outputs, good).on(t, Options{Threads: 2, Path: path})
				for i, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
					x := slices.Clone(good)
					x[spoiled*cols+(i*61+rows)%cols] = bad
					got := spoiledLinear(kind, rows, cols, outputs, x).on(t, Options{Threads: 2, Path: path})
					for o, v := range got {
						isNumber := math.Abs(float64(v)) <= math.MaxFloat32
						if row := o / outputs; row == spoiled && isNumber || row != spoiled && v != want[o] {
							t.Fatalf("%s, %d rows, %v in row %d: output %d of row %d is %v, was %v", kind, rows, bad,
								spoiled, o%outputs, row, v, want[o])
						}
					}
				}
			}
		}
	})
}

// spoiledLinear multiplies x, which it fills up with random values where it is zero.
func spoiledLinear(kind weights.DType, rows, cols, outputs int, x []float32) scenario {
	return func(b bench) []float32 {
		r := newRand(uint64(rows))
		for i, v := range randomFloats(r, rows*cols) {
			if x[i] == 0 {
				x[i] = v
			}
		}
		w, out := b.Weight(randomTensor(r, kind, outputs, cols)), b.Buffer(rows, outputs, nil)
		b.Begin(plainStep(rows), nil)
		b.Linear(b.Buffer(rows, cols, x), []compute.Projection{{Out: out, W: w}})
		return contents(out)
	}
}

// TestOldBlocksDoNotMatter lets sequences write into blocks that are full of what
// is no number, as an earlier sequence may have left it there.
func TestOldBlocksDoNotMatter(t *testing.T) {
	forEachKVType(t, func(t *testing.T, path string, kind compute.KVType) {
		for i, heads := range []compute.Heads{{Query: 6, KV: 2, Dim: 64}, {Query: 2, KV: 2, Dim: 24},
			{Query: 8, KV: 1, Dim: 128}} {
			for _, window := range []int{0, 20} {
				l := computetest.Lookback{Heads: heads, Kind: kind, Window: window}
				l.Talks = []computetest.Conversation{{Chunks: []int{1, 37, 1, 5}, Blocks: []int32{3, 1, 4}},
					{Chunks: []int{17, 1}, Blocks: []int32{0, 2}}}
				run := func(fill byte) []float32 {
					c, err := New(Options{Threads: 1 + i, Path: path})
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					return scenario(l.Scenario())(bench{TB: t, Backend: stained{c, fill}})
				}
				if err := sameBits(run(0xff), run(0)); err != nil {
					t.Errorf("%+v, window %d: %v", heads, window, err)
				}
			}
		}
	})
}

// A stained backend has a pool that is not empty in the beginning.
type stained struct {
	*CPU
	fill byte
}

func (s stained) NewKV(shape compute.KVShape) error {
	err := s.CPU.NewKV(shape)
	for i := range s.kv.data {
		s.kv.data[i] = s.fill
	}
	return err
}

// TestFailedStepLeavesNothingBehind lets a step end in a panic, which the engine
// survives, and wants the next one to compute its own work alone.
func TestFailedStepLeavesNothingBehind(t *testing.T) {
	const rows, cols = 2, 64
	forEachPath(t, func(t *testing.T, path string) {
		c, err := New(Options{Threads: 2, Path: path})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		b, r := bench{TB: t, Backend: c}, newRand(1)
		w, wrong := b.Weight(randomTensor(r, weights.Q8_0, 40, cols)), b.Weight(
			randomTensor(r, weights.Q8_0, 40, 2*cols))
		x, first, second := b.Buffer(rows, cols, randomFloats(r, rows*cols)), b.Buffer(rows, 40, nil), b.Buffer(rows,
			40, nil)
		b.Begin(plainStep(rows), nil)
		if !panics(func() { b.Linear(x, []compute.Projection{{Out: first, W: w}, {Out: second, W: wrong}}) }) {
			t.Fatal("a matrix with other columns was multiplied")
		}
		b.Begin(plainStep(rows), nil)
		b.Linear(x, []compute.Projection{{Out: second, W: w}})
		if slices.ContainsFunc(contents(first), func(v float32) bool { return v != 0 }) {
			t.Error("the next step computed what was left of the one that failed")
		}
	})
}
