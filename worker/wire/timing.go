package wire

import (
	"context"
	"time"

	"parley"
)

// An Answer is what became of a request that belongs to a trace which is kept.
type Answer struct {
	// Trace is the place in it that the request came from.
	Trace          parley.Trace
	Request, Model string
	// Came is when the request had been received, Ended when the worker was done
	// with it, and Timings what there is to tell of the time between.
	Came, Ended time.Time
	Timings     parley.WorkerTimings
	// OutputTokens is how many were given; Usage is there if the answer ended well,
	// and Err if it did not.
	OutputTokens int
	Usage        *parley.Usage
	Err          error
}

// A timing measures a request while it is here.
type timing struct {
	Answer
	window *credit
}

// admit notes that a request begins to be answered. Whether it is traced is told
// by its context and the server.
func (s *timing) admit(ctx context.Context, q *parley.Request, traced bool) {
	s.Request, s.Model = q.ID, q.Model
	s.Trace, _ = parley.TraceOf(ctx)
	s.Timings = parley.WorkerTimings{Admitted: time.Since(s.Came), Traced: traced && s.Trace.Sampled}
}

// note takes a delta that is about to be sent, and has the first token and the
// end carry what was measured.
func (s *timing) note(d *parley.Delta) {
	n := d.Count()
	if s.OutputTokens += n; n == s.OutputTokens && n > 0 {
		s.Timings.First = time.Since(s.Came)
		d.Timings = s.sofar()
	}
	if d.Usage != nil {
		s.Usage = new(*d.Usage)
		s.Timings.Whole = time.Since(s.Came)
		d.Timings = s.sofar()
	}
}

// fail takes the error that ends a request, and returns what was measured.
func (s *timing) fail(err error) *parley.WorkerTimings {
	s.Err = err
	s.Timings.Whole = time.Since(s.Came)
	return s.sofar()
}

// sofar returns a copy of what was measured.
func (s *timing) sofar() *parley.WorkerTimings {
	s.Timings.Paused = s.window.paused
	return new(s.Timings)
}

// end reports to the keeper of traces.
func (s *timing) end(told func(Answer)) {
	if !s.Timings.Traced {
		return
	}
	s.Ended = time.Now()
	s.sofar()
	told(s.Answer)
}
