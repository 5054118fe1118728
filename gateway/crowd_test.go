package gateway

import (
	"context"
	"iter"
	"sync/atomic"

	"parley"
)

// A crowd is a worker with a bounded number of slots, in which it answers by
// script; who finds none waits there.
type crowd struct {
	worker
	slots chan struct{}
	came  atomic.Int64
}

func (c *crowd) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		c.came.Add(1)
		select {
		case c.slots <- struct{}{}:
		case <-ctx.Done():
			yield(parley.Delta{}, ctx.Err())
			return
		}
		defer func() { <-c.slots }()
		c.worker.Generate(ctx, r)(yield)
	}
}
