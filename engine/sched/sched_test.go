package sched

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"parley"
	"parley/engine/kv"
)

// TestRandomLoad lets random sequences come, fork, finish and leave, and checks
// after every pass that the budgets hold, that no block is lost and that every
// sequence that is not taken out ends.
func TestRandomLoad(t *testing.T) {
	var preempted, yielded, hits uint64
	defer func() {
		if preempted <= yielded || yielded == 0 || hits == 0 {
			t.Errorf("%d preemptions, %d for seats, and %d cached tokens: the load tests too little", preempted,
				yielded, hits)
		}
	}()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		cfg := Config{Blocks: 8 + rng.IntN(60), StepTokens: 4 + rng.IntN(40), Seqs: 1 + rng.IntN(4),
			Target: time.Duration(rng.IntN(8)) * time.Millisecond}
		cfg.StepOutputs = cfg.Seqs + rng.IntN(5)
		if seed%3 == 0 {
			cfg.AgeMax = time.Duration(1+rng.IntN(200)) * time.Millisecond
			cfg.Reserve = [parley.Classes]float64{parley.Pro: 0.2 * rng.Float64(),
				parley.Enterprise: 0.4 * rng.Float64()}
		}
		if seed >= 150 { // the baselines must keep the same laws
			cfg.Baseline = Baseline{seed&1 > 0, seed&2 > 0, seed&4 > 0, seed&8 > 0}
		}
		s := mustNew(t, cfg)
		now := time.Unix(1000, 0)
		var live []*Seq
		for round := 0; round < 400 || len(live) > 0; round++ {
			if round > 20000 {
				t.Fatalf("seed %d: %d sequences never end", seed, len(live))
			}
			if q := arrival(rng, &cfg); round < 400 && q != nil {
				s.Add(q, now)
				live = append(live, q)
			}
			plan := s.Next(now)
			checkPlan(t, &cfg, plan.Parts)
			checkSeats(t, s)
			took := linear(plan.Work)
			s.Commit(plan, took)
			now = now.Add(took)
			live = advance(rng, s, live, plan.Parts, now)
			if err := s.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if load := s.Load(); load.Pool.InUse != 0 || s.seats.places != 0 {
			t.Fatalf("seed %d: left behind %+v, %d places", seed, load, s.seats.places)
		}
		preempted += s.stats.Preempted
		yielded += s.stats.Yielded
		hits += s.cache.Stats().HitTokens
		for c := range s.ledger.classes {
			if n := s.ledger.classes[c].present; n != 0 {
				t.Fatalf("seed %d: class %d has %d requests present at the end", seed, c, n)
			}
		}
	}
}

func arrival(rng *rand.Rand, cfg *Config) *Seq {
	q := &Seq{Prompt: 1 + rng.IntN(120), Forks: rng.IntN(3), EveryRow: rng.IntN(4) == 0,
		Class: parley.Class(rng.IntN(parley.Classes)), Tenant: string(rune('a' + rng.IntN(5))),
		Background: rng.IntN(4) == 0}
	q.Tokens, q.Most = distinct(rng.IntN(6), q.Prompt), q.Prompt+1+rng.IntN(60)
	if rng.IntN(3) > 0 || !cfg.Fit(q) {
		return nil
	}
	return q
}

func checkPlan(t *testing.T, cfg *Config, plan []Part) {
	t.Helper()
	tokens, outputs, background := 0, 0, 0
	for _, p := range plan {
		if p.Seq.Background {
			background++
		}
		tokens += p.Tokens
		outputs += p.Outputs
		if after := p.Seq.Computed + p.Tokens; p.Tokens < 1 || after > len(p.Seq.Tokens) ||
			len(p.Seq.Table.Blocks)*kv.BlockTokens < after {
			t.Fatalf("part %+v of %+v", p, p.Seq)
		}
		if p.Seq.Computed+p.Tokens == len(p.Seq.Tokens) && p.Outputs < 1 {
			t.Fatalf("a sequence catches up without an output")
		}
	}
	if background != 0 && background != len(plan) && !cfg.Baseline.StaticBatches {
		t.Fatalf("%d of the %d parts of a pass are in the background", background, len(plan))
	}
	if tokens > cfg.StepTokens || outputs > cfg.StepOutputs {
		t.Fatalf("a pass of %d tokens and %d outputs under %+v", tokens, outputs, cfg)
	}
}

// advance gives each sequence that caught up its next token, forks those that
// finished their prompt, and takes out the complete ones and a few others.
func advance(rng *rand.Rand, s *Scheduler, live []*Seq, plan []Part, now time.Time) []*Seq {
	next := func(q *Seq) { q.Tokens = append(q.Tokens, parley.Token(rng.IntN(2))) }
	for _, p := range plan {
		q := p.Seq
		if q.behind() > 0 {
			continue
		}
		for len(q.Tokens) == q.Prompt && q.Forks > 0 {
			child := &Seq{Tokens: slices.Clone(q.Tokens)}
			s.Fork(q, child, now)
			next(child)
			live = append(live, child)
		}
		next(q)
	}
	return slices.DeleteFunc(live, func(q *Seq) bool {
		gone := len(q.Tokens) > q.Most || rng.IntN(300) == 0
		if gone {
			s.Remove(q, now)
		}
		return gone
	})
}

func mustNew(t testing.TB, cfg Config) *Scheduler {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// distinct returns n tokens that no other number shares a block with.
func distinct(number, n int) []parley.Token {
	tokens := make([]parley.Token, n)
	for i := range tokens {
		tokens[i] = parley.Token(number*100000 + i)
	}
	return tokens
}
