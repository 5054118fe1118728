package host

import (
	"context"
	"iter"
	"slices"

	"parley/engine/kv"
	"parley/route/kvindex"
	"parley/worker"
)

// Source returns what [Host.Follow] reports to an index.
func (h *Host) Source() kvindex.Source {
	return kvindex.Source{Events: h.journal != nil, Snapshot: h.journal != nil, CapacityBlocks: h.blocks}
}

// Follow reports what the cache holds until ctx ends, whose error it returns. The
// host was started with [Config.Followed].
func (h *Host) Follow(ctx context.Context, to worker.Listener) error {
	to.Connected()
	next, err := h.restore(ctx, to)
	for err == nil {
		b, is, lost, more := h.journal.From(next)
		switch {
		case lost:
			next, err = h.restore(ctx, to)
		case is:
			next++
			if to.Batch(b) != (kvindex.Ask{}) {
				next, err = h.restore(ctx, to)
			}
		default:
			select {
			case <-more:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
	}
	return err
}

// restore reports all that is held, and returns the number of the batch after.
func (h *Host) restore(ctx context.Context, to worker.Listener) (next uint64, err error) {
	var all kvindex.Batch
	err = h.Snapshot(ctx, func(blocks iter.Seq[kv.Event]) {
		all.Events, all.Seq = named(blocks), h.journal.Seq()
	})
	if err != nil {
		return 0, err
	}
	to.Snapshot(all.Seq, slices.Values(all.Events))
	return all.Seq + 1, nil
}
