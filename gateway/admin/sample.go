package admin

// sampleBetween returns what happened between two readings, for charts.
func sampleBetween(from, to *Reading) (s Sample) {
	for i := range to.Workers {
		w := &to.Workers[i]
		s.Running += w.Running
		s.KV, s.Busy = max(s.KV, w.KV), max(s.Busy, w.Busy)
	}
	for i := range to.Queues {
		for _, n := range to.Queues[i].Waiting {
			s.Waiting += n
		}
	}
	s.Requests = delta(from.ended(), to.ended())
	s.Failed = delta(from.FailedTotal, to.FailedTotal)
	s.Rejected = delta(from.TurnedAwayTotal, to.TurnedAwayTotal)
	s.Prompt = delta(from.PromptTotal, to.PromptTotal)
	s.Cached = delta(from.CachedTotal, to.CachedTotal)
	s.Output = delta(from.OutputTotal, to.OutputTotal)
	s.TTFT, s.Gap = to.TTFT.within(&from.TTFT), to.Gap.within(&from.Gap)
	return s
}
