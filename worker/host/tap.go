package host

import (
	"context"
	"iter"
	"slices"
	"sync"

	"parley/compute"
	"parley/engine/kv"
	"parley/route/kvindex"
	"parley/worker"
)

// A tap keeps the latest events of a host's cache for those in this process who
// follow it, each at its own pace. The engine never waits for them.
type tap struct {
	mu   sync.Mutex
	kept [tapKept]kvindex.Batch // batch n is at n % tapKept
	next uint64                 // number of the next batch
	more chan struct{}          // closed and replaced when there is one
}

// tapKept is how many batches one who follows may be behind before all is told
// again. There is at most one batch in each pass.
const tapKept = 256

func newTap() *tap { return &tap{next: 1, more: make(chan struct{})} }

// tell takes what happened to the cache; see [engine.Config.Events].
func (t *tap) tell(events iter.Seq[kv.Event]) {
	batch := named(events)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept[t.next%tapKept] = kvindex.Batch{Seq: t.next, Events: batch}
	t.next++
	close(t.more)
	t.more = make(chan struct{})
}

// named returns events by the keys of their blocks, which are enough for who
// knows how they are made. Runs of one kind in one tier become one event.
func named(events iter.Seq[kv.Event]) (out []kvindex.Event) {
	for e := range events {
		kind, tier := kvindex.Kind(e.Kind), kvindex.Tier(e.Tier)
		if n := len(out); n == 0 || out[n-1].Kind != kind || out[n-1].Tier != tier {
			out = append(out, kvindex.Event{Kind: kind, Tier: tier, BlockTokens: compute.BlockTokens})
		}
		if kind != kvindex.Cleared {
			last := &out[len(out)-1]
			last.Keys = append(last.Keys, e.Hash.Key())
		}
	}
	return out
}

// from returns batch number n, whether it is there, whether it no longer is, and
// what is closed when there is a new one.
func (t *tap) from(n uint64) (b kvindex.Batch, is, lost bool, more <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case n >= t.next:
		return b, false, false, t.more
	case n+tapKept < t.next:
		return b, false, true, nil
	}
	return t.kept[n%tapKept], true, false, nil
}

// Source returns what [Host.Follow] tells an index.
func (h *Host) Source() kvindex.Source {
	return kvindex.Source{Events: h.tap != nil, Snapshot: h.tap != nil, CapacityBlocks: h.blocks}
}

// Follow tells of what the cache holds until ctx ends, whose error it returns. The
// host was started with [Config.Followed].
func (h *Host) Follow(ctx context.Context, to worker.Listener) error {
	to.Connected()
	next, err := h.restore(ctx, to)
	for err == nil {
		b, is, lost, more := h.tap.from(next)
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

// restore tells of all that is held, and returns the number of the batch after.
func (h *Host) restore(ctx context.Context, to worker.Listener) (next uint64, err error) {
	var all kvindex.Batch // not to be looked at after an error: it may still be written
	err = h.Snapshot(ctx, func(blocks iter.Seq[kv.Event]) {
		all.Events = named(blocks)
		h.tap.mu.Lock()
		defer h.tap.mu.Unlock()
		all.Seq = h.tap.next - 1
	})
	if err != nil {
		return 0, err
	}
	to.Snapshot(all.Seq, slices.Values(all.Events))
	return all.Seq + 1, nil
}
