package sched

// hasForeground reports whether a sequence that is not in the background has
// work. One that is paused has none. Where batches are static nobody could take
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
func (s *Scheduler) turn(q *Seq) bool { return !q.Paused && !(q.Background && s.busy) }

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
