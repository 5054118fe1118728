package weights

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"

	"parley/model/f8"
)

// F8Group is how many columns of a row of type [F8E4M3] share one scale.
const F8Group = f8.Group

// ScaleCols returns how many scales each row has: 0 unless the type has scales.
func (t Tensor) ScaleCols() int {
	if t.Type != F8E4M3 {
		return 0
	}
	return f8.Groups(t.Cols())
}

// CheckScales reports scales that are missing or too many.
func (t Tensor) CheckScales() error {
	if want := t.Rows() * t.ScaleCols(); len(t.Scales) != want {
		return fmt.Errorf("tensor %s: %s %v has %d scales, not %d", t.Name, t.Type, t.Shape, len(t.Scales), want)
	}
	return nil
}

// RowsBF16 returns n rows of an F8E4M3 tensor from the given one on as BF16, each
// element rounded to the nearest with ties to even.
func (t Tensor) RowsBF16(first, n int) *Tensor {
	cols, groups := t.Cols(), t.ScaleCols()
	out := &Tensor{Name: t.Name, Type: BF16, Shape: []int{n, cols}, Data: make([]byte, 2*n*cols)}
	row := make([]float32, cols)
	for i := first; i < first+n; i++ {
		f8.Read(row, t.Row(i), t.Scales[i*groups:][:groups])
		for k, v := range row {
			binary.LittleEndian.PutUint16(out.Data[2*((i-first)*cols+k):], ToBF16(v))
		}
	}
	return out
}

// ToF8 rounds a matrix of type F32, F16 or BF16 to F8E4M3, on all processors. A
// weight that is infinite or NaN is an error.
func (t Tensor) ToF8() (Tensor, error) {
	if t.Type != F32 && t.Type != F16 && t.Type != BF16 {
		return Tensor{}, fmt.Errorf("tensor %s: type %s is not rounded to %s: want BF16, F16 or F32", t.Name, t.Type,
			F8E4M3)
	}
	if len(t.Shape) < 2 {
		return Tensor{}, fmt.Errorf("tensor %s: shape %v is not a matrix: only matrices are rounded to %s", t.Name,
			t.Shape, F8E4M3)
	}
	rows, cols := t.Rows(), t.Cols()
	out := Tensor{
		Name:   t.Name,
		Type:   F8E4M3,
		Shape:  t.Shape,
		Data:   make([]byte, rows*cols),
		Scales: make([]float32, rows*f8.Groups(cols)),
	}
	workers := min(rows, runtime.GOMAXPROCS(0))
	errs := make([]error, workers)
	var group sync.WaitGroup
	for k := range workers {
		group.Go(func() { errs[k] = out.roundRows(&t, k*rows/workers, (k+1)*rows/workers) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return Tensor{}, fmt.Errorf("tensor %s: %w", t.Name, err)
		}
	}
	return out, nil
}

// roundRows sets the rows from..to to those of src.
func (t Tensor) roundRows(src *Tensor, from, to int) error {
	groups, values := t.ScaleCols(), make([]float32, t.Cols())
	for i := from; i < to; i++ {
		row, scales := t.Row(i), t.Scales[i*groups:][:groups]
		var bad int
		if src.Type == BF16 {
			bad = f8.RoundBF16(row, scales, src.Row(i))
		} else if err := Dequantize(values, src.Type, src.Row(i)); err != nil {
			return err
		} else {
			bad = f8.Round(row, scales, values)
		}
		if bad >= 0 {
			return fmt.Errorf("row %d has a weight that is infinite or NaN in columns %d to %d", i, bad*F8Group,
				min((bad+1)*F8Group, t.Cols())-1)
		}
	}
	return nil
}
