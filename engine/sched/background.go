package sched

import (
	"slices"
	"time"
)

// letIn ends the wait of a background sequence that has had no turn for
// BackgroundWait because others always had work: from now on it is one like any
// other. There is one such at a time, so that under a load that never ends the
// background takes one place, and moves.
func (s *Scheduler) letIn(now time.Time) {
	if s.favoured != nil && !slices.Contains(s.waiting, s.favoured) && !slices.Contains(s.running, s.favoured) {
		s.favoured, s.moved = nil, now
	}
	if !s.busy {
		s.moved = now
	}
	if !s.busy || s.favoured != nil || s.cfg.BackgroundWait < 0 {
		return
	}
	q := s.oldestBackground()
	if q == nil || now.Sub(s.moved) < s.cfg.BackgroundWait || now.Sub(q.arrived) < s.cfg.BackgroundWait {
		return
	}
	q.Background, s.favoured = false, q
	s.joins(q)
}

// oldestBackground returns the background sequence that came first, or nil.
func (s *Scheduler) oldestBackground() (oldest *Seq) {
	for _, list := range [][]*Seq{s.waiting, s.running} {
		for _, q := range list {
			if q.Background && !q.Paused && (oldest == nil || q.order < oldest.order) {
				oldest = q
			}
		}
	}
	return oldest
}

// hasForeground reports whether a sequence that is not in the background has
// work. One that is paused has none. With static batches no sequence could take
// the place of one that gives way, so none does.
func (s *Scheduler) hasForeground() bool {
	if s.cfg.Baseline.StaticBatches {
		return false
	}
	for _, list := range [][]*Seq{s.waiting, s.running} {
		for _, q := range list {
			if !q.Background && !q.Paused {
				return true
			}
		}
	}
	return false
}

// turn reports whether the sequence may have a share of the present pass.
func (s *Scheduler) turn(q *Seq) bool {
	return !q.Paused && !(q.Background && s.busy) && q.ready()
}

// joins makes the sequence count as present in the account of its tenant.
func (s *Scheduler) joins(q *Seq) {
	if !q.Background {
		s.ledger.join(q.Class, q.Tenant)
	}
}

// leaves ends that.
func (s *Scheduler) leaves(q *Seq) {
	if !q.Background {
		s.ledger.leave(q.Class, q.Tenant)
	}
}
