package cuda

import (
	"fmt"
	"sync"
	"unsafe"

	"parley/compute"
	"parley/compute/libcuda"
	"parley/model/weights"
)

// Dims returns the number of rows and columns.
func (w *weight) Dims() (rows, cols int) { return w.rows, w.cols }

// records is how many records lie side by side.
func (w *weight) records() int {
	return roundUp(w.cols, layouts[w.kind].record) / layouts[w.kind].record
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// WeightBytes returns the device memory that a tensor takes.
func WeightBytes(t weights.Tensor) int64 {
	l := layouts[t.Type]
	if l == nil || len(t.Shape) < 2 {
		return 4 * t.Elements()
	}
	return matrixBytes(l, t.Rows(), t.Cols())
}

func matrixBytes(l *layout, rows, cols int) int64 {
	return int64(roundUp(rows, l.rows)/l.rows) * int64(roundUp(cols, l.record)/l.record) * int64(l.bytes)
}

// stagingBytes is how much is copied at once on the way to the device, and stagingLeast what
// is taken for that; tests take less, so that they transfer weights in several pieces.
const stagingBytes = 64 << 20

var stagingLeast = stagingBytes

// stagedRows is of what rows come to the device in multiples of: whole records of every type.
const stagedRows = 64

func (s *staging) close(d driver) error {
	if s.host == nil {
		return nil
	}
	host := s.host
	s.host = nil
	return d.ReleasePinned(host)
}

// Upload brings a tensor into device memory.
func (c *CUDA) Upload(t weights.Tensor) (compute.Weight, error) {
	if err := checkTensor(t); err != nil {
		return nil, err
	}
	w := &weight{kind: t.Type, rows: t.Rows(), cols: t.Cols(), name: t.Name}
	if len(t.Shape) < 2 && t.Type != weights.F32 {
		values, err := t.Float32s()
		if err != nil {
			return nil, err
		}
		t = weights.Tensor{Name: t.Name, Type: weights.F32, Shape: t.Shape, Data: bytesOf(values)}
		w.kind = weights.F32
	}
	if err := c.loadMatrix(w.kind); err != nil {
		return nil, err
	}
	var err error
	if w.at, err = c.take(WeightBytes(t), "tensor "+t.Name); err != nil {
		return nil, err
	}
	return w, c.transfer(w, t)
}

// UploadTable brings a tensor into device memory.
func (c *CUDA) UploadTable(t weights.Tensor) (compute.Weight, error) { return c.Upload(t) }

// bytesOf returns the memory of a slice.
func bytesOf[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(*new(T))))
}

// checkTensor reports what is wrong with a tensor before memory is taken for it.
func checkTensor(t weights.Tensor) error {
	if !t.Type.Computable() {
		return fmt.Errorf("cuda: tensor %s has type %s, which cannot be computed with: convert the model", t.Name,
			t.Type)
	}
	elements := 1
	for _, d := range t.Shape {
		if d < 1 || d > maxElements/elements {
			return fmt.Errorf("cuda: tensor %s has the impossible shape %v", t.Name, t.Shape)
		}
		elements *= d
	}
	if err := t.CheckScales(); err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	row := t.Type.RowBytes(t.Cols())
	if row == 0 || row*t.Rows() != len(t.Data) {
		return fmt.Errorf("cuda: tensor %s has %d bytes, but %v of type %s is %d rows of %d bytes: the file is damaged",
			t.Name, len(t.Data), t.Shape, t.Type, t.Rows(), row)
	}
	return nil
}

// arrangeArgs are the arguments of the arrange kernels.
type (
	arrangeArgs struct {
		stored, records libcuda.Address
		rows, cols      int32
	}
	arrangeEightArgs struct {
		arrangeArgs
		scales libcuda.Address
	}
)

// openStaging takes the memory for transfers once, as large as rows of the model need.
func (c *CUDA) openStaging(row int) error {
	need := max(stagingLeast, 2*stagedRows*row)
	if len(c.staging.host) >= need {
		return nil
	}
	if err := c.driver.Synchronize(); err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	if err := first(c.staging.close(c.driver), c.give(c.staging.device)); err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	var err error
	if c.staging.host, err = c.driver.AllocatePinned(need); err != nil {
		return fmt.Errorf("cuda: no %d MiB of pinned memory to copy weights with: %w", need>>20, err)
	}
	c.staging.device, err = c.take(int64(need), "copying weights")
	return err
}

// transfer copies stored rows to the device, some strips at a time, and brings
// them into their layout there.
func (c *CUDA) transfer(w *weight, t weights.Tensor) error {
	data, scales := t.Data, bytesOf(t.Scales)
	row, scaleRow := len(data)/w.rows, len(scales)/w.rows
	if err := c.openStaging(row + scaleRow + 1); err != nil {
		return err
	}
	s := &c.staging
	half := len(s.host) / 2
	if w.kind == weights.F32 {
		row = 4 * w.cols
	}
	rows := max((half-16)/(row+scaleRow)/stagedRows*stagedRows, stagedRows)
	for at := 0; at < w.rows; at += rows {
		n := min(rows, w.rows-at)
		scalesAt := roundUp(n*row, 16)
		part := s.host[s.half*half:][:scalesAt+n*scaleRow]
		var free error // what was in this half has been copied
		if s.busy[s.half] {
			free = c.driver.Await(s.half)
		}
		copyParallel(part[:n*row], data[at*row:])
		copy(part[scalesAt:], scales[at*scaleRow:])
		raw := s.device + libcuda.Address(s.half*half)
		err := first(free, c.place(w, at, n, part, raw, scalesAt), c.driver.Mark(s.half))
		if err != nil {
			return fmt.Errorf("cuda: copying tensor %s: %w", w.name, err)
		}
		s.busy[s.half] = true
		s.half = 1 - s.half
	}
	return c.failed
}

// copyParallel is copy by several threads: one does not read as fast as the device takes it.
func copyParallel(dst, src []byte) {
	const least, most = 1 << 20, 8
	each := max(least, (len(dst)+most-1)/most)
	var copies sync.WaitGroup
	for at := 0; at < len(dst); at += each {
		to := dst[at:min(at+each, len(dst))]
		copies.Go(func() { copy(to, src[at:]) })
	}
	copies.Wait()
}

// place copies n rows from the row at on to their place in a matrix. Their scales begin at scalesAt.
func (c *CUDA) place(w *weight, at, n int, part []byte, raw libcuda.Address, scalesAt int) error {
	if w.kind == weights.F32 {
		return c.driver.Upload(w.at+libcuda.Address(4*at*w.cols), part[:4*n*w.cols])
	}
	if err := c.driver.Upload(raw, part); err != nil {
		return err
	}
	l, k := layouts[w.kind], c.arrange[w.kind]
	records := roundUp(n, l.rows) / l.rows * w.records()
	args := arrangeArgs{
		stored:  raw,
		records: w.at + libcuda.Address(at/l.rows*w.records()*l.bytes),
		rows:    int32(n),
		cols:    int32(w.cols),
	}
	if w.kind == weights.F8E4M3 {
		start(c, &k, min(8*records, 4096), 1, &arrangeEightArgs{args, raw + libcuda.Address(scalesAt)})
		return nil
	}
	start(c, &k, min((records+7)/8, 4096), 1, &args)
	return nil
}
