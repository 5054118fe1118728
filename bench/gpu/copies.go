package gpu

import (
	"errors"
	"time"

	"parley/compute"
	"parley/compute/cuda"
	"parley/compute/libcuda"
	"parley/engine/kv"
	"parley/engine/tier"
	"parley/model"
	"parley/model/weights"
)

// Copies is how long it takes to copy the same bytes from the device to host memory and
// back: as blocks of the pool, as the tiers do it, and as one plain copy of pinned memory.
type Copies struct {
	Bytes            int64
	Offload, Restore time.Duration // of the blocks
	Plain            time.Duration
}

// Ratio is how many times as long the blocks take.
func (c Copies) Ratio() float64 { return float64(c.Offload+c.Restore) / float64(c.Plain) }

// RestorePerGB is how long a gigabyte of blocks takes from host memory to the device.
func (c Copies) RestorePerGB() time.Duration {
	return time.Duration(float64(c.Restore) * 1e9 / float64(c.Bytes))
}

// MeasureCopies copies blocks of a model's shape, bytes of them in all. Both times are
// the best of some rounds.
func MeasureCopies(cfg *weights.Config, device int, bytes int64) (c Copies, err error) {
	shape := model.KVShape(cfg, 1, compute.KVBF16)
	shape.Blocks = int(bytes / shape.BlockBytes())
	c.Bytes = int64(shape.Blocks) * shape.BlockBytes()
	backend, err := cuda.Open(device)
	if err != nil {
		return c, err
	}
	if err := backend.NewKV(shape); err != nil {
		return c, errors.Join(err, backend.Close())
	}
	tiers, _, err := tier.Open(tier.Config{
		Device:     tier.DeviceOf(backend),
		BlockBytes: shape.BlockBytes(),
		HostBlocks: shape.Blocks,
	})
	if err != nil {
		return c, errors.Join(err, backend.Close())
	}
	defer func() { err = errors.Join(err, backend.Close(), tiers.Close()) }()
	var out, back []kv.Move
	for i := range int32(shape.Blocks) {
		out = append(out, kv.Move{From: kv.Device, To: kv.Host, FromSlot: i, ToSlot: i})
		back = append(back, kv.Move{From: kv.Host, To: kv.Device, FromSlot: i, ToSlot: i})
	}
	const rounds = 5
	for range rounds {
		begun := time.Now()
		if err := moveAll(tiers, out); err != nil {
			return c, err
		}
		between := time.Now()
		if err := moveAll(tiers, back); err != nil {
			return c, err
		}
		offload, restore := between.Sub(begun), time.Since(between)
		if c.Restore == 0 || offload+restore < c.Offload+c.Restore {
			c.Offload, c.Restore = offload, restore
		}
	}
	c.Plain, err = plainCopy(device, c.Bytes, rounds)
	return c, err
}

// moveAll copies and waits.
func moveAll(tiers *tier.Store, moves []kv.Move) error {
	for _, m := range moves {
		if err := tiers.Move(m); err != nil {
			return err
		}
	}
	tiers.Settle()
	return nil
}

// plainCopy copies pinned memory in one piece to the device and back.
func plainCopy(device int, bytes int64, rounds int) (best time.Duration, err error) {
	gpu, err := libcuda.Open(device)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, gpu.Close()) }()
	at, err := gpu.Allocate(bytes)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, gpu.Release(at)) }()
	host, err := gpu.AllocatePinned(int(bytes))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, gpu.ReleasePinned(host)) }()
	for range rounds {
		begun := time.Now()
		err := errors.Join(gpu.Download(host, at), gpu.Synchronize(), gpu.Upload(at, host), gpu.Synchronize())
		if err != nil {
			return 0, err
		}
		if took := time.Since(begun); best == 0 || took < best {
			best = took
		}
	}
	return best, nil
}
