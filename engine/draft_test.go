package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/compute"
	"parley/engine/sched"
	"parley/engine/spec"
)

// TestDraftReadsWhatItsSequencesSay gives the engine itself as draft network,
// only faster. If that one always sees the text it guesses for, through shared,
// copied, preempted and reused blocks and after wrong guesses of the lookup,
// all its guesses are right, drawn ones included.
func TestDraftReadsWhatItsSequencesSay(t *testing.T) {
	var all Stats
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			requests := randomRequests(rng, 1+rng.IntN(16))
			for _, r := range requests {
				r.Grammar, r.Stop.Strings = nil, nil // what comes after an end is guessed in vain
				r.Sampling = parley.Sampling{Temperature: r.Sampling.Temperature, Seed: r.Sampling.Seed}
			}
			cfg := sched.Config{Blocks: 13 + rng.IntN(30), StepTokens: 10 + rng.IntN(60), Seqs: 3 + rng.IntN(8)}
			cfg.StepOutputs = cfg.Seqs + rng.IntN(20)
			e := newCounter(t, &counter{delay: time.Millisecond, draft: &counter{delay: 20 * time.Microsecond}}, cfg)
			askAll(t, e, requests)
			s := e.Stats()
			if g := s.Guesses[spec.ByModel]; g.Right != g.Guessed {
				t.Errorf("seed %d: %d of %d guesses are right", seed, g.Right, g.Guessed)
			}
			all.Guesses[spec.ByModel].Right += s.Guesses[spec.ByModel].Right
			all.Preempted += s.Preempted
			all.Cache.HitTokens += s.Cache.HitTokens
			all.StepTokens += s.StepTokens
		})
	}
	t.Logf("%d guesses, %d preemptions, %d tokens from the cache, %d computed", all.Guesses[spec.ByModel].Right,
		all.Preempted, all.Cache.HitTokens, all.StepTokens)
	if all.Guesses[spec.ByModel].Right < 1000 || all.Preempted == 0 || all.Cache.HitTokens == 0 {
		t.Error("something was not tested")
	}
}

// TestDraftSavesPasses compares the passes and the time of one answer with and
// without a draft network.
func TestDraftSavesPasses(t *testing.T) {
	answer := func(t *testing.T, n *counter) (passes uint64, took time.Duration) {
		e := newCounter(t, n, small)
		began := time.Now()
		if _, _, err := collect(t.Context(), e, &parley.Request{Prompt: []parley.Token{1, 2, 3}, MaxTokens: 200,
			Stop: parley.Stop{IgnoreEnd: true}}); err != nil {
			t.Fatal(err)
		}
		return e.Stats().Steps, time.Since(began)
	}
	synctest.Test(t, func(t *testing.T) {
		plainPasses, plain := answer(t, &counter{delay: time.Millisecond})
		passes, took := answer(t, &counter{delay: time.Millisecond, draft: &counter{delay: 50 * time.Microsecond}})
		if passes*4 > plainPasses || took*3 > plain {
			t.Errorf("%d passes in %v, without a draft %d in %v", passes, took, plainPasses, plain)
		}
		// A draft network as slow as the other is measured and then left alone.
		passes, took = answer(t, &counter{delay: time.Millisecond, draft: &counter{delay: time.Millisecond}})
		if took > plain*110/100 {
			t.Errorf("%d passes in %v with a slow draft, without %d in %v", passes, took, plainPasses, plain)
		}
	})
}

// TestDraftReadsPromptsInTime lets a sequence with a long prompt write beside
// another. The draft network reads the prompt bit by bit, so that no token
// comes later than the target allows.
func TestDraftReadsPromptsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const target = 5 * time.Millisecond
		n := &counter{delay: 2 * time.Millisecond, room: 2000, draft: &counter{}}
		most := 0
		n.draft.fault = func(step *compute.Step) {
			most = max(most, len(step.Tokens))
			time.Sleep(50*time.Microsecond + time.Duration(len(step.Tokens))*10*time.Microsecond)
		}
		e := newCounter(t, n, sched.Config{Blocks: 200, StepTokens: 1500, StepOutputs: 64, Seqs: 8, Target: target})
		r := &parley.Request{Prompt: make([]parley.Token, 1200), MaxTokens: 300, Stop: parley.Stop{IgnoreEnd: true}}
		r.Sampling.Temperature = 2 // so that nothing repeats
		last, late := time.Time{}, 0
		for _, err := range e.Generate(t.Context(), r) {
			if err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			if !last.IsZero() && now.Sub(last) > target {
				late++
			}
			last = now
		}
		if g := e.Stats().Guesses[spec.ByModel]; late > 0 || g.Right < 200 || most < 50 || most > 500 {
			t.Errorf("%d tokens came late, guesses %+v, at most %d tokens in a draft pass", late, g, most)
		}
	})
}

// TestDraftFaultCostsGuessesAlone breaks the draft network now and then.
// Nobody notices, and it is not tried in every pass.
func TestDraftFaultCostsGuessesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		n := &counter{delay: time.Millisecond, draft: &counter{delay: 50 * time.Microsecond}}
		n.draft.fault = func(*compute.Step) {
			if broken {
				panic("a broken draft")
			}
		}
		e := newCounter(t, n, small)
		r := &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 150, Stop: parley.Stop{IgnoreEnd: true}}
		for range 2 {
			got, _, err := collect(t.Context(), e, r)
			if err != nil || !slices.Equal(got[0], expect(r.Prompt, 150)) {
				t.Fatalf("%v, %v", got, err)
			}
		}
		s := e.Stats()
		if s.Failures != 0 || s.DraftFailures == 0 || s.DraftFailures > 12 || s.Guesses[spec.ByModel].Guessed != 0 {
			t.Errorf("with a broken draft: %+v", s)
		}
		broken = false
		for range 4 {
			if got, _, err := collect(t.Context(), e, r); err != nil || !slices.Equal(got[0], expect(r.Prompt, 150)) {
				t.Fatalf("%v, %v", got, err)
			}
		}
		if g := e.Stats().Guesses[spec.ByModel]; g.Right == 0 {
			t.Errorf("after its repair: %+v", e.Stats())
		}
	})
}
