package wire

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

// A pausing worker writes two tokens, each after a pause, and then ends or fails.
type pausing struct {
	pause time.Duration
	fail  error
}

func (w pausing) Models() []parley.Model { return []parley.Model{{ID: "pause", ContextTokens: 100}} }

func (w pausing) Generate(_ context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		time.Sleep(w.pause)
		if w.fail != nil {
			yield(parley.Delta{}, w.fail)
			return
		}
		if !yield(parley.Delta{Tokens: []parley.Token{1}}, nil) {
			return
		}
		time.Sleep(w.pause)
		yield(parley.Delta{Tokens: []parley.Token{2}, Finish: parley.FinishLength,
			Usage: &parley.Usage{OutputTokens: 2}}, nil)
	}
}

// TestWorkersTellTheirOwnTimes has a worker say with its first token, with its end
// and with an error what it measured.
func TestWorkersTellTheirOwnTimes(t *testing.T) {
	const pause = 20 * time.Millisecond
	r := dial(t, serveWire(t, pausing{pause: pause}), ClientConfig{})
	var stays []*parley.WorkerTimings
	for d, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{7}}) {
		if err != nil {
			t.Fatal(err)
		}
		stays = append(stays, d.Timings)
	}
	if len(stays) != 2 || stays[0] == nil || stays[1] == nil {
		t.Fatalf("stays %v", stays)
	}
	first, whole := stays[0], stays[1]
	if first.Admitted <= 0 || first.First < first.Admitted+pause || first.Whole != 0 || first.Traced {
		t.Errorf("with the first token: %+v", first)
	}
	if whole.First != first.First || whole.Whole < whole.First+pause {
		t.Errorf("at the end: %+v after %+v", whole, first)
	}
	r = dial(t,
		serveWire(t, pausing{pause: pause, fail: parley.Errorf(parley.Overloaded, "full")}), ClientConfig{})
	for d, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{7}}) {
		if parley.CodeOf(err) != parley.Overloaded || d.Timings == nil ||
			d.Timings.First != 0 || d.Timings.Whole < pause {
			t.Errorf("with the error %v: %+v", err, d.Timings)
		}
	}
}

// TestReadersThatPauseAreTold has a client read slowly: the worker says how long it
// had to wait for it.
func TestReadersThatPauseAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipeWire(t, &counting{left: make(chan error, 1)}, ClientConfig{Window: 2})
		const pause = 30 * time.Millisecond
		var last *parley.WorkerTimings
		for d, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{7}, MaxTokens: 20}) {
			if err != nil {
				t.Fatal(err)
			}
			if last == nil {
				time.Sleep(pause)
			}
			last = d.Timings
		}
		if last == nil || last.Paused < pause || last.Paused > last.Whole {
			t.Errorf("a pause of %v is told as %+v", pause, last)
		}
	})
}

// TestTracesAreToldOnce has the server tell of answers that belong to a trace which
// is kept, however they ended, and of no others.
func TestTracesAreToldOnce(t *testing.T) {
	told := make(chan Answer, 8)
	kept := parley.Trace{ID: [16]byte{1}, Span: [8]byte{2}, Sampled: true}
	for _, c := range []struct {
		trace parley.Trace
		fail  error
		want  int
	}{{kept, nil, 1}, {kept, errors.New("broken"), 1}, {parley.Trace{ID: kept.ID, Span: kept.Span}, nil, 0},
		{parley.Trace{}, nil, 0}} {
		r := dial(t, serveServer(t, &Server{To: pausing{fail: c.fail}, Traced: func(a Answer) { told <- a }}),
			ClientConfig{})
		ctx := t.Context()
		if c.trace.ID != [16]byte{} {
			ctx = parley.WithTrace(ctx, c.trace)
		}
		traced := false
		for d := range r.Generate(ctx, &parley.Request{ID: "r", Prompt: []parley.Token{7}}) {
			traced = traced || d.Timings != nil && d.Timings.Traced
		}
		if traced != (c.want == 1) {
			t.Errorf("%+v: the client hears that it is traced: %v", c, traced)
		}
		for range c.want {
			a := <-told
			if a.Trace != c.trace || a.Request != "r" || (a.Err != nil) != (c.fail != nil) ||
				(a.Usage != nil) != (c.fail == nil) || a.Ended.Sub(a.Came) < a.Timings.Whole {
				t.Errorf("told %+v", a)
			}
		}
	}
	if len(told) != 0 {
		t.Errorf("told too often: %+v", <-told)
	}
}
