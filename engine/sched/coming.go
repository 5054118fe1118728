package sched

import (
	"slices"
	"time"

	"parley"
)

// A device that chooses tokens itself can compute a pass before it is known what the
// pass before has chosen. A sequence in such a pass has a token that is coming: it has
// its place among the known ones, and the next pass may compute it, but what it is
// will be known later.

// unknown stands for a token that is coming.
const unknown parley.Token = -1

// Expect gives the token that is being chosen its place.
func (q *Seq) Expect() {
	q.Tokens = append(q.Tokens, unknown)
	q.Coming++
}

// Unexpect takes the places of coming tokens back and returns how many there were.
func (q *Seq) Unexpect() (n int) {
	n, q.Coming = q.Coming, 0
	q.Tokens = q.Tokens[:len(q.Tokens)-n]
	return n
}

// ready reports whether the next tokens of the sequence can be computed: one that is
// coming can be, right after the pass that chooses it, unless it is the last.
func (q *Seq) ready() bool {
	return q.Coming == 0 || q.behind() == 1 && len(q.Tokens) < q.Most
}

// Drop takes sequences out of a plan that was not computed yet.
func (p *Plan) Drop(gone func(*Seq) bool) {
	p.Parts = slices.DeleteFunc(p.Parts, func(part Part) bool { return gone(part.Seq) })
	p.Work = Work{}
	for _, part := range p.Parts {
		p.Work = p.Work.Add(part.Tokens, part.Seq.Computed)
	}
}

// Advance records that the plan is being computed, and Learn how long that took.
func (s *Scheduler) Advance(plan *Plan) {
	for _, p := range plan.Parts {
		p.Seq.Computed += p.Tokens
		if !p.Seq.Background {
			s.ledger.charge(p.Seq.Class, p.Seq.Tenant, p.Tokens)
		}
	}
}

// Learn takes in how long a pass with this work took.
func (s *Scheduler) Learn(w Work, took time.Duration) { s.pace.Learn(w, took) }
