package weights

import (
	"fmt"
	"math"
)

// A Tensor is one named block of weights. Data is a view of the file and must
// not be written to, nor used after the checkpoint is closed.
type Tensor struct {
	// Name is the canonical (GGUF) name, or the file's own name where the
	// tensor has no part in the model.
	Name string
	Type DType
	// Shape is written outermost first: a matrix is [rows, cols].
	Shape []int
	Data  []byte
}

// Elements returns the number of elements.
func (t Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n
}

// Cols returns the length of a row, the innermost dimension; 1 for a scalar.
func (t Tensor) Cols() int {
	if len(t.Shape) == 0 {
		return 1
	}
	return t.Shape[len(t.Shape)-1]
}

// Rows returns how many rows there are, counted over all outer dimensions.
func (t Tensor) Rows() int {
	rows := 1
	for i := range len(t.Shape) - 1 {
		rows *= t.Shape[i]
	}
	return rows
}

// Row returns the stored bytes of row i.
func (t Tensor) Row(i int) []byte {
	n := t.Type.RowBytes(t.Cols())
	return t.Data[i*n : (i+1)*n : (i+1)*n]
}

// Float32s returns all elements as a new slice.
func (t Tensor) Float32s() ([]float32, error) {
	if !t.Type.Computable() {
		return nil, fmt.Errorf("tensor %s: type %s is not supported", t.Name, t.Type)
	}
	out := make([]float32, t.Elements())
	if err := Dequantize(out, t.Type, t.Data); err != nil {
		return nil, fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	return out, nil
}

// slab returns part i of n equal parts of the outermost dimension's rows,
// with the given shape.
func (t Tensor) slab(name string, i, n int, shape []int) Tensor {
	size := len(t.Data) / n
	return Tensor{Name: name, Type: t.Type, Shape: shape, Data: t.Data[i*size : (i+1)*size : (i+1)*size]}
}

// tensorBytes returns the size of a tensor with this type and shape, or an
// error when the shape is impossible. Nothing overflows, whatever the numbers.
func tensorBytes(t DType, shape []int) (int64, error) {
	if !t.Known() {
		return 0, fmt.Errorf("unknown %s", t)
	}
	rows, cols := int64(1), int64(1)
	for i, d := range shape {
		if d < 1 {
			return 0, fmt.Errorf("dimension %d of shape %v is %d, not positive", i, shape, d)
		}
		if i == len(shape)-1 {
			cols = int64(d)
		} else if rows > math.MaxInt64/int64(d) {
			return 0, fmt.Errorf("shape %v has too many elements", shape)
		} else {
			rows *= int64(d)
		}
	}
	if cols > math.MaxInt || cols%int64(t.BlockLen()) != 0 {
		return 0, fmt.Errorf("rows of %d elements are not a whole number of %s blocks of %d", cols, t, t.BlockLen())
	}
	row := int64(t.RowBytes(int(cols)))
	if row == 0 || rows > math.MaxInt64/row {
		return 0, fmt.Errorf("shape %v has too many elements", shape)
	}
	return rows * row, nil
}
