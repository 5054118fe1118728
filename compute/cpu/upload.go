package cpu

import (
	"encoding/binary"
	"fmt"

	"parley/compute"
	"parley/model/weights"
)

// takes returns the forms that are needed for a number of rows.
func (w *weight) takes(rows int) forms {
	switch f := w.brain; {
	case f == nil || rows < f.from:
	case rows <= brainFew && f.few != nil:
		return asFew
	default:
		return asBrain
	}
	if w.quantizes() {
		return asInts
	}
	return asColumns
}

// readRow dequantizes a row.
func (w *weight) readRow(dst []float32, i int) {
	t := &w.stored
	if w.narrow.Data != nil {
		t = &w.narrow
	}
	must(t.ReadRow(dst, i))
}

// must stops on errors that Upload has excluded.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// panelSize returns the bytes of a packed panel, 0 for types that are not packed.
func panelSize(t weights.DType, cols int) int {
	if q := packings[t]; q != nil {
		return q.bytes(cols / quantBlock)
	}
	switch t {
	case weights.F32:
		return t.RowBytes(cols) * panelOutputs
	case weights.F16, weights.BF16, weights.F8E4M3: // in whole steps of the matrix unit
		return stepsOf(cols) * panelStep
	}
	return 0
}

// PackedBytes returns how much memory Upload takes for a tensor, beyond that
// of the file it lies in.
func PackedBytes(t weights.DType, rows, cols int) int64 {
	if rows == 1 {
		return 4 * int64(cols)
	}
	panels := (int64(rows) + panelOutputs - 1) / panelOutputs
	return panels * int64(panelSize(t, cols))
}

// Upload packs a matrix for multiplication, or dequantizes a vector. The
// tensor's own bytes stay in use, unless they are a copy: rows of an embedding are read there. A matrix of
// F8E4M3 is widened to BF16, its scales included: the processor has no
// instructions for it.
func (c *CPU) Upload(t weights.Tensor) (compute.Weight, error) {
	if err := checkTensor(t); err != nil {
		return nil, err
	}
	w := &weight{stored: t, rows: t.Rows(), cols: t.Cols()}
	if w.rows == 1 {
		w.vector = make([]float32, w.cols)
		return w, t.ReadRow(w.vector, 0)
	}
	if t.Type == weights.F8E4M3 {
		w.narrow, t.Type = t, weights.BF16
		w.stored = weights.Tensor{Name: t.Name, Type: t.Type, Shape: t.Shape}
	}
	w.panelBytes, w.packing, w.brain = panelSize(t.Type, w.cols), packings[t.Type], c.brainFormOf(t.Type)
	if w.panelBytes == 0 {
		return w, nil
	}
	var err error
	if w.packed, err = c.memory.take(PackedBytes(t.Type, w.rows, w.cols)); err != nil {
		return nil, fmt.Errorf("%w for tensor %s", err, t.Name)
	}
	c.jobs.pack = packJob{c.kernels, w}
	c.pool.do(&c.jobs.pack, w.panels(), 1)
	if t.Own {
		w.stored.Data = nil
	}
	return w, nil
}

// UploadTable keeps the tensor's bytes where they are: rows are read there.
func (c *CPU) UploadTable(t weights.Tensor) (compute.Weight, error) {
	if err := checkTensor(t); err != nil {
		return nil, err
	}
	return &weight{stored: t, rows: t.Rows(), cols: t.Cols()}, nil
}

// checkTensor reports what is wrong with a tensor before memory is taken for it.
func checkTensor(t weights.Tensor) error {
	if !t.Type.Computable() {
		return fmt.Errorf("cpu: tensor %s has type %s, which cannot be computed with: convert the model", t.Name,
			t.Type)
	}
	elements := 1
	for _, d := range t.Shape {
		if d < 1 || d > maxElements/elements {
			return fmt.Errorf("cpu: tensor %s has the impossible shape %v", t.Name, t.Shape)
		}
		elements *= d
	}
	row := t.Type.RowBytes(t.Cols())
	if row == 0 || row*t.Rows() != len(t.Data) {
		return fmt.Errorf("cpu: tensor %s has %d bytes, but %v of type %s is %d rows of %d bytes: the file is damaged",
			t.Name, len(t.Data), t.Shape, t.Type, t.Rows(), row)
	}
	return t.CheckScales()
}

func (j *packJob) run(_, from, to int) {
	for p := from; p < to; p++ {
		first := p * panelOutputs
		outputs := min(panelOutputs, j.w.rows-first)
		t := &j.w.stored
		if j.w.narrow.Data != nil {
			t, first = j.w.narrow.RowsBF16(first, outputs), 0
		}
		switch {
		case j.w.packing != nil:
			j.w.packing.pack(j.kernels, j.w.panel(p), t, first, outputs)
		case t.Type == weights.F32:
			packFloats[uint32](j.w.panel(p), t, first, outputs)
		case t.Type == weights.BF16 && j.w.brain != nil:
			packPairs(j.w.panel(p), t, first, outputs)
		default:
			packFloats[uint16](j.w.panel(p), t, first, outputs)
		}
	}
}

// packFloats transposes the rows of a panel. Absent outputs stay zero.
func packFloats[T uint16 | uint32](dst []byte, t *weights.Tensor, first, outputs int) {
	out := view[T](dst)
	for o := range outputs {
		row := t.Row(first + o)
		for k := range t.Cols() {
			out[k*panelOutputs+o] = element[T](row, k)
		}
	}
}

// packPairs writes the rows of a panel as the matrix unit takes bfloat16: pairs of
// columns, side by side for each output. Absent outputs and columns stay zero.
func packPairs(dst []byte, t *weights.Tensor, first, outputs int) {
	out, cols := view[uint32](dst), t.Cols()
	for o := range outputs {
		row := t.Row(first + o)
		for pair := range cols / 2 {
			out[pair*panelOutputs+o] = element[uint32](row, pair)
		}
		if cols%2 == 1 {
			out[cols/2*panelOutputs+o] = uint32(element[uint16](row, cols-1))
		}
	}
}

// element reads a little-endian number; a file's bytes need not be aligned.
func element[T uint16 | uint32](b []byte, i int) T {
	var v T
	switch p := any(&v).(type) {
	case *uint16:
		*p = binary.LittleEndian.Uint16(b[i*2:])
	case *uint32:
		*p = binary.LittleEndian.Uint32(b[i*4:])
	}
	return v
}
