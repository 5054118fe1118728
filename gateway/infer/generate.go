package infer

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
const eventsPending = 32

// An Event is one step of the answer to one of a call's prompts. One without a
// delta says that the request waits.
type Event struct {
	Prompt int
	Step
	Err error
}

// A Generation is the work for one call. One request can be answered on the
// goroutine of its caller ([generation.alone]); of several, each request's deltas
// are pumped into one channel, where the call can wait for them and for other
// things at once.
type Generation struct {
	Context  context.Context
	cancel   context.CancelCauseFunc
	from     source
	requests []*parley.Request
	atOnce   int
	events   chan Event
	pumps    sync.WaitGroup
	// Waiter is where the job stands in the queues; leave gives it back.
	Waiter *Waiter
	leave  func()
}

// generate prepares to have at most atOnce of the requests answered at a time, in order.
// The caller must call Stop.
func generate(ctx context.Context, requests []*parley.Request, atOnce int) *Generation {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Generation{
		Context:  ctx,
		cancel:   cancel,
		requests: requests,
		atOnce:   atOnce,
		leave:    func() {},
	}
}

// Cancel breaks off what is still running.
func (x *Generation) Cancel() { x.cancel(nil) }

// requestContext returns a context that end ends, for one request of the generation, whose context is ctx. A request
// that is alone is all of the generation and needs no context of its own. The caller must call release.
func (x *Generation) requestContext(
	ctx context.Context,
) (within context.Context, end context.CancelCauseFunc, release func()) {
	if x.Alone() {
		return ctx, x.cancel, func() {}
	}
	within, end = context.WithCancelCause(ctx)
	return within, end, func() { end(nil) }
}

// Pumped returns what happens to the requests; the first call begins with them.
func (x *Generation) Pumped() <-chan Event {
	if x.events != nil {
		return x.events
	}
	x.events = make(chan Event, eventsPending)
	waiting := slices.Clone(x.requests)
	var next atomic.Int64
	for range min(x.atOnce, len(waiting)) {
		x.pumps.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(waiting)) && x.Context.Err() == nil; i = next.Add(1) - 1 {
				x.pump(x.Context, x.from, int(i), waiting[i])
			}
		})
	}
	return x.events
}

// Alone reports whether there is one request, which has not been started.
func (x *Generation) Alone() bool { return len(x.requests) == 1 && x.events == nil }

// Each has the one request answered here and hands what happens to take, until
// that is done or fails. The end of an answer is handed over when the worker has
// let go of it: what take does then delays no other request. A step is take's until it
// returns.
func (x *Generation) Each(take func(*Step) (done bool, err error)) error {
	r := &stepReader{waiter: x.Waiter, take: take}
	x.from(x.Context, x.requests[0])(r.read)
	switch {
	case r.done || r.err != nil:
		return r.err
	case r.last == nil:
		return errNoUsage
	}
	_, err := take(r.last)
	return err
}

// A stepReader reads the answer to one request. Like every layer that a stream passes, it has its state in one value,
// which the body of a range over a function has not.
type stepReader struct {
	waiter *Waiter
	take   func(*Step) (done bool, err error)
	// last is the end of the answer, which is kept back.
	last *Step
	done bool
	err  error
}

func (r *stepReader) read(s *Step, err error) (more bool) {
	if r.err = err; err != nil {
		return false
	}
	r.waiter.note(s.ticket)
	if s.Delta.Usage != nil && r.last == nil {
		r.last = new(*s)
		return true
	}
	r.done, r.err = r.take(s)
	return !r.done && r.err == nil
}

// Stop cancels what is still running and returns when every worker has let go.
func (x *Generation) Stop() {
	x.Cancel()
	x.pumps.Wait()
	x.leave()
}

var errNoUsage = errors.New("the worker ended the answer without a delta that carries usage")

func (x *Generation) pump(ctx context.Context, from source, prompt int, r *parley.Request) {
	defer func() {
		if p := recover(); p != nil {
			x.send(ctx, Event{Prompt: prompt, Err: parley.PanicError(p)})
		}
	}()
	complete := false
	for s, err := range from(ctx, r) {
		x.Waiter.note(s.ticket)
		if !x.send(ctx, Event{prompt, *s, err}) || err != nil {
			return
		}
		complete = complete || s.Delta.Usage != nil
	}
	if !complete {
		x.send(ctx, Event{Prompt: prompt, Err: errNoUsage})
	}
}

// send reports false if events are no longer read.
func (x *Generation) send(ctx context.Context, e Event) bool {
	select {
	case x.events <- e:
		return true
	case <-ctx.Done():
		return false
	}
}
