package traffic

import "time"

// A Summary is the load of a trace in the numbers that a plan takes.
type Summary struct {
	// PromptTokens and OutputTokens are means.
	PromptTokens, OutputTokens float64
	// PeakRate is the mean of the busiest minute, in requests per second.
	PeakRate float64
	// HitRate is the share of requests whose first block was in an earlier one,
	// and NewTokens their mean tokens after the last such block: what a cache
	// that never forgets would find. Both are 0 for a trace without blocks.
	HitRate, NewTokens float64
}

// Summarize sums up the rows of a trace, which are in order of time.
func Summarize(rows []Row) (s Summary) {
	if len(rows) == 0 {
		return s
	}
	minutes := map[int]int{}
	seen := map[uint64]bool{}
	hits := 0
	for i := range rows {
		r := &rows[i]
		s.PromptTokens += float64(r.InputTokens)
		s.OutputTokens += float64(r.OutputTokens)
		minutes[int(r.At/time.Minute)]++
		known := 0
		for known < len(r.Blocks) && seen[r.Blocks[known]] {
			known++
		}
		if known > 0 {
			hits++
			s.NewTokens += float64(max(0, r.InputTokens-known*MooncakeBlockTokens))
		}
		for _, b := range r.Blocks {
			seen[b] = true
		}
	}
	busiest := 0
	for _, n := range minutes {
		busiest = max(busiest, n)
	}
	s.PeakRate = float64(busiest) / min(60, max(1, rows[len(rows)-1].At.Seconds()))
	s.PromptTokens /= float64(len(rows))
	s.OutputTokens /= float64(len(rows))
	s.HitRate = float64(hits) / float64(len(rows))
	s.NewTokens /= float64(max(1, hits))
	return s
}
