package fleet

import (
	"context"
	"crypto/rand"
	"time"

	"parley"
)

// String says how a leg ended, as journeys tell it.
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

// A record is what people are told of a leg, in the journey of its call.
type record struct {
	parley.Leg
	journey *parley.Journey
	number  int
}

// keep begins the record of a leg, and returns the context in which its worker is
// asked: in a trace, the leg is a place of its own.
func (l *leg) keep(ctx context.Context, now time.Time) context.Context {
	l.record.Leg = parley.Leg{
		Worker: l.routing.Worker,
		Pool:   l.routing.Pool,
		Kind:   l.member.Kind,
		Reason: l.routing.Reason,
		Terms:  l.asked,
		Sent:   now,
	}
	l.record.journey = parley.JourneyOf(ctx)
	if trace, ok := parley.TraceOf(ctx); ok && l.record.journey != nil && l.record.journey.Traced {
		rand.Read(trace.Span[:]) // never fails
		l.record.Span = trace.Span
		ctx = parley.WithTrace(ctx, trace)
	}
	l.record.number = l.record.journey.Begin(l.record.Leg)
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
	if d.Stay != nil {
		r.Stay, d.Stay = d.Stay, nil
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
	r.journey.Note(r.number, r.Leg)
}

// leaves notes that a leg ended because its request did.
func (l *leg) leaves(ctx context.Context, v judgement, now time.Time) {
	if v == told && ctx.Err() != nil {
		l.record.close(left, nil, now)
	}
}
