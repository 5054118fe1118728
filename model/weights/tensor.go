package weights

import (
	"fmt"
	"math"

	"parley/model/f8"
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
	// Scales belong to type [F8E4M3] alone: one for each row and each group of
	// [F8Group] columns that begins, [rows][groups]. An element is the product
	// of its code and the scale of its group.
	Scales []float32
	// Own is set if Data is memory of its own and not a view of the file: a copy need not keep it.
	Own bool
	// source is what Scales are made of in [Tensor.Loaded], and packed what Data are made of; nil afterwards.
	source *f8.Source
	packed *fourBits
}

// Loaded returns the tensor with its Scales and Data, for a tensor of [Checkpoint.Tensors].
func (t Tensor) Loaded() Tensor {
	if t.source != nil {
		t.Scales, t.source = t.source.Scales(t.Rows(), t.Cols()), nil
	}
	if t.packed != nil {
		t.Data, t.packed, t.Own = t.packed.blocks(t.Type), nil, true
	}
	return t
}

// Stored returns the bytes of the file that the tensor's elements come from.
func (t Tensor) Stored() []byte {
	if t.packed != nil {
		return t.packed.codes
	}
	return t.Data
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

// ReadRow sets dst to the elements of row i.
func (t Tensor) ReadRow(dst []float32, i int) error {
	if t.Type != F8E4M3 {
		return Dequantize(dst, t.Type, t.Row(i))
	}
	n := t.ScaleCols()
	if len(dst) != t.Cols() || len(t.Scales) < (i+1)*n {
		return fmt.Errorf("tensor %s: row %d of %d elements with %d scales is not %d elements", t.Name, i, t.Cols(),
			len(t.Scales), len(dst))
	}
	f8.Read(dst, t.Row(i), t.Scales[i*n:][:n])
	return nil
}

// Float32s returns all elements as a new slice.
func (t Tensor) Float32s() ([]float32, error) {
	if !t.Type.Computable() {
		return nil, fmt.Errorf("tensor %s: type %s is not supported", t.Name, t.Type)
	}
	if err := t.CheckScales(); err != nil {
		return nil, err
	}
	out := make([]float32, t.Elements())
	if t.Type != F8E4M3 {
		if err := Dequantize(out, t.Type, t.Data); err != nil {
			return nil, fmt.Errorf("tensor %s: %w", t.Name, err)
		}
		return out, nil
	}
	if len(t.Data) != len(out) {
		return nil, fmt.Errorf("tensor %s: %d elements of type %s are not %d bytes", t.Name, len(out), t.Type,
			len(t.Data))
	}
	for i, cols := 0, t.Cols(); i < t.Rows(); i++ {
		f8.Read(out[i*cols:][:cols], t.Row(i), t.Scales[i*t.ScaleCols():][:t.ScaleCols()])
	}
	return out, nil
}

// slab returns part i of n equal parts of the outermost dimension's rows,
// with the given shape.
func (t Tensor) slab(name string, i, n int, shape []int) Tensor {
	return Tensor{
		Name:   name,
		Type:   t.Type,
		Shape:  shape,
		Data:   part(t.Data, i, n),
		Scales: part(t.Scales, i, n),
	}
}

// part returns part i of n equal parts of a slice.
func part[T any](all []T, i, n int) []T {
	size := len(all) / n
	return all[i*size : (i+1)*size : (i+1)*size]
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
