package engine

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/compute"
	"parley/engine/sched"
)

// TestGivingUpASeatChangesNothing answers free requests of all kinds in an engine whose
// few seats pro requests take again and again: greedy and seeded ones, several choices,
// grammars, stop strings, penalties, log-probabilities, with and without guesses. What
// comes is, delta by delta joined, what comes of each alone, and no choice is preempted
// more often than once for each block that it writes.
func TestGivingUpASeatChangesNothing(t *testing.T) {
	var preemptions, yielded atomic.Int64
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			alone := newCounter(t, &counter{period: 6},
				sched.Config{Blocks: 1000, StepTokens: 500, StepOutputs: 100, Seqs: 8})
			cfg := sched.Config{Blocks: 60 + rng.IntN(100), StepTokens: 30, StepOutputs: 10, Seqs: 3 + rng.IntN(2)}
			n := &counter{period: 6, delay: time.Millisecond, speculate: seed%2 == 0}
			if seed%4 == 0 {
				n.draft = &counter{period: 6 - rng.IntN(2), delay: 50 * time.Microsecond}
			}
			busy := newCounter(t, n, cfg)
			stop := flood(t, busy, rng)
			var wg sync.WaitGroup
			for _, r := range randomRequests(rng, 6) {
				r.PromptLogprobs, r.Logprobs, r.TopLogprobs, r.Class = false, true, 2, parley.Free
				r.Sampling.FrequencyPenalty, r.Sampling.RepetitionPenalty = 0.3, 1.1
				want := gather(r, listen(t, alone, r))
				wg.Go(func() {
					deltas := listen(t, busy, r)
					if got := gather(r, deltas); !reflect.DeepEqual(got, want) {
						t.Errorf("seed %d: got  %+v\nwant %+v", seed, got, want)
					}
					u := deltas[len(deltas)-1].Usage
					if most := len(want) + u.OutputTokens/compute.BlockTokens; u.Preemptions > most {
						t.Errorf("seed %d: %d tokens in %d choices were preempted %d times", seed, u.OutputTokens,
							len(want), u.Preemptions)
					}
					preemptions.Add(int64(u.Preemptions))
				})
				synctest.Wait()
			}
			wg.Wait()
			stop()
			yielded.Add(int64(busy.Stats().Yielded))
		})
	}
	if preemptions.Load() < 100 || yielded.Load() < 100 {
		t.Errorf("only %d preemptions, %d for seats: this tests too little", preemptions.Load(), yielded.Load())
	}
}

// flood sends short pro requests at random moments until stop is called.
func flood(t *testing.T, e *Engine, rng *rand.Rand) (stop func()) {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	random := rand.New(rand.NewPCG(rng.Uint64(), 1))
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-quit:
				return
			case <-time.After(time.Duration(1+random.IntN(25)) * time.Millisecond):
			}
			r := &parley.Request{Prompt: long(i, 1+random.IntN(30)), MaxTokens: 1 + random.IntN(8), Class: parley.Pro,
				Stop: parley.Stop{IgnoreEnd: true}}
			wg.Go(func() {
				if got, _, err := collect(t.Context(), e, r); err != nil || len(got[0]) != r.MaxTokens {
					t.Errorf("a pro request: %v, %v", got, err)
				}
			})
		}
	})
	return func() { close(quit); wg.Wait() }
}

// TestFirstTokenBehindFullSeats fills all seats with free answers, and has more of them
// wait. A pro request that comes in the middle of a pass has its first token at the
// end of the next one: within three passes, every time. The free answers pause and
// are complete in the end.
func TestFirstTokenBehindFullSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seats = 4
		n := &counter{delay: time.Millisecond, room: 2000}
		e := newCounter(t, n, sched.Config{Blocks: 2000, StepTokens: 64, StepOutputs: 16, Seqs: seats})
		var wg sync.WaitGroup
		for i := range 2 * seats {
			wg.Go(func() {
				r := &parley.Request{Prompt: long(i, 20), MaxTokens: 1200, Stop: parley.Stop{IgnoreEnd: true}}
				if got, _, err := collect(t.Context(), e, r); err != nil ||
					!slices.Equal(got[0], expect(r.Prompt, r.MaxTokens)) {
					t.Errorf("a free answer of %d tokens: %v", len(got[0]), err)
				}
			})
		}
		time.Sleep(20*time.Millisecond + 300*time.Microsecond) // in the middle of a pass
		var steps []uint64
		for i := range 100 {
			before, first := e.Stats().Steps, uint64(0) // the pass that runs counts
			for d, err := range e.Generate(t.Context(), &parley.Request{Prompt: long(100+i, 30), MaxTokens: 5,
				Class: parley.Pro, Tenant: fmt.Sprint(i % 3), Stop: parley.Stop{IgnoreEnd: true}}) {
				if err != nil {
					t.Fatal(err)
				}
				if first == 0 && len(d.Tokens) > 0 {
					first = e.Stats().Steps - before
				}
				if d.Usage != nil && d.Usage.SeatWait > 0 {
					t.Errorf("request %d waited %v for a seat", i, d.Usage.SeatWait)
				}
			}
			steps = append(steps, first)
			time.Sleep(time.Duration(7+i%5) * time.Millisecond)
		}
		slices.Sort(steps)
		if worst := steps[len(steps)*99/100]; worst > 3 {
			t.Errorf("first tokens came after %d steps (p99); all: %v", worst, steps)
		}
		wg.Wait()
	})
}

// TestUsageNamesTheWait has requests wait for a seat, and for memory.
func TestUsageNamesTheWait(t *testing.T) {
	for name, cfg := range map[string]sched.Config{
		"seat":   {Blocks: 100, StepTokens: 64, StepOutputs: 16, Seqs: 1},
		"memory": {Blocks: 4, StepTokens: 64, StepOutputs: 16, Seqs: 8},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newCounter(t, &counter{delay: time.Millisecond}, cfg)
			var wg sync.WaitGroup
			wg.Go(func() { collect(t.Context(), e, &parley.Request{Prompt: long(1, 33), MaxTokens: 20}) })
			time.Sleep(2500 * time.Microsecond)
			_, last, err := collect(t.Context(), e, &parley.Request{Prompt: long(2, 33), MaxTokens: 2})
			if err != nil {
				t.Fatal(err)
			}
			u := last.Usage
			waits := map[string]time.Duration{"seat": u.SeatWait, "memory": u.MemoryWait}
			for other, took := range waits {
				if other == name && took < u.Queued-2*time.Millisecond || other != name && took != 0 ||
					u.Queued < 10*time.Millisecond {
					t.Errorf("it waited %v for its first step, and that was for the %s: %v", u.Queued, name, waits)
				}
			}
			wg.Wait()
		})
	}
}
