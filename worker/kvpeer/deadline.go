package kvpeer

import (
	"context"
	"sync/atomic"
	"time"

	"parley"
)

// A deadline ends a fetch that is too slow. It is an estimate, which can be far too short for blocks that the source
// still computes: it extrapolates from shorter prompts, and knows nothing of prompts that arrive later and are computed
// at the same time. So such a fetch is given the same time again whenever at least half of the missing blocks have
// come: computing the rest here would delay the answers that are being written here.
type deadline struct {
	within        time.Duration
	missing, came atomic.Int64 // bytes
}

// start returns a context that ends at the deadline of a fetch.
func (d *deadline) start(ctx context.Context, from *parley.BlockSource) (context.Context, context.CancelFunc) {
	if d.within = min(from.Within, withinMax); d.within <= 0 {
		d.within = withinDefault
	}
	if from.Request == "" {
		return context.WithTimeout(ctx, d.within)
	}
	longest, stop := context.WithTimeout(ctx, withinMax)
	bounded, cancel := context.WithCancelCause(longest)
	go d.watch(bounded, cancel)
	return bounded, stop
}

// watch ends a fetch at the end of a period in which less than half of what was missing came.
func (d *deadline) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	period := time.NewTicker(d.within)
	defer period.Stop()
	for before := int64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-period.C:
		}
		came := d.came.Load()
		if came == before || 2*(came-before) < d.missing.Load()-before {
			cancel(context.DeadlineExceeded)
			return
		}
		before = came
	}
}

type putFunc = func(ctx context.Context, pieces ...[]byte) error

// counting returns put, which takes the bytes that come, and counts them.
func (d *deadline) counting(put putFunc) putFunc {
	return func(ctx context.Context, pieces ...[]byte) error {
		err := put(ctx, pieces...)
		for _, b := range pieces {
			d.came.Add(int64(len(b)))
		}
		return err
	}
}
