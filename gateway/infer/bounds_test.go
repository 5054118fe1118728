package infer

import (
	"context"
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				w := &lateWorker{is: parley.Residency{Loading: c.loads > 0, Waiting: c.waits || c.loads > 0}}
				if c.loads > 0 {
					loading := time.AfterFunc(c.loads, func() { w.set(parley.Residency{Loaded: time.Now()}) })
					defer loading.Stop()
				}
				next := func(ctx context.Context, _ *parley.Request) iter.Seq2[*Step, error] {
					return func(yield func(*Step, error) bool) {
						var token <-chan time.Time
						if c.answers > 0 {
							token = time.After(c.answers)
						}
						select {
						case <-token:
							yield(&Step{}, nil)
						case <-ctx.Done():
							yield(&Step{}, ctx.Err())
						}
					}
				}
				limits := &Admission{FirstTokenMax: minute, AnswerMax: 15 * minute}
				j := &Task{Arrived: began, Model: &Model{ID: "late", Worker: w}}
				said := ""
				for _, err := range bounded(limits, time.Now, j, next)(t.Context(), &parley.Request{}) {
					if err != nil {
						said = err.Error()
					}
				}
				if took := time.Since(began); took != c.ends || said != c.want {
					t.Errorf("it ended after %v with %q, want %v and %q", took, said, c.ends, c.want)
				}
			})
		})
	}
}
