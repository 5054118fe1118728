package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"parley"
)

// A virtual runs a scheduler on a machine of constant speed, in virtual time.
type virtual struct {
	t    *testing.T
	s    *Scheduler
	now  time.Time
	last map[*Seq]time.Time // when a writer wrote last
	gaps []time.Duration    // between two tokens of a writer
	done map[*Seq]time.Duration
	born map[*Seq]time.Time
	// cost is how long passes take on it.
	cost func(Work) time.Duration
}

func newVirtual(t *testing.T, cfg Config) *virtual {
	return &virtual{t: t, s: mustNew(t, cfg), now: time.Unix(1000, 0), last: map[*Seq]time.Time{},
		done: map[*Seq]time.Duration{}, born: map[*Seq]time.Time{}, cost: linear}
}

func (v *virtual) add(class parley.Class, tenant string, prompt, output int) *Seq {
	q := &Seq{Prompt: prompt, Tokens: distinct(len(v.born), prompt), Most: prompt + output, Class: class,
		Tenant: tenant}
	if !v.s.cfg.Fit(q) {
		v.t.Fatalf("%d+%d tokens do not fit", prompt, output)
	}
	v.born[q] = v.now
	v.s.Add(q, v.now)
	return q
}

// pass computes one pass and returns how long it took.
func (v *virtual) pass() time.Duration {
	plan := v.s.Next(v.now)
	took := v.cost(plan.Work)
	v.s.Commit(plan, took)
	v.now = v.now.Add(took)
	for _, p := range plan.Parts {
		q := p.Seq
		if q.behind() > 0 {
			continue
		}
		if before, ok := v.last[q]; ok {
			v.gaps = append(v.gaps, v.now.Sub(before))
		}
		v.last[q] = v.now
		if q.Tokens = append(q.Tokens, 7); len(q.Tokens) > q.Most {
			v.s.Remove(q, v.now)
			v.done[q] = v.now.Sub(v.born[q])
		}
	}
	return took
}

var roomy = Config{Blocks: 1 << 20, StepTokens: 4096, StepOutputs: 256, Seqs: 256}

