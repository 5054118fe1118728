package infer

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

// A lateWorker is loaded on demand, as the test says.
type lateWorker struct {
	parley.Worker
	mu sync.Mutex
	is parley.Residency
}

func (w *lateWorker) Residency() parley.Residency {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.is
}

func (w *lateWorker) set(is parley.Residency) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.is = is
}

// TestLoadingDoesNotCount wants the limit on the first token to begin when the model is loaded, and an answer that
// fails for it to say so.
func TestLoadingDoesNotCount(t *testing.T) {
	const minute = time.Minute
	for name, c := range map[string]struct {
		loads   time.Duration // how long loading takes; 0 does not load
		waits   bool          // there is never room to load
		answers time.Duration // after arrival; 0 never
		ends    time.Duration // when the request ends
		want    string        // of the error
	}{
		"no loading, in time":         {answers: 50 * time.Second, ends: 50 * time.Second},
		"no loading, too late":        {ends: minute, want: "The first token of the answer did not come within 1m0s."},
		"slow loading, then in time":  {loads: 5 * minute, answers: 359 * time.Second, ends: 359 * time.Second},
		"short loading, then in time": {loads: 30 * time.Second, answers: 89 * time.Second, ends: 89 * time.Second},
		"slow loading, then too late": {
			loads: 5 * minute,
			ends:  6 * minute,
			want:  "The first token of the answer did not come within 1m0s after its model was loaded.",
		},
		"loading without end": {
			loads: time.Hour,
			ends:  15 * minute,
			want:  "The model late was still being loaded after 15m0s: ask again.",
		},
		"no room": {
			waits: true,
			ends:  minute,
			want: "The model late could not be loaded within 1m0s, because other models that are answering fill the " +
				"memory: ask again.",
		},
	} {
		for _, requests := range [][]*parley.Request{{{}}, {{}, {}}} { // alone, and beside another
			t.Run(fmt.Sprintf("%s, of %d", name, len(requests)), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					w := &lateWorker{is: parley.Residency{Loading: c.loads > 0, Waiting: c.waits || c.loads > 0}}
					if c.loads > 0 {
						loading := time.AfterFunc(c.loads, func() { w.set(parley.Residency{Loaded: time.Now()}) })
						defer loading.Stop()
					}
					j := &Task{Arrived: began, Model: &Model{ID: "late", Worker: w}}
					x := generate(t.Context(), requests, len(requests))
					defer x.Stop()
					next := answerAfter(c.answers)
					said := ""
					for _, err := range bounded(minute, 15*minute, time.Now, j, x, next)(x.Context, requests[0]) {
						if err != nil {
							said = err.Error()
						}
					}
					if took := time.Since(began); took != c.ends || said != c.want {
						t.Errorf("it ended after %v with %q, want %v and %q", took, said, c.ends, c.want)
					}
					if alone := len(requests) == 1; alone != (x.Context.Err() != nil) && c.want != "" {
						t.Errorf("the generation of %d requests ended with one: %v", len(requests), x.Context.Err())
					}
				})
			})
		}
	}
}

// answerAfter returns a source that says one token when some time has passed, and none if it is 0.
func answerAfter(wait time.Duration) source {
	return func(ctx context.Context, _ *parley.Request) iter.Seq2[*Step, error] {
		return func(yield func(*Step, error) bool) {
			var token <-chan time.Time
			if wait > 0 {
				token = time.After(wait)
			}
			select {
			case <-token:
				yield(&Step{}, nil)
			case <-ctx.Done():
				yield(&Step{}, ctx.Err())
			}
		}
	}
}
