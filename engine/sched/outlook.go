package sched

import (
	"math"
	"time"
)

// An Outlook is what the next pass is expected to cost, before any guess.
type Outlook struct {
	// Work is that of the writers alone, Pass what it takes, and Row what a
	// guess adds to that.
	Work      Work
	Pass, Row time.Duration
	// Room is how much later the pass may begin without a noticeable delay: none
	// while prompts wait to be read.
	Room time.Duration
}

// Outlook returns what the next pass will cost, if enough passes were measured
// and a sequence decodes.
func (s *Scheduler) Outlook() (o Outlook, known bool) {
	var work Work
	waits := len(s.waiting) > 0
	for _, q := range s.running {
		if !q.Paused && q.behind() == 1 {
			work = work.Add(1, q.Computed)
		}
		waits = waits || !q.Paused && q.behind() > 1
	}
	if !s.pace.Known() || work.Rows == 0 {
		return Outlook{}, false
	}
	o.Work = work
	o.Pass, o.Row = s.pace.Price(work)
	switch {
	case waits:
	case s.cfg.Target == 0:
		o.Room = math.MaxInt64
	default:
		o.Room = max(0, time.Duration(targetUse*float64(s.cfg.Target))-o.Pass)
	}
	return o, true
}

// Spend says how much time will be spent before the next pass: its target
// leaves that much less for the pass itself.
func (s *Scheduler) Spend(d time.Duration) { s.pass.spent = d }

// Trim leaves part at most draft of its draft tokens.
func (p *Plan) Trim(part *Part, draft int) {
	less := max(0, part.Draft-draft)
	whole := Work{}.Add(part.Draft, len(part.Seq.Tokens))
	part.Tokens, part.Outputs, part.Draft = part.Tokens-less, part.Outputs-less, part.Draft-less
	kept := Work{}.Add(part.Draft, len(part.Seq.Tokens))
	p.Work.Rows -= whole.Rows - kept.Rows
	p.Work.Lookback -= whole.Lookback - kept.Lookback
}
