package fleet

import (
	"context"
	"crypto/rand"
	"time"

	"parley"
)

// How attempts end apart from verdicts: a hedged worker was faster, or the client hung
// up.
const (
	outrun = "outrun"
	left   = "left"
)

// keep begins the record of an attempt, and returns the context in which its worker is
// asked: in a trace, the attempt is a place of its own.
func (l *attempt) keep(ctx context.Context, now time.Time) context.Context {
	l.record.Attempt = parley.Attempt{
		Worker: l.routing.Worker,
		Pool:   l.routing.Pool,
		Kind:   l.member.Kind,
		Reason: l.routing.Reason,
		Terms:  l.record.asked,
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

// leaves notes that an attempt ended because its request did.
func (l *attempt) leaves(ctx context.Context, v attemptVerdict, now time.Time) {
	if v == final && ctx.Err() != nil {
		l.record.close(left, nil, now)
	}
}
