package fleetctl

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"parley/fleet"
	"parley/fleet/scale"
	"parley/internal/supervise"
)

// localWorkers are processes on this machine that a scaler starts and stops.
type localWorkers struct {
	program supervise.Program
	// args are those of a worker that listens on an address.
	args func(name, address string) []string
	// order has the gateway do something with a worker.
	order func(ctx context.Context, worker, verb string) error
	// ctx is the context of all, and ended is called with the reason why one gave up.
	ctx   context.Context
	ended func(error)
	all   sync.WaitGroup

	workers []*localWorker // in the order of their start
	number  int
	ready   time.Duration // that a worker took from its start until it was up, lately
}

// A localWorker is one of them.
type localWorker struct {
	address string
	begun   time.Time
	up      bool
	leaving bool
	stop    context.CancelFunc
}

// start starts a worker.
func (c *localWorkers) start(now time.Time) error {
	address, err := supervise.FreeAddress()
	if err != nil {
		return err
	}
	c.number++
	name := fmt.Sprint("worker-", c.number)
	ctx, stop := context.WithCancel(c.ctx)
	c.workers = append(c.workers, &localWorker{address: address, begun: now, stop: stop})
	c.all.Go(func() {
		defer stop()
		err := c.program.Keep(ctx, name, c.args(name, address))
		if err != nil && ctx.Err() == nil {
			c.ended(err)
		}
	})
	return nil
}

// observe notes which workers are up, and ends those that leave and have no answer under way.
func (c *localWorkers) observe(
	_ context.Context, workers []fleet.Standing, now time.Time,
) (starting int, ready time.Duration) {
	known := map[string]*fleet.Standing{}
	for i := range workers {
		known[workers[i].Name] = &workers[i]
	}
	c.workers = slices.DeleteFunc(c.workers, func(h *localWorker) bool {
		w := known[h.address]
		gone := h.leaving && (w == nil || w.Answering+w.Running+w.Waiting == 0)
		if gone {
			h.stop()
		}
		return gone
	})
	for _, h := range c.workers {
		if w := known[h.address]; !h.up && w != nil && w.State == fleet.Up {
			h.up = true
			c.measured(now.Sub(h.begun))
		}
		if !h.up && !h.leaving {
			starting++
		}
	}
	return starting, c.ready
}

// measured takes in how long a worker took from its start until it was up.
func (c *localWorkers) measured(took time.Duration) {
	if c.ready == 0 {
		c.ready = took
	}
	c.ready += (took - c.ready) / 4
}

// set starts workers, or has the newest ones leave. One that is about to leave stays before
// another is started. One that an operator has drained gets no work, so it does not count and is
// left alone.
func (c *localWorkers) set(ctx context.Context, want scale.Sizing, workers []fleet.Standing, now time.Time) error {
	drained := map[string]bool{}
	for i := range workers {
		drained[workers[i].Name] = workers[i].State == fleet.Draining
	}
	staying := 0
	for _, h := range c.workers {
		if !h.leaving && !drained[h.address] {
			staying++
		}
	}
	for _, h := range c.workers {
		if staying < want.Workers && h.leaving {
			if err := c.order(ctx, h.address, "resume"); err != nil {
				return err
			}
			h.leaving = false
			staying++
		}
	}
	for ; staying < want.Workers; staying++ {
		if err := c.start(now); err != nil {
			return err
		}
	}
	for _, h := range slices.Backward(c.workers) {
		if staying <= want.Workers {
			break
		}
		if h.leaving || drained[h.address] {
			continue
		}
		if h.up {
			if err := c.order(ctx, h.address, "drain?within="+drainWithin.String()); err != nil {
				return err
			}
		}
		h.leaving = true
		staying--
	}
	return nil
}

// drainWithin is after how long other workers continue the answers of one that leaves.
const drainWithin = 30 * time.Second
