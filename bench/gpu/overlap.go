package gpu

import (
	"errors"
	"time"

	"parley/compute"
	"parley/compute/cuda"
	"parley/engine/kv"
	"parley/engine/tier"
	"parley/model"
	"parley/model/weights"
)

// An Overlap is how long the passes of a batch take alone, and while blocks of other sequences are restored
// from host memory; and how long that takes.
type Overlap struct {
	Bytes           int64
	Alone, Restored time.Duration // a pass
	Copies          time.Duration
}

// MeasureOverlap restores the given bytes of blocks while passes of a load are computed.
func MeasureOverlap(ck *weights.Checkpoint, device int, l Load, bytes int64) (o Overlap, err error) {
	shape := model.KVShape(&ck.Config, 1, compute.KVBF16)
	own, more := l.blocks(), int(bytes/shape.BlockBytes())
	o.Bytes = int64(more) * shape.BlockBytes()
	backend, err := cuda.Open(device)
	if err != nil {
		return o, err
	}
	limits := model.Limits{Rows: l.Batch, Outputs: l.Batch, KV: compute.KVBF16, Blocks: own + more}
	network, err := model.Load(ck, backend, limits)
	if err != nil {
		return o, errors.Join(err, backend.Close())
	}
	tiers, _, err := tier.Open(tier.Config{
		Device:     tier.DeviceOf(backend),
		BlockBytes: shape.BlockBytes(),
		HostBlocks: more,
	})
	if err != nil {
		return o, errors.Join(err, backend.Close())
	}
	defer func() { err = errors.Join(err, backend.Close(), tiers.Close()) }()
	shape.Blocks = limits.Blocks
	fillPool(backend, shape)
	o.Alone = l.decode(network, time.Second)

	var out, back []kv.Move
	for i := range int32(more) {
		out = append(out, kv.Move{From: kv.Device, To: kv.Host, FromSlot: int32(own) + i, ToSlot: i})
		back = append(back, kv.Move{From: kv.Host, To: kv.Device, FromSlot: i, ToSlot: int32(own) + i})
	}
	if err := moveAll(tiers, out); err != nil {
		return o, err
	}
	passes, begun := 0, time.Time{}
	l.each(network, func(pass func()) {
		pass() // the first one reads what none before it chose
		background := tiers.Background()
		background.StartBatch()
		for _, m := range back {
			err = errors.Join(err, tiers.Move(m))
		}
		background.EndBatch()
		begun = time.Now()
		for took := background.Batches(); ; took = background.Batches() {
			if len(took) > 0 {
				o.Copies = took[0]
				break
			}
			pass()
			passes++
		}
	})
	if passes > 0 {
		o.Restored = time.Since(begun) / time.Duration(passes)
	}
	return o, err
}
