package engine

import (
	"parley/engine/sched"
	"parley/engine/spec"
)

// draft guesses for the sequences of the plan that want it, and takes what
// could not be guessed out of the plan. A fault costs the guesses alone.
func (l *loop) draft(plan *sched.Plan) {
	d := l.guesses.drafter
	if d == nil || !l.takeTurns(plan) {
		return
	}
	began := l.cfg.Now()
	err := d.Guess(l.guesses.turns)
	if err != nil {
		l.cfg.Log.Error("draft failed", "model", l.cfg.Model.ID, "error", err, "rest", d.Rest())
	}
	for i := range plan.Parts {
		p := &plan.Parts[i]
		if c := l.owner[p.Seq]; c != nil && c.spec.by == spec.ByModel {
			plan.Trim(p, len(c.spec.Guess))
		}
	}
	l.stats.drafted(l.cfg.Now().Sub(began), err)
}

// takeTurns lists the sequences of the plan for which the draft network reads
// or guesses, and reports whether there are any.
func (l *loop) takeTurns(plan *sched.Plan) bool {
	g := &l.guesses
	g.turns = g.turns[:0]
	for _, p := range plan.Parts {
		c := l.owner[p.Seq]
		if c != nil && c.spec.by == spec.ByModel && c.spec.Read > 0 {
			t := &c.spec.Seq
			t.Of, t.Sampler, t.Matcher = p.Seq, c.sampler, c.matcher
			t.IgnoreEnd, t.Depth = c.job.req.Stop.IgnoreEnd, p.Draft
			g.turns = append(g.turns, t)
		}
	}
	return len(g.turns) > 0
}
