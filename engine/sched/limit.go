package sched

import "time"

// readLimit returns how long the present pass may take for the sake of readers.
// Where the writers alone take longer than the target no pass can keep it, and
// readers must not starve for that: they get a fifth of the pass where the
// writers just miss it, and up to half of it the farther they do.
func (s *Scheduler) readLimit() time.Duration {
	limit := s.limit()
	if s.pass.writers == 0 || s.pass.alone <= limit {
		return limit
	}
	beyond := float64(s.pass.alone) / (targetUse * float64(s.cfg.Target))
	return max(limit, time.Duration(float64(s.pass.alone)*min(max(beyond+trickleFactor-1, trickleFactor), 2)))
}

// limit returns how long the present pass should take.
func (s *Scheduler) limit() time.Duration {
	limit := targetUse * float64(s.cfg.Target)
	if s.pass.writers == 0 {
		limit = max(quietFactor*limit, quietFixed*float64(s.pace.Predict(Work{})))
	}
	return max(0, time.Duration(limit)-s.pass.spent)
}
