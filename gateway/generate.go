package gateway

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"parley"
)

// eventsPending is how many deltas may wait for the client. A client that
// reads more slowly than that holds up its own request only.
const eventsPending = 256

// An event is one step of the answer to one of a call's prompts.
type event struct {
	prompt int
	delta  parley.Delta
	err    error
}

// A generation is the work under way for one call: each prompt's deltas are
// pumped into one channel, where the call can wait for them and for other
// things at once.
type generation struct {
	events chan event
	cancel context.CancelFunc
	pumps  sync.WaitGroup
}

// generate starts all requests on worker. The caller must call stop.
func generate(ctx context.Context, worker parley.Worker, requests []*parley.Request) *generation {
	return generateSome(ctx, worker, requests, len(requests))
}

// generateSome lets at most so many of the requests be with the worker at once,
// and the others follow in order. The caller must call stop.
func generateSome(ctx context.Context, worker parley.Worker, requests []*parley.Request, atOnce int) *generation {
	ctx, cancel := context.WithCancel(ctx)
	x := &generation{events: make(chan event, eventsPending), cancel: cancel}
	waiting := slices.Clone(requests)
	var next atomic.Int64
	for range min(atOnce, len(requests)) {
		x.pumps.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(waiting)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				x.pump(ctx, worker, int(i), waiting[i])
			}
		})
	}
	return x
}

// stop cancels what is still running and returns when every worker has let go.
func (x *generation) stop() {
	x.cancel()
	x.pumps.Wait()
}

var errNoUsage = errors.New("the worker ended the answer without a delta that carries usage")

func (x *generation) pump(ctx context.Context, worker parley.Worker, prompt int, r *parley.Request) {
	defer func() {
		if p := recover(); p != nil {
			x.send(ctx, event{prompt: prompt, err: panicError(p)})
		}
	}()
	complete := false
	for delta, err := range worker.Generate(ctx, r) {
		if !x.send(ctx, event{prompt, delta, err}) || err != nil {
			return
		}
		complete = complete || delta.Usage != nil
	}
	if !complete {
		x.send(ctx, event{prompt: prompt, err: errNoUsage})
	}
}

// send reports false if nobody waits for events any more.
func (x *generation) send(ctx context.Context, e event) bool {
	select {
	case x.events <- e:
		return true
	case <-ctx.Done():
		return false
	}
}