// TestNoPromptMakesWritersStutter lets prompts of every length arrive while
// sixteen sequences write, on a machine that has been measured for a while:
// not one gap is longer than the target.
func TestNoPromptMakesWritersStutter(t *testing.T) {
	cfg := roomy
	cfg.Target = 20 * time.Millisecond
	v := newVirtual(t, cfg)
	for i := range 16 {
		v.add(parley.Free, "writer", 20+i, 3000)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 40 { // the machine becomes known
		if i%4 == 0 {
			v.add(parley.Free, "early", 10+rng.IntN(200), 5)
		}
		v.pass()
	}
	v.gaps = nil
	for i := range 2000 {
		if i%50 == 0 {
			v.add(parley.Free, fmt.Sprint(i%3), 1+rng.IntN(200000>>rng.IntN(12)), 5)
		}
		v.pass()
	}
	if worst := slices.Max(v.gaps); worst > cfg.Target {
		t.Errorf("the longest of %d gaps is %v, over the target of %v", len(v.gaps), worst, cfg.Target)
	}
	if len(v.done) < 20 {
		t.Errorf("only %d sequences finished: the bound was bought with standstill", len(v.done))
	}
}

// TestManyRequestsDoNotCrowdOutOne has a tenant with fifty requests and one
// with a single request of the same kind.
func TestManyRequestsDoNotCrowdOutOne(t *testing.T) {
	cfg := roomy
	cfg.Seqs, cfg.StepTokens = 8, 256
	alone := newVirtual(t, cfg)
	lonely := alone.add(parley.Free, "small", 500, 50)
	for len(alone.done) < 1 {
		alone.pass()
	}
	v := newVirtual(t, cfg)
	for range 50 {
		v.add(parley.Free, "large", 500, 50)
	}
	for range 20 {
		v.pass()
	}
	single := v.add(parley.Free, "small", 500, 50)
	for len(v.done) < 51 {
		v.pass()
	}
	later := 0
	for _, took := range v.done {
		if took > v.done[single] {
			later++
		}
	}
	if later < 40 {
		t.Errorf("the single request took %v (alone %v); only %d of fifty took longer", v.done[single],
			alone.done[lonely], later)
	}
}

// TestTurnsFollowWeights keeps all classes reading, and compares what each got.
func TestTurnsFollowWeights(t *testing.T) {
	cfg := roomy
	cfg.StepTokens = 128
	v := newVirtual(t, cfg)
	for c := range parley.Class(parley.Classes) {
		v.add(c, "x", 400000, 10)
	}
	for range 600 {
		v.pass()
	}
	var got [parley.Classes]float64
	for c := range got {
		got[c] = v.s.ledger.classes[c].total
	}
	for c := 1; c < parley.Classes; c++ {
		if ratio := got[c] / got[c-1]; ratio < 3.5 || ratio > 4.5 {
			t.Errorf("classes got %v tokens: %s has %.2f times what %s has, want 4", got, parley.Class(c), ratio,
				parley.Class(c-1))
		}
	}
}

// TestTenantsShareEvenly measures Jain's index over tenants with very
// different numbers of requests.
func TestTenantsShareEvenly(t *testing.T) {
	cfg := roomy
	cfg.StepTokens, cfg.Seqs = 64, 100
	v := newVirtual(t, cfg)
	for tenant := range 5 {
		for range 1 << tenant {
			v.add(parley.Pro, fmt.Sprint(tenant), 100000, 10)
		}
	}
	for range 400 {
		v.pass()
	}
	if jain := v.s.Load().Fairness[parley.Pro]; jain < 0.99 {
		t.Errorf("Jain's index is %.3f", jain)
	}
}

// TestNobodyStarves keeps the server full of enterprise requests. A free
// request is admitted once it has aged, however many of them keep coming, and
// then waits at most for running sequences to end.
func TestNobodyStarves(t *testing.T) {
	cfg := roomy
	cfg.Seqs, cfg.StepTokens, cfg.AgeMax = 4, 64, 2*time.Second
	v := newVirtual(t, cfg)
	for range 8 {
		v.add(parley.Enterprise, "big", 60, 40)
	}
	v.pass()
	poor := v.add(parley.Free, "poor", 60, 5)
	var longest time.Duration
	for v.done[poor] == 0 {
		if len(v.s.waiting) < 6 {
			v.add(parley.Enterprise, "big", 60, 40)
		}
		v.pass()
		if v.now.Sub(v.born[poor]) > time.Minute {
			t.Fatal("the free request starves")
		}
		for q, took := range v.done {
			if q.Class == parley.Enterprise {
				longest = max(longest, took)
			}
		}
	}
	if took := v.done[poor]; took < cfg.AgeMax || took > cfg.AgeMax+2*longest {
		t.Errorf("the free request took %v: want the age of %v and then at most two of the %v that the others take",
			took, cfg.AgeMax, longest)
	}
}

// TestBackgroundMoves keeps the server full. Background requests are admitted one
// after the other, each after the wait, and only one at a time.
func TestBackgroundMoves(t *testing.T) {
	cfg := roomy
	cfg.Seqs, cfg.StepTokens, cfg.BackgroundWait = 4, 64, 3*time.Second
	for wait, want := range map[time.Duration]bool{3 * time.Second: true, -1: false} {
		cfg.BackgroundWait = wait
		v := newVirtual(t, cfg)
		var behind []*Seq
		for range 3 {
			q := v.add(parley.Free, "batch", 60, 5)
			v.s.leaves(q)
			q.Background = true
			behind = append(behind, q)
		}
		var ended []time.Duration
		for v.now.Sub(v.born[behind[0]]) < 2*time.Minute && len(ended) < len(behind) {
			if len(v.s.waiting) < 6 {
				v.add(parley.Enterprise, "big", 60, 40)
			}
			v.pass()
			if v.s.background.favoured != nil && v.s.oldestBackground() == nil && len(ended) < 2 {
				t.Fatal("two were let in at once")
			}
			if took := v.done[behind[len(ended)]]; took > 0 {
				ended = append(ended, took)
			}
		}
		if !want {
			if len(ended) != 0 {
				t.Errorf("without a bound %d were let in", len(ended))
			}
			continue
		}
		if len(ended) != 3 {
			t.Fatalf("only %d of 3 were let in", len(ended))
		}
		for i, at := range ended {
			if least := time.Duration(i+1) * wait; at < least || at > least+20*time.Second {
				t.Errorf("number %d ended after %v, wanted shortly after %v", i, at, least)
			}
		}
	}
}

// TestReservedShareNeedsNobodyElse fills the server with free requests. An
// enterprise request within the reserved share starts in the next pass.
func TestReservedShareNeedsNobodyElse(t *testing.T) {
	cfg := Config{Blocks: 64, StepTokens: 64, StepOutputs: 32, Seqs: 32,
		Reserve: [parley.Classes]float64{parley.Enterprise: 0.25}}
	v := newVirtual(t, cfg)
	for range 40 {
		v.add(parley.Free, "x", 30, 60)
	}
	for range 30 {
		v.pass()
	}
	for range 10 {
		q := v.add(parley.Enterprise, "e", 30, 30)
		v.pass()
		if q.Computed == 0 {
			t.Fatal("an enterprise request within its share had to wait")
		}
		for v.done[q] == 0 {
			v.pass()
		}
	}
}

// TestPausedMakesRoom fills the pool with sequences whose readers are gone, and
// wants the next one to be admitted all the same.
func TestPausedMakesRoom(t *testing.T) {
	v := newVirtual(t, Config{Blocks: 8, StepTokens: 64, StepOutputs: 8, Seqs: 2})
	slow := []*Seq{v.add(parley.Enterprise, "x", 60, 4), v.add(parley.Enterprise, "x", 60, 4)}
	v.pass()
	for _, q := range slow {
		q.Paused = true
	}
	q := v.add(parley.Free, "y", 60, 4)
	for range 6 {
		v.pass()
	}
	if v.done[q] == 0 {
		t.Error("a request waits for memory that nobody uses")
	}
	for _, q := range slow {
		q.Paused = false
	}
	for range 20 {
		v.pass()
	}
	if len(v.done) != 3 {
		t.Errorf("%d of 3 sequences finished", len(v.done))
	}
}

func BenchmarkStep64(b *testing.B) {
	s := mustNew(b,
		Config{Blocks: 1 << 16, StepTokens: 512, StepOutputs: 256, Seqs: 256, Target: 50 * time.Millisecond})
	now := time.Unix(1000, 0)
	for i := range 64 {
		s.Add(&Seq{Prompt: 100, Tokens: distinct(i, 100), Most: 1 << 30, Class: parley.Class(i % 3),
			Tenant: fmt.Sprint(i % 10)}, now)
	}
	b.ReportAllocs()
	for b.Loop() {
		plan := s.Next(now)
		s.Commit(plan, 10*time.Millisecond)
		for _, p := range plan.Parts {
			if p.Seq.behind() == 0 {
				p.Seq.Tokens = append(p.Seq.Tokens, 7)
			}
			if len(p.Seq.Tokens) > 2000 {
				s.Remove(p.Seq, now)
				p.Seq.Tokens, p.Seq.hashes = p.Seq.Tokens[:100], p.Seq.hashes[:6]
				s.Add(p.Seq, now)
			}
		}
	}
}

// Where writing alone takes longer than the target, no pass can keep it. Prompts
// are read all the same, and writers are slowed to half at most.
func TestSlowWritersDoNotStarveReaders(t *testing.T) {
	for _, fixed := range []time.Duration{48 * time.Millisecond, 70 * time.Millisecond, 300 * time.Millisecond} {
		cfg := roomy
		cfg.Target = 50 * time.Millisecond
		v := newVirtual(t, cfg)
		v.cost = func(w Work) time.Duration { return fixed + time.Duration(w.Rows)*2*time.Millisecond }
		v.add(parley.Pro, "writer", 256, 1<<16)
		for range 40 {
			v.pass()
		}
		alone := v.pass()
		reader := v.add(parley.Pro, "reader", 512, 1)
		passes := 0
		for ; reader.Computed < 512 && passes < 1000; passes++ {
			if took := v.pass(); took > 2*alone+2*time.Millisecond {
				t.Fatalf("beside writers that take %v a pass took %v", alone, took)
			}
		}
		if passes > 100 {
			t.Errorf("beside writers that take %v a prompt of 512 tokens took %d passes", alone, passes)
		}
	}
}
