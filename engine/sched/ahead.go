package sched

// Ahead returns about how many of the sequences that wait go before q: those of
// a higher class, and the older ones of its own. Waits is false if q is not
// among them.
func (s *Scheduler) Ahead(q *Seq) (ahead int, waits bool) {
	for _, w := range s.waiting {
		switch {
		case w == q:
			waits = true
		case w.Background != q.Background:
			if q.Background {
				ahead++
			}
		case w.Class > q.Class || w.Class == q.Class && w.order < q.order:
			ahead++
		}
	}
	return ahead, waits
}
