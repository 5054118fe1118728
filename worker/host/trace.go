package host

import (
	"context"
	"iter"
	"time"

	"parley"
)

// An Answer is what became of a request that belongs to a trace.
type Answer struct {
	// Trace is the place in it that the request came from.
	Trace          parley.Trace
	Request, Model string
	Started, Ended time.Time
	// OutputTokens is how many were given; Usage is there if the answer ended well,
	// and Err if it did not.
	OutputTokens int
	Usage        *parley.Usage
	Err          error
}

// traced returns the server as gateways are answered by it: where somebody wants
// traces, what becomes of each request that belongs to one is told.
func (s *Server) traced() parley.Worker {
	if s.cfg.Traced == nil {
		return s
	}
	return tracedWorker{s, s.cfg.Traced}
}

// A tracedWorker tells of each answer when it has ended, however it ended.
type tracedWorker struct {
	parley.Worker
	told func(Answer)
}

func (t tracedWorker) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	trace, ok := parley.TraceOf(ctx)
	if !ok || !trace.Sampled {
		return t.Worker.Generate(ctx, r)
	}
	return func(yield func(parley.Delta, error) bool) {
		a := Answer{Trace: trace, Request: r.ID, Model: r.Model, Started: time.Now()}
		defer func() {
			a.Ended = time.Now()
			t.told(a)
		}()
		for d, err := range t.Worker.Generate(ctx, r) {
			a.OutputTokens += d.Count()
			if d.Usage != nil {
				used := *d.Usage
				a.Usage = &used
			}
			if err != nil {
				a.Err = err
			}
			if !yield(d, err) {
				return
			}
		}
	}
}
