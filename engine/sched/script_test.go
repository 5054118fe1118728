package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"parley"
	"parley/engine/kv"
	"parley/internal/scripttest"
)

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
	scripttest.Run(t, func(run *scripttest.Script) func(scripttest.Words) {
		s := &script{Script: run, now: time.Unix(1000, 0), seqs: map[string]*Seq{}}
		return s.execute
	})
}

// A script is one under way.
type script struct {
	*scripttest.Script
	s    *Scheduler
	now  time.Time
	seqs map[string]*Seq
	// each is how long the copy of a block takes; damaged: none from the disk can be made.
	each    time.Duration
	damaged bool
}

func (s *script) execute(words scripttest.Words) {
	switch words[0] {
	case "config":
		s.configure(words)
	case "add":
		s.add(words)
	case "remove":
		s.s.Remove(s.seqs[words[1]], s.now)
	case "wait":
		s.now = s.now.Add(time.Duration(scripttest.Number(words[1])) * time.Millisecond)
	case "idle":
		s.copy(s.s.Idle().Copies)
	case "damage":
		s.damaged = true
	case "pass":
		s.now = s.now.Add(s.pass())
	default:
		s.Fatalf("unknown command %q", words)
	}
}

func (s *script) configure(words scripttest.Words) {
	s.each = time.Duration(words.Number("copy")) * time.Millisecond
	s.damaged = false
	s.s = mustNew(s.T, Config{
		Cache:       kv.Config{HostBlocks: words.Number("host"), DiskBlocks: words.Number("disk")},
		Blocks:      words.Number("blocks"),
		StepTokens:  words.Number("tokens"),
		StepOutputs: words.Number("outputs"),
		Seqs:        words.Number("seqs"),
		Target:      time.Duration(words.Number("target")) * time.Millisecond,
		Reserve:     [parley.Classes]float64{parley.Enterprise: float64(words.Number("reserve")) / 100},
		Baseline: Baseline{
			StaticBatches: words.Has("static-batches"),
			ReserveWhole:  words.Has("reserve-whole"),
			WholePrompts:  words.Has("whole-prompts"),
			NoPrefixCache: words.Has("no-prefix-cache"),
		},
	})
}

func (s *script) add(words scripttest.Words) {
	q := &Seq{
		Prompt:     words.Number("prompt"),
		Most:       words.Number("most"),
		Forks:      words.Number("forks"),
		EveryRow:   words.Has("every"),
		Class:      parley.Class(words.Number("class")),
		Tenant:     fmt.Sprint(words.Number("tenant")),
		Background: words.Has("background"),
		Objective:  time.Duration(words.Number("objective")) * time.Millisecond,
		Waited:     time.Duration(words.Number("waited")) * time.Millisecond,
	}
	q.Tokens = distinct(len(s.seqs), q.Prompt)
	if other := s.seqs[words.Value("like")]; other != nil {
		q.Tokens = slices.Clone(other.Tokens[:q.Prompt])
	}
	if words.Has("same") {
		q.Tokens = distinct(1000, q.Prompt)
	}
	if ms := words.Number("deadline"); ms > 0 {
		q.Deadline = s.now.Add(time.Duration(ms) * time.Millisecond)
	}
	s.seqs[words[1]] = q
	if s.s.cfg.Fit(q) {
		s.s.Add(q, s.now)
	} else {
		s.Say("does not fit")
	}
}

// copy makes copies between tiers and reports whether all could be made.
func (s *script) copy(moves []kv.Move) (whole bool) {
	whole = true
	for _, m := range moves {
		if m.From == m.To {
			continue
		}
		s.Say("copy %s %d to %s %d", m.From, m.FromSlot, m.To, m.ToSlot)
		if m.From == kv.Disk && s.damaged {
			s.s.Lost(m, s.now)
			whole = false
			continue
		}
		s.s.Copied(m.From, m.To, 1, s.each)
	}
	return whole
}

func (s *script) pass() (took time.Duration) {
	plan := s.s.Next(s.now)
	names := map[*Seq]string{}
	for name, q := range s.seqs {
		names[q] = name
	}
	for _, q := range plan.Expired {
		s.Say("%s expired", names[q])
	}
	if !s.copy(plan.Copies) {
		s.Say("a copy failed: nothing is computed")
		return time.Millisecond
	}
	for _, p := range plan.Parts {
		s.Say("%s computes %d after %d, outputs %d", names[p.Seq], p.Tokens, p.Seq.Computed, p.Outputs)
	}
	took = time.Millisecond + time.Duration(plan.Work.Rows)*100*time.Microsecond
	s.s.Commit(plan, took)
	for _, p := range plan.Parts {
		if p.Seq.behind() == 0 {
			p.Seq.Tokens = append(p.Seq.Tokens, 7)
		}
	}
	load := s.s.Load()
	s.Say("running %d, waiting %d, blocks %d of %d", load.Running, load.Waiting[0]+load.Waiting[1]+load.Waiting[2],
		load.Pool.InUse, load.Pool.Total)
	if err := s.s.Check(); err != nil {
		s.Error(err)
	}
	return took
}
