package infer

import (
	"context"
	"iter"

	"parley"
)

// A Step is something that happens to a request on its way: it begins to wait,
// or its answer grows.
type Step struct {
	// ticket is the request's place in the queue, if this step is that it waits.
	ticket *ticket
	Delta  parley.Delta
	// Shared deltas were computed for another request.
	Shared bool
}

// Waits reports whether the step is that the request waits.
func (s *Step) Waits() bool { return s.ticket != nil }

// A source answers requests. Sources stand in front of one another, as the
// layers do: bounds on time, shared answers, the queue, a worker. A step is the reader's
// until it asks for the next one: copies at every layer would make the stack of every
// open stream larger.
type source func(ctx context.Context, r *parley.Request) iter.Seq2[*Step, error]

// direct has a worker answer at once.
func direct(worker parley.Worker) source {
	return func(ctx context.Context, r *parley.Request) iter.Seq2[*Step, error] {
		return func(yield func(*Step, error) bool) {
			s := &Step{}
			worker.Generate(ctx, r)(func(d parley.Delta, err error) bool {
				s.Delta = d
				return yield(s, err)
			})
		}
	}
}
