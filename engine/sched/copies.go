package sched

import (
	"iter"
	"slices"
	"time"

	"parley"
	"parley/engine/kv"
)

const (
	// copyBlind is the share of a pass that a copy never measured is taken to need.
	copyBlind = 1. / 16
	// copyShare is how much of a pass may go to copies that no writer waits for.
	copyShare = 0.5
	// retryClaims is how many claims go by before a tier that was too slow is tried again.
	retryClaims = 64
	// copiesPlenty is how many copies may wait before every pass does some of them.
	copiesPlenty = 256
	// idleCopies is how many copies are done at a time while nothing else is.
	idleCopies = 32
	// copyDoubt is a difference in time that is too small to tell from none.
	copyDoubt = time.Microsecond
)

// Copied records that a number of blocks were copied, and the time it took.
func (s *Scheduler) Copied(from, to kv.Tier, blocks int, took time.Duration) {
	known := &s.transfers.pace.block[from][to]
	each := max(took/time.Duration(blocks), 1)
	if *known == 0 {
		*known = each
	}
	*known += (each - *known) / 4
}

// expect returns how long a copy is expected to take.
func (s *Scheduler) expect(m *kv.Move) time.Duration {
	if known := s.transfers.pace.block[m.From][m.To]; known > 0 {
		return known
	}
	return time.Duration(copyBlind * float64(s.limit()))
}

// tooSlow returns from which tier on computing a block again is faster than
// copying it; 0 if none is. Now and then it lets a claim try.
func (s *Scheduler) tooSlow() kv.Tier {
	s.transfers.pace.claims++
	if !s.pace.Known() || s.transfers.pace.claims%retryClaims == 0 {
		return 0
	}
	again := s.BlockTime()
	for t := kv.Host; int(t) < kv.Tiers; t++ {
		if s.transfers.pace.block[t][kv.Device] > again+copyDoubt {
			return t
		}
	}
	return 0
}

// BlockTime returns how long computing one more block is expected to take in a pass that is
// full; 0 if that is not known.
func (s *Scheduler) BlockTime() time.Duration {
	if !s.pace.Known() {
		return 0
	}
	chunk := Work{Rows: s.cfg.StepTokens}
	return s.pace.Predict(chunk.Add(kv.BlockTokens, 0)) - s.pace.Predict(chunk)
}

// Prospects lists blocks that may be worth keeping elsewhere; see [kv.Cache.Prospects].
func (s *Scheduler) Prospects(dst []kv.Prospect, from int32, most int, least float64,
	known func(*parley.BlockHash) bool) ([]kv.Prospect, int32) {
	return s.cache.Prospects(dst, from, most, least, known)
}

// Reuse and LearnFrom exchange what caches have observed; see [kv.Cache.Reuse].
func (s *Scheduler) Reuse() *kv.Reuse { return s.cache.Reuse() }

// LearnFrom takes what other caches have observed.
func (s *Scheduler) LearnFrom(others []*kv.Reuse) { s.cache.LearnFrom(others) }

// board copies blocks of a sequence to their place, as far as the pass has time
// for it, and reports whether all are there.
func (s *Scheduler) board(q *Seq) bool {
	if q.boarding {
		q.board(s.transfers.queue.Waits(q.past()) > 0)
	}
	if !q.boarding {
		return true
	}
	most := time.Duration(copyShare * float64(s.limit()))
	past := q.past()
	for i := range past {
		if s.transfers.queue.Waits(past[i:i+1]) == 0 {
			continue
		}
		if s.cfg.Target > 0 && s.transfers.pace.planned >= most {
			return false
		}
		s.copyFor(past[i : i+1])
	}
	q.board(false)
	return true
}

// copyFor plans the copies that blocks wait for.
func (s *Scheduler) copyFor(blocks []int32) {
	before := len(s.pass.plan.Copies)
	s.pass.plan.Copies = s.transfers.queue.TakeFor(s.pass.plan.Copies, blocks)
	for i := range s.pass.plan.Copies[before:] {
		s.transfers.pace.planned += s.expect(&s.pass.plan.Copies[before+i])
	}
}

