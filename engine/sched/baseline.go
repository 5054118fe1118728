package sched

// A Baseline turns mechanisms off, so that a benchmark can say what each is
// worth on the machine at hand. Each is how servers worked before the better
// way was published. The zero value turns nothing off; never serve with another.
type Baseline struct {
	// StaticBatches lets no sequence join those that run: the next batch starts
	// when all of this one have ended.
	StaticBatches bool
	// ReserveWhole takes the memory of the longest answer allowed at admission,
	// not as the answer grows.
	ReserveWhole bool
	// WholePrompts computes a prompt in one pass however long that takes. Where
	// StepTokens is less than the prompt, it is cut there.
	WholePrompts bool
	// NoPrefixCache computes every prompt from its beginning and keeps nothing
	// of it for others.
	NoPrefixCache bool
}

// closed reports whether the running sequences are a batch that no other may join.
func (s *Scheduler) closed() bool { return s.cfg.Baseline.StaticBatches && len(s.running) > 0 }

// firstTokens returns for how many tokens a sequence gets memory at admission.
func (s *Scheduler) firstTokens(q *Seq) int {
	if s.cfg.Baseline.ReserveWhole {
		return q.Most
	}
	return len(q.Tokens)
}
