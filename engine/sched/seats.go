package sched

import (
	"cmp"
	"time"

	"parley"
	"parley/engine/kv"
)

// earnedShare is which part of the tokens that a preempted sequence had to compute
// again it must write before it can be preempted for its seat once more.
const earnedShare = 16

// readersLeast is the inverse of the part of a pass that prompts get beside
// sequences that write: a fifth where those just miss the target.
const readersLeast = 5

// seatsHeld returns how many seats the running sequences of each class have, with
// those for forks to come.
func (s *Scheduler) seatsHeld() (held [parley.Classes]int) {
	for _, q := range s.running {
		held[q.Class] += 1 + q.Forks
	}
	return held
}

// seatsShort returns how many more seats must become free before q can run.
func (s *Scheduler) seatsShort(q *Seq) int {
	short := s.seats.places + 1 + q.Forks - s.cfg.Seqs
	if s.cfg.Reserve == [parley.Classes]float64{} {
		return short
	}
	held := s.seatsHeld()
	for class, seats := range s.cfg.reservedSeats() {
		if parley.Class(class) != q.Class {
			short += max(0, seats-held[class])
		}
	}
	return short
}

// blocksShort returns how many more blocks must become available before q can run.
func (s *Scheduler) blocksShort(q *Seq) int {
	return blocks(s.firstTokens(q)) - (s.cache.Available() - s.lent(q.Class))
}

// fairSeats returns how many seats each class keeps when a higher one wants more:
// what it reserves, or its share by weight among the classes present.
func (s *Scheduler) fairSeats() [parley.Classes]int {
	fair := s.cfg.reservedSeats()
	var sum float64
	for class := range s.ledger.classes {
		if s.ledger.classes[class].present > 0 {
			sum += s.cfg.Weights[class]
		}
	}
	for class := range fair {
		if s.ledger.classes[class].present > 0 {
			fair[class] = max(fair[class], int(float64(s.cfg.Seqs)*s.cfg.Weights[class]/sum))
		}
	}
	return fair
}

// yields returns a running sequence of a lower class that gives up its seat and its
// memory so that q can run, or nil if there is none or q can wait. It returns one
// only if all that may yield would make enough room.
func (s *Scheduler) yields(q *Seq, now time.Time) (victim *Seq) {
	seats, memory := max(0, s.seatsShort(q)), max(0, s.blocksShort(q)+s.cfg.Cache.WatermarkBlocks)
	held, fair := s.seatsHeld(), s.fairSeats()
	for _, v := range s.running {
		if !v.mayYield(q) || held[v.Class]-1-v.Forks < fair[v.Class] {
			continue
		}
		held[v.Class] -= 1 + v.Forks
		seats, memory = seats-1-v.Forks, memory-v.Table.Held()
		if victim == nil || v.yieldsBefore(victim) {
			victim = v
		}
	}
	if q.Background || seats > 0 || memory > 0 || victim == nil || !s.pressing(q, now) {
		return nil
	}
	return victim
}

// yield preempts a sequence so that one of a higher class can run. It is the first
// of its class to get a seat again.
func (s *Scheduler) yield(v *Seq, now time.Time) {
	s.stats.Yielded++
	v.yield(now)
	s.preempt(v, now)
}

// mayYield reports whether the sequence can be preempted so that q can run: it is of
// a lower class, was not let in by its age, and if it was preempted before, has
// written enough since to be worth what it had to compute again. So every answer
// is preempted at most once for each block that it writes.
func (v *Seq) mayYield(q *Seq) bool {
	if v.Class >= q.Class || v.Background || v.stays {
		return false
	}
	return !v.again || len(v.Tokens)-v.mark >= max(kv.BlockTokens, v.recomputed/earnedShare)
}

// yieldsBefore orders the sequences that may yield: the lowest class, in it the one
// that was preempted least often, then the newest.
func (v *Seq) yieldsBefore(b *Seq) bool {
	return cmp.Or(cmp.Compare(v.Class, b.Class), cmp.Compare(v.Preempted, b.Preempted),
		cmp.Compare(b.order, v.order)) < 0
}

// pressing reports whether q must not wait for a seat. It waits for one pass, if the
// seats are certain to be free after it and its objective is met then: the
// length of an answer is unknown, but not its limit.
func (s *Scheduler) pressing(q *Seq, now time.Time) bool {
	objective := q.Objective
	if q.admitted || objective == 0 || !s.pace.Known() || s.blocksShort(q) > 0 {
		return true
	}
	ending := 0
	var work Work
	for _, v := range s.running {
		if s.turn(v) && v.behind() == 1 {
			work = work.Add(1, v.Computed)
			if len(v.Tokens) >= v.Most-1 {
				ending++
			}
		}
	}
	pass := max(s.pace.Predict(work), s.cfg.Target)
	return ending < s.seatsShort(q) || now.Add(pass+s.firstTokenIn(q)).After(q.due())
}

// firstTokenIn returns how long q is expected to take to its first token once it has
// a seat: it shares passes with those that write.
func (s *Scheduler) firstTokenIn(q *Seq) time.Duration {
	return s.cfg.Target + readersLeast*s.pace.Predict(Work{}.Add(len(q.Tokens), 0))
}