// evictions returns how long it takes to move away what still lies in the
// blocks that a reader's next tokens will fill.
func (s *Scheduler) evictions(q *Seq, tokens int) time.Duration {
	if s.transfers.queue.Len() == 0 {
		return 0
	}
	from := q.Computed + q.granted
	waits := s.transfers.queue.Waits(q.Table.Blocks[from/kv.BlockTokens : blocks(from+tokens)])
	most := time.Duration(copyShare * float64(s.limit()))
	return min(most, time.Duration(waits)*slices.Max(s.transfers.pace.block[kv.Device][kv.Host:]))
}

// planCopies plans the copies that the parts need, and a few others if many wait.
func (s *Scheduler) planCopies() {
	s.transfers.queue.Add(s.cache.Moves())
	if s.transfers.queue.Len() == 0 {
		s.transfers.pace.planned = 0
		return
	}
	for _, p := range s.pass.plan.Parts {
		table := p.Seq.Table.Blocks
		s.copyFor(table[p.Seq.Computed/kv.BlockTokens : blocks(p.Seq.Computed+p.Tokens)])
	}
	if s.transfers.queue.Len() > copiesPlenty {
		s.pass.plan.Copies = s.transfers.queue.TakeOldest(s.pass.plan.Copies, s.transfers.queue.Len()/copiesPlenty)
	}
	s.transfers.pace.planned = 0
}

// Idle returns copies to be done while there is nothing to compute: those that
// wait, then copies to the disk of what is only in memory. The plan is valid
// until the next call.
func (s *Scheduler) Idle() *Plan {
	s.pass.plan = Plan{Parts: s.pass.plan.Parts[:0], Expired: s.pass.plan.Expired[:0], Copies: s.pass.plan.Copies[:0]}
	s.sealAll()
	s.transfers.queue.Add(s.cache.Moves())
	if s.transfers.queue.Len() == 0 && s.cache.Backup(idleCopies) > 0 {
		s.transfers.queue.Add(s.cache.Moves())
	}
	s.pass.plan.Copies = s.transfers.queue.TakeOldest(s.pass.plan.Copies, idleCopies)
	return &s.pass.plan
}

// Lost records that a copy could not be done because its source is damaged. All
// sequences that wait for a copy of that block compute it again, and so will others.
func (s *Scheduler) Lost(m kv.Move, now time.Time) {
	slots := s.transfers.queue.Void(m.Hash)
	if m.To == kv.Device {
		slots = append(slots, m.ToSlot)
	}
	waits := func(t *kv.Table) bool {
		return slices.ContainsFunc(t.Blocks, func(b int32) bool { return slices.Contains(slots, b) })
	}
	for i := len(s.running) - 1; i >= 0; i-- {
		if q := s.running[i]; waits(&q.Table) {
			s.preempt(q, now)
		}
	}
	s.endIntakes(func(in *Intake) bool { return waits(&in.table) }, now)
	s.cache.Forget(m.Hash)
}

// Adopt takes over blocks that an earlier process left on the disk, before any
// sequence was added. It returns how many.
func (s *Scheduler) Adopt(found []kv.DiskBlock) int { return s.cache.Adopt(found) }

// Repair checks that every block is accounted for, and if one is not, makes it
// so and returns what was wrong.
func (s *Scheduler) Repair() error { return s.cache.Repair() }

// Seq returns the number of the latest event; see [kv.Cache.Seq].
func (s *Scheduler) Seq() uint64 { return s.cache.Seq() }

// EventsSince returns the events after seq; see [kv.Cache.EventsSince].
func (s *Scheduler) EventsSince(seq uint64) (iter.Seq[kv.Event], bool) {
	return s.cache.EventsSince(seq)
}

// Snapshot returns every block that can be found; see [kv.Cache.Snapshot].
func (s *Scheduler) Snapshot() (uint64, iter.Seq[kv.Event]) { return s.cache.Snapshot() }
