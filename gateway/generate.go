package gateway

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"parley"
)

// eventsPending is how many deltas may wait for the client. A client that
// reads more slowly than that holds up its own request only.
const eventsPending = 32

// A step is something that happens to a request on its way: it begins to wait,
// or its answer grows.
type step struct {
	// ticket is the request's place in the queue, if this step is that it waits.
	ticket *ticket
	delta  parley.Delta
	// shared deltas were computed for another request.
	shared bool
}

// A source answers requests. Sources stand in front of one another, as the
// layers do: bounds on time, shared answers, turns, a worker.
type source func(ctx context.Context, r *parley.Request) iter.Seq2[step, error]

// An event is one step of the answer to one of a call's prompts. One without a
// delta says that the request waits.
type event struct {
	prompt int
	step
	err error
}

// A generation is the work for one call. One request can be answered on the
// goroutine of its caller ([generation.alone]); of several, each request's deltas
// are pumped into one channel, where the call can wait for them and for other
// things at once.
type generation struct {
	ctx      context.Context
	cancel   context.CancelFunc
	from     source
	requests []*parley.Request
	atOnce   int
	events   chan event
	pumps    sync.WaitGroup
}

// generate prepares to let at most so many of the requests be answered at once,
// and the others follow in order. The caller must call stop.
func generate(ctx context.Context, from source, requests []*parley.Request, atOnce int) *generation {
	ctx, cancel := context.WithCancel(ctx)
	return &generation{ctx: ctx, cancel: cancel, from: from, requests: requests, atOnce: atOnce}
}

// pumped returns what happens to the requests; the first call begins with them.
func (x *generation) pumped() <-chan event {
	if x.events != nil {
		return x.events
	}
	x.events = make(chan event, eventsPending)
	waiting := slices.Clone(x.requests)
	var next atomic.Int64
	for range min(x.atOnce, len(waiting)) {
		x.pumps.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(waiting)) && x.ctx.Err() == nil; i = next.Add(1) - 1 {
				x.pump(x.ctx, x.from, int(i), waiting[i])
			}
		})
	}
	return x.events
}

// alone reports whether there is one request, which nobody has begun with.
func (x *generation) alone() bool { return len(x.requests) == 1 && x.events == nil }

// each has the one request answered here and hands what happens to take, until
// that is done or fails. The end of an answer is handed over when the worker has
// let go of it: what take does then holds up nobody else.
func (x *generation) each(take func(step) (done bool, err error)) error {
	var last *step
	for s, err := range x.from(x.ctx, x.requests[0]) {
		if err != nil {
			return err
		}
		if s.delta.Usage != nil && last == nil {
			last = new(s)
			continue
		}
		if done, err := take(s); done || err != nil {
			return err
		}
	}
	if last == nil {
		return errNoUsage
	}
	_, err := take(*last)
	return err
}

// stop cancels what is still running and returns when every worker has let go.
func (x *generation) stop() {
	x.cancel()
	x.pumps.Wait()
}

var errNoUsage = errors.New("the worker ended the answer without a delta that carries usage")

func (x *generation) pump(ctx context.Context, from source, prompt int, r *parley.Request) {
	defer func() {
		if p := recover(); p != nil {
			x.send(ctx, event{prompt: prompt, err: panicError(p)})
		}
	}()
	complete := false
	for s, err := range from(ctx, r) {
		if !x.send(ctx, event{prompt, s, err}) || err != nil {
			return
		}
		complete = complete || s.delta.Usage != nil
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

// direct has a worker answer at once.
func direct(worker parley.Worker) source {
	return func(ctx context.Context, r *parley.Request) iter.Seq2[step, error] {
		return func(yield func(step, error) bool) {
			for d, err := range worker.Generate(ctx, r) {
				if !yield(step{delta: d}, err) {
					return
				}
			}
		}
	}
}
