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
	b := &s.background
	if q := b.favoured; q != nil && !slices.Contains(s.waiting, q) && !slices.Contains(s.running, q) {
		b.favoured, b.moved = nil, now
	}
	if !s.pass.busy {
		b.moved = now
	}
	if !s.pass.busy || b.favoured != nil || s.cfg.BackgroundWait < 0 {
		return
	}
	q := s.oldestBackground()
	if q == nil || now.Sub(b.moved) < s.cfg.BackgroundWait || now.Sub(q.arrived) < s.cfg.BackgroundWait {
		return
	}
	q.leaveBackground()
	b.favoured = q
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
