package fleet

import (
	"context"
	"crypto/rand"
	"time"

	"parley"
)

// String says how an attempt ended, as the log of attempts has it.
func (v judgement) String() string {
	return [...]string{
		arrived: "done",
		told:    "told",
		refused: "refused",
		failed:  "failed",
		lost:    "lost",
		moved:   "moved",

		withdrawn: "withdrawn",
	}[v]
}

// How attempts end apart from verdicts: a hedged worker was faster, or the client hung
// up.
const (
	outrun = "outrun"
	left   = "left"
)

// A record is what people are told of a leg, in the attempts of its call.
type record struct {
	parley.Attempt
	attempts *parley.AttemptLog
	number   int
}

// keep begins the record of a leg, and returns the context in which its worker is
// asked: in a trace, the leg is a place of its own.
func (l *leg) keep(ctx context.Context, now time.Time) context.Context {
	l.record.Attempt = parley.Attempt{
		Worker: l.routing.Worker,
		Pool:   l.routing.Pool,
		Kind:   l.member.Kind,
		Reason: l.routing.Reason,
		Terms:  l.asked,
		Sent:   now,
	}
	l.record.attempts = parley.AttemptLogOf(ctx)
	if trace, ok := parley.TraceOf(ctx); ok && l.record.attempts != nil && l.record.attempts.Traced {
		rand.Read(trace.Span[:]) // never fails
		l.record.Span = trace.Span
		ctx = parley.WithTrace(ctx, trace)
	}
	l.record.number = l.record.attempts.Begin(l.record.Attempt)
	return ctx
}

// hear notes what came from the worker. What is for the record alone goes no
// further.
func (r *record) hear(d *parley.Delta, now time.Time) {
	if n := d.Count(); n > 0 {
		if r.First.IsZero() {
			r.First = now
		}
		r.Tokens += n
	}
	if d.Timings != nil {
		r.Timings, d.Timings = d.Timings, nil
	}
	if d.Usage != nil {
		r.Usage = new(*d.Usage)
	}
}

// close notes how the leg ended, unless that is known.
func (r *record) close(end string, err error, now time.Time) {
	if r.End != "" {
		return
	}
	r.End, r.Ended = end, now
	if err != nil {
		r.Why = err.Error()
	}
	r.attempts.Note(r.number, r.Attempt)
}

// leaves notes that a leg ended because its request did.
func (l *leg) leaves(ctx context.Context, v judgement, now time.Time) {
	if v == told && ctx.Err() != nil {
		l.record.close(left, nil, now)
	}
}
