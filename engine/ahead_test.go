package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/compute"
)

// TestPlanningHappensWhileTheDeviceComputes answers two streams on a device that
// takes a millisecond for a pass: all passes but the first are launched before the one
// before is computed, the time per token is that of a pass, and a stream that ends by
// a stop string, which the plan could not know, ends with the same token.
func TestPlanningHappensWhileTheDeviceComputes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &counter{ahead: true, delay: time.Millisecond}
		e := newCounter(t, n, small)
		began := time.Now()
		var wg sync.WaitGroup
		for i, stop := range []string{"nowhere", "81"} {
			wg.Go(func() {
				want := expect([]parley.Token{1}, 40)
				if i == 1 {
					want = []parley.Token{2, 4, 8, 16}
				}
				stops := parley.Stop{IgnoreEnd: true, Strings: []string{stop}}
				r := &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 40, Stop: stops}
				got, _, err := collect(t.Context(), e, r)
				if err != nil || !slices.Equal(got[0], want) {
					t.Errorf("until %q: %v, %v; want %v", stop, got, err, want)
				}
			})
		}
		wg.Wait()
		took := time.Since(began)
		synctest.Wait()
		if s := e.Stats(); s.Ahead < 38 || s.Steps > 42 || took > 42*time.Millisecond {
			t.Errorf("%d of %d passes were launched ahead, in %v", s.Ahead, s.Steps, took)
		}
	})
}

// TestNothingIsExposedAfterIdling answers on a device that is never waited for: the second pass is launched before the
// first has ended, so that nothing says how long the device waited for the host.
func TestNothingIsExposedAfterIdling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newCounter(t, &counter{ahead: true}, small)
		for range 3 {
			r := &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 8, Stop: parley.Stop{IgnoreEnd: true}}
			if _, _, err := collect(t.Context(), e, r); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			time.Sleep(time.Hour)
		}
		if s := e.Stats(); s.Exposed != 0 {
			t.Errorf("the device waited %v for the host", s.Exposed)
		}
	})
}

// TestNeighboursShareTheirPrefix has requests with one of two cached prefixes come by turns: in passes that write a
// token of each, those of one prefix stand next to each other.
func TestNeighboursShareTheirPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests = 6
		whole := 0
		n := &counter{ahead: true, delay: time.Millisecond}
		n.fault = func(step *compute.Step) {
			if len(step.Seqs) < requests || len(step.Tokens) > requests {
				return
			}
			whole++
			var first []int32
			for i := range step.Seqs {
				first = append(first, step.Seqs[i].Blocks[0])
			}
			if got := slices.Compact(slices.Clone(first)); len(got) != 2 {
				t.Errorf("the sequences begin with the blocks %v", first)
			}
		}
		e := newCounter(t, n, small)
		ask := func(i int, tokens int) {
			r := &parley.Request{Prompt: slices.Repeat([]parley.Token{parley.Token(1 + i%2)}, 40), MaxTokens: tokens,
				Stop: parley.Stop{IgnoreEnd: true}}
			if _, _, err := collect(t.Context(), e, r); err != nil {
				t.Error(err)
			}
		}
		ask(0, 1)
		ask(1, 1)
		var work sync.WaitGroup
		for i := range requests {
			work.Go(func() { ask(i, 30) })
			synctest.Wait()
		}
		work.Wait()
		if whole < 10 {
			t.Errorf("%d passes had all sequences", whole)
		}
	})
}

// TestCancelAtEveryStepAhead leaves answers at every moment while steps are in flight.
func TestCancelAtEveryStepAhead(t *testing.T) {
	for after := range 20 {
		synctest.Test(t, func(t *testing.T) {
			n := &counter{ahead: true, delay: time.Millisecond}
			e := newCounter(t, n, small)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(time.Duration(after)*time.Millisecond+time.Microsecond, cancel)
			var seen error
			for _, err := range e.Generate(ctx, &parley.Request{Prompt: make([]parley.Token, 100), MaxTokens: 100}) {
				seen = err
			}
			if parley.CodeOf(seen) != parley.Cancelled {
				t.Errorf("after %d steps: %v", after, seen)
			}
			synctest.Wait()
			if n.steps > after+2 {
				t.Errorf("cancelled after %d steps, but %d began", after, n.steps)
			}
			time.Sleep(3 * time.Millisecond)
			if load := e.Stats().Load; load.Pool.InUse != 0 {
				t.Errorf("cancelled after %d steps, and %d blocks are held", after, load.Pool.InUse)
			}
		})
	}
}

// TestAFailureInTheAirFailsBothSteps lets the device fail at every step: the requests
// of the steps in flight fail with the reason, and later ones are answered.
func TestAFailureInTheAirFailsBothSteps(t *testing.T) {
	for at := 1; at < 8; at++ {
		n := &counter{ahead: true}
		n.fault = func(*compute.Step) {
			if n.steps == at {
				panic(errors.New("the device is lost"))
			}
		}
		e := newCounter(t, n, small)
		r := &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 30, Stop: parley.Stop{IgnoreEnd: true}}
		_, _, err := collect(t.Context(), e, r)
		if err == nil || !strings.Contains(err.Error(), "the device is lost") {
			t.Errorf("a failure at step %d: %v", at, err)
		}
		if got, _, err := collect(t.Context(), e, r); err != nil || !slices.Equal(got[0], expect(r.Prompt, 30)) {
			t.Errorf("after a failure at step %d: %v, %v", at, got, err)
		}
	}
}
