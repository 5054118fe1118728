package sched

// closed reports whether the running sequences are a batch that no other may join.
func (s *Scheduler) closed() bool { return s.cfg.Baseline.StaticBatches && len(s.running) > 0 }

// firstTokens returns for how many tokens a sequence gets memory at admission.
func (s *Scheduler) firstTokens(q *Seq) int {
	if s.cfg.Baseline.ReserveWhole {
		return q.Most
	}
	return len(q.Tokens)
}
