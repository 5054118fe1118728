package fleet

import (
	"context"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

// travel has a fleet answer a request and returns its journey.
func travel(
	ctx context.Context, f *Fleet, r *parley.Request,
) (attempts []parley.Attempt, deltas []parley.Delta, err error) {
	j := &parley.AttemptLog{Traced: true}
	ctx = parley.WithTrace(ctx, parley.Trace{ID: [16]byte{1}, Span: [8]byte{9}, Sampled: true})
	ctx = parley.WithAttemptLog(ctx, j)
	deltas, err = hear(ctx, f, r)
	attempts, _ = j.Attempts()
	return attempts, deltas, err
}

// A spanned worker notes in which places of a trace it was asked, and tells a stay.
type spanned struct {
	parley.Worker
	spans *[][8]byte
}

func (w spanned) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	trace, _ := parley.TraceOf(ctx)
	*w.spans = append(*w.spans, trace.Span)
	return func(yield func(parley.Delta, error) bool) {
		said := false
		for d, err := range w.Worker.Generate(ctx, r) {
			if !said || d.Usage != nil {
				said, d.Timings = true, &parley.WorkerTimings{Admitted: 1, First: 2}
			}
			if d.Usage != nil {
				d.Timings.Whole = 3
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// TestAttemptsHaveEachWorker loses the first worker in the middle of an answer: the
// journey has both, each with its own part and its own place in the trace.
func TestAttemptsHaveEachWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var spans [][8]byte
		workers := []*frail{newFrail(spanned{newOracle(t, time.Millisecond), &spans}),
			newFrail(spanned{newOracle(t, time.Millisecond), &spans})}
		f := newFleet(t, Config{SlowStart: -1}, joiner("w0", workers[0]), joiner("w1", workers[1]))
		workers[0].set(nil, 5)
		workers[1].set(nil, 5)
		attempts, deltas, err := travel(t.Context(), f, ask(8))
		if err != nil || len(attempts) < 2 {
			t.Fatalf("%d attempts, error %v", len(attempts), err)
		}
		first, last := attempts[0], attempts[len(attempts)-1]
		if first.End != "lost" || !strings.Contains(first.Why, "connection reset") || first.Tokens == 0 ||
			first.Usage != nil || first.Timings == nil || first.Timings.Whole != 0 {
			t.Errorf("the first attempt is %+v", first)
		}
		if last.End != "done" || last.Why != "" || last.Usage == nil ||
			last.Timings == nil || last.Timings.Whole != 3 ||
			last.Worker == first.Worker || last.Reason == "" {
			t.Errorf("the last attempt is %+v", last)
		}
		for i, l := range attempts {
			if l.Span != spans[i] || l.Span == [8]byte{9} {
				t.Errorf("attempt %d is %x, its worker was told %x", i, l.Span, spans[i])
			}
			if l.Sent.Before(l.Terms) || l.First.Before(l.Sent) || l.Ended.Before(l.First) {
				t.Errorf("attempt %d is out of order: %+v", i, l)
			}
		}
		for _, d := range deltas {
			if d.Timings != nil {
				t.Errorf("a client is told of a stay: %+v", d)
			}
		}
	})
}

// TestAttemptsThatEndBadly tells of a request that every worker refused, and of one
// whose client left.
func TestAttemptsThatEndBadly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFrail(newOracle(t, time.Millisecond))
		f := newFleet(t, Config{SlowStart: -1}, joiner("w0", w))
		w.set(parley.Errorf(parley.InvalidRequest, "no"), 0)
		attempts, _, err := travel(t.Context(), f, ask(100))
		if err == nil || len(attempts) != 1 || attempts[0].End != "final" || attempts[0].Why != "no" ||
			attempts[0].Tokens != 0 {
			t.Errorf("error %v, attempts %+v", err, attempts)
		}
		w.set(nil, 0)
		ctx, leave := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer leave()
		attempts, _, _ = travel(ctx, f, ask(100))
		if len(attempts) != 1 || attempts[0].End != "left" || attempts[0].Ended.IsZero() {
			t.Errorf("who left has the attempts %+v", attempts)
		}
	})
}

// TestAttemptsOfHedges has the slower of two workers told as outrun.
func TestAttemptsOfHedges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := two(t, Config{HedgeAfter: 50 * time.Millisecond, SlowStart: -1, StallMax: time.Minute})
		w[0].silent.Store(true)
		for range 8 { // until the silent one is asked first
			attempts, _, err := travel(t.Context(), f, ask(4))
			if err != nil {
				t.Fatal(err)
			}
			if len(attempts) == 1 {
				continue
			}
			if attempts[0].Worker != "a" || attempts[0].End != "outrun" || attempts[1].End != "done" {
				t.Errorf("attempts %+v", attempts)
			}
			return
		}
		t.Error("nobody was asked twice")
	})
}
