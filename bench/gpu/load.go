package gpu

import (
	"errors"
	"time"

	"parley/compute"
	"parley/compute/cuda"
	"parley/compute/libcuda"
	"parley/model"
	"parley/model/weights"
)

// A Loading is how long a model takes to load, beside plain copies of the same bytes
// from memory that is not pinned.
type Loading struct {
	Bytes        int64
	Model, Plain time.Duration
}

// Ratio is how many times as long the model takes.
func (l Loading) Ratio() float64 { return float64(l.Model) / float64(l.Plain) }

// MeasureLoad loads a model and copies its tensors. Both are the second of two rounds, so
// that kernels are compiled and pages are there.
func MeasureLoad(ck *weights.Checkpoint, device int) (l Loading, err error) {
	for range 2 {
		if l.Model, err = loadModel(ck, device); err != nil {
			return l, err
		}
	}
	l.Bytes, l.Plain, err = copyTensors(ck, device)
	return l, err
}

func loadModel(ck *weights.Checkpoint, device int) (took time.Duration, err error) {
	backend, err := cuda.Open(device)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	begun := time.Now()
	if _, err = model.Load(ck, backend, model.Limits{Rows: 1, Outputs: 1, Blocks: 1, KV: compute.KVBF16}); err != nil {
		return 0, err
	}
	backend.Wait()
	return time.Since(begun), nil
}

// copyTensors copies all tensors to one place of the device.
func copyTensors(ck *weights.Checkpoint, device int) (bytes int64, took time.Duration, err error) {
	gpu, err := libcuda.Open(device)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, gpu.Close()) }()
	largest := int64(0)
	for _, t := range ck.Tensors() {
		largest = max(largest, int64(len(t.Data)))
	}
	at, err := gpu.Allocate(largest)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, gpu.Release(at)) }()
	begun := time.Now()
	for _, t := range ck.Tensors() {
		if err := gpu.Upload(at, t.Data); err != nil {
			return 0, 0, err
		}
		bytes += int64(len(t.Data))
	}
	err = gpu.Synchronize()
	return bytes, time.Since(begun), err
}
