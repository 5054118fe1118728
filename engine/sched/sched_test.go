package sched

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"parley"
	"parley/engine/kv"
)

var rewrite = flag.Bool("rewrite", false, "write the traces that the scripts give now; review the difference")

// TestScripts runs the scripts in testdata. A script adds sequences and lets
// passes happen; the trace says what each pass computed. The lines are
//
//	config blocks=N tokens=N outputs=N seqs=N [target=MS] [reserve=PERCENT for enterprise]
//	       [host=N] [disk=N] [copy=MS for each block]
//	       [static-batches] [reserve-whole] [whole-prompts] [no-prefix-cache]
//	add NAME prompt=N most=N [like=NAME] [forks=N] [every] [class=0|1|2] [tenant=N] [deadline=MS] [objective=MS]
//	       [background]
//	pass                a sequence that caught up wants one more token
//	wait MS
//	remove NAME
//	idle                copies are made while nothing is computed
//	damage              every block on disk is unreadable from now on
//
// A pass takes 1 ms and 0.1 ms for each row.
func TestScripts(t *testing.T) {
	files, err := os.ReadDir("testdata")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, f := range files {
		path := "testdata/" + f.Name()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got := runScript(t, string(text))
		if *rewrite {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if got != string(text) {
			t.Errorf("%s: the trace is now\n%s\nwant\n%s", path, got, text)
		}
	}
}

// runScript repeats the script's commands, each followed by its trace.
func runScript(t *testing.T, text string) string {
	var out strings.Builder
	var s *Scheduler
	var copies copyScript
	now := time.Unix(1000, 0)
	seqs := map[string]*Seq{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "|") {
			continue
		}
		fmt.Fprintln(&out, line)
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		switch words[0] {
		case "config":
			copies = copyScript{each: time.Duration(number(words, "copy")) * time.Millisecond}
			s = mustNew(t,
				Config{Cache: kv.Config{HostBlocks: number(words, "host"), DiskBlocks: number(words, "disk")},
					Blocks: number(words, "blocks"), StepTokens: number(words, "tokens"),
					StepOutputs: number(words, "outputs"), Seqs: number(words, "seqs"),
					Target:  time.Duration(number(words, "target")) * time.Millisecond,
					Reserve: [parley.Classes]float64{parley.Enterprise: float64(number(words, "reserve")) / 100},
					Baseline: Baseline{StaticBatches: slices.Contains(words, "static-batches"),
						ReserveWhole:  slices.Contains(words, "reserve-whole"),
						WholePrompts:  slices.Contains(words, "whole-prompts"),
						NoPrefixCache: slices.Contains(words, "no-prefix-cache")}})
		case "add":
			q := &Seq{Prompt: number(words, "prompt"), Most: number(words, "most"), Forks: number(words, "forks"),
				EveryRow: slices.Contains(words, "every"),
				Class:    parley.Class(number(words, "class")), Tenant: fmt.Sprint(number(words, "tenant")),
				Background: slices.Contains(words, "background"),
				Objective:  time.Duration(number(words, "objective")) * time.Millisecond,
				Waited:     time.Duration(number(words, "waited")) * time.Millisecond}
			q.Tokens = distinct(len(seqs), q.Prompt)
			for name, other := range seqs {
				if slices.Contains(words, "like="+name) {
					q.Tokens = slices.Clone(other.Tokens[:q.Prompt])
				}
			}
			if slices.Contains(words, "same") {
				q.Tokens = distinct(1000, q.Prompt)
			}
			if ms := number(words, "deadline"); ms > 0 {
				q.Deadline = now.Add(time.Duration(ms) * time.Millisecond)
			}
			seqs[words[1]] = q
			if fits := s.cfg.Fit(q); fits {
				s.Add(q, now)
			} else {
				fmt.Fprintln(&out, "| does not fit")
			}
		case "remove":
			s.Remove(seqs[words[1]], now)
		case "wait":
			var ms int
			fmt.Sscan(words[1], &ms)
			now = now.Add(time.Duration(ms) * time.Millisecond)
		case "idle":
			copies.do(s, s.Idle().Copies, now, &out)
		case "damage":
			copies.damaged = true
		case "pass":
			now = now.Add(pass(t, s, seqs, copies, now, &out))
		default:
			t.Fatalf("unknown command %q", line)
		}
	}
	return out.String()
}

func number(words []string, key string) (n int) {
	for _, w := range words {
		if v, ok := strings.CutPrefix(w, key+"="); ok {
			fmt.Sscan(v, &n)
		}
	}
	return n
}

// A copyScript says how the copies of a script go.
type copyScript struct {
	each    time.Duration
	damaged bool
}

// do makes copies between tiers and reports whether all could be made.
func (c copyScript) do(s *Scheduler, moves []kv.Move, now time.Time, out *strings.Builder) (whole bool) {
	whole = true
	for _, m := range moves {
		if m.From == m.To {
			continue
		}
		fmt.Fprintf(out, "| copy %s %d to %s %d\n", m.From, m.FromSlot, m.To, m.ToSlot)
		if m.From == kv.Disk && c.damaged {
			s.Lost(m, now)
			whole = false
			continue
		}
		s.Copied(m.From, m.To, 1, c.each)
	}
	return whole
}

func pass(t *testing.T, s *Scheduler, seqs map[string]*Seq, copies copyScript, now time.Time,
	out *strings.Builder) time.Duration {
	plan := s.Next(now)
	names := map[*Seq]string{}
	for name, q := range seqs {
		names[q] = name
	}
	for _, q := range plan.Expired {
		fmt.Fprintf(out, "| %s expired\n", names[q])
	}
	if !copies.do(s, plan.Copies, now, out) {
		fmt.Fprintln(out, "| a copy failed: nothing is computed")
		return time.Millisecond
	}
	for _, p := range plan.Parts {
		fmt.Fprintf(out, "| %s computes %d after %d, outputs %d\n", names[p.Seq], p.Tokens, p.Seq.Computed, p.Outputs)
	}
	took := time.Millisecond + time.Duration(plan.Work.Rows)*100*time.Microsecond
	s.Commit(plan, took)
	for _, p := range plan.Parts {
		if p.Seq.behind() == 0 {
			p.Seq.Tokens = append(p.Seq.Tokens, 7)
		}
	}
	load := s.Load()
	fmt.Fprintf(out, "| running %d, waiting %d, blocks %d of %d\n", load.Running,
		load.Waiting[0]+load.Waiting[1]+load.Waiting[2], load.Pool.InUse, load.Pool.Total)
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	return took
}

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
		if load := s.Load(); load.Pool.InUse != 0 || s.places != 0 {
			t.Fatalf("seed %d: left behind %+v, %d places", seed, load, s.places)
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
