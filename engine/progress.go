package engine

import (
	"time"

	"parley"
)

// waitReportEvery is how often requests that wait are told how many go before
// them.
const waitReportEvery = 250 * time.Millisecond

// waitReports are those to requests that wait.
type waitReports struct{ last time.Time }

// due reports whether it is time for another, which is taken to be made.
func (w *waitReports) due(now time.Time) bool {
	if now.Sub(w.last) < waitReportEvery {
		return false
	}
	w.last = now
	return true
}

// reportReading reports the progress of a prompt to a request that asked for it,
// finally that it is complete. A request that was preempted while it decoded has had
// that report.
func (l *loop) reportReading(c *choice) {
	q := &c.seq
	if !c.job.req.Progress || len(q.Tokens) > q.Prompt {
		return
	}
	l.deliver(c, parley.Delta{Choice: c.index, Progress: &parley.Progress{
		PromptTokens: q.Prompt, CachedTokens: q.Cached.HitTokens, DoneTokens: q.Computed,
		Spent: l.now.Sub(c.job.times.started),
	}})
}

// reportWaiting reports to requests that asked for it how many are ahead of them.
func (l *loop) reportWaiting(now time.Time) {
	if !l.waits.due(now) {
		return
	}
	for q, c := range l.owner {
		if !c.job.req.Progress || !c.job.times.started.IsZero() {
			continue
		}
		if ahead, waits := l.sched.Ahead(q); waits {
			l.deliver(c, parley.Delta{Choice: c.index,
				Progress: &parley.Progress{Waiting: true, Ahead: ahead, PromptTokens: q.Prompt}})
		}
	}
}
