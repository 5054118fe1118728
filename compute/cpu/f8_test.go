package cpu

import (
	"testing"

	"parley/compute"
	"parley/model/weights"
)

// TestF8IsComputedAsBF16 wants of a matrix of F8E4M3 the bits of the same numbers
// rounded to BF16, on every path and for few and many rows.
func TestF8IsComputedAsBF16(t *testing.T) {
	forEachPath(t, func(t *testing.T, path string) {
		for _, s := range []struct{ rows, cols, outputs int }{{1, 256, 64}, {5, 200, 33}, {tiledFrom + 5, 384, 40}} {
			r := newRand(uint64(s.cols))
			narrow := randomTensor(r, weights.F8E4M3, s.outputs, s.cols)
			x := randomFloats(r, s.rows*s.cols)
			multiply := func(w weights.Tensor) scenario {
				return func(b bench) []float32 {
					out := b.Buffer(s.rows, s.outputs, nil)
					b.Begin(plainStep(s.rows), nil)
					b.Linear(b.Buffer(s.rows, s.cols, x), []compute.Projection{{Out: out, W: b.Weight(w)}})
					return contents(out)
				}
			}
			got := multiply(narrow).on(t, Options{Threads: 2, Path: path})
			want := multiply(*narrow.RowsBF16(0, s.outputs)).on(t, Options{Threads: 2, Path: path})
			if err := sameBits(got, want); err != nil {
				t.Errorf("%+v: %v", s, err)
			}
		}
	})
}

// TestF8Vectors reads a single row and rows of a table with their scales.
func TestF8Vectors(t *testing.T) {
	c, err := New(Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	table := randomTensor(newRand(5), weights.F8E4M3, 3, 300)
	want, err := table.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	for _, upload := range []func(weights.Tensor) (compute.Weight, error){c.Upload, c.UploadTable} {
		w, err := upload(table)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, 300)
		w.(*weight).readRow(got, 2)
		if err := sameBits(got, want[600:]); err != nil {
			t.Error(err)
		}
	}
	row := randomTensor(newRand(6), weights.F8E4M3, 1, 300)
	if want, err = row.Float32s(); err != nil {
		t.Fatal(err)
	}
	w, err := c.Upload(row)
	if err != nil {
		t.Fatal(err)
	}
	if err := sameBits(w.(*weight).vector, want); err != nil {
		t.Error(err)
	}
}
