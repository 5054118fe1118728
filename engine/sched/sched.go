// Package sched decides what the next forward pass computes.
//
// There is one rule and no phases: each sequence has tokens it wants computed
// and tokens it has computed, and every pass lets some sequences catch up
// under a budget. A sequence that is one token behind is writing; one that is
// far behind is reading its prompt; the scheduler does not care.
//
// # What goes first
//
// Writers go first, because a client is reading each of them. What readers
// may add to a pass is bounded by time: the pass must be expected to stay
// within the target, judged by the passes measured so far (see [Pace]), so
// that no prompt, however long, makes the writers stutter. Without writers it
// may take a few times as long, and as long as is efficient. Between readers,
// turns go to the class served least in proportion to its weight, in it to the
// tenant served least, of a tenant to the oldest request.
//
// # Who gets memory
//
// A sequence is admitted when there is a seat for it and the blocks of all its known
// tokens can be had, beside a reserve for those that run to grow into. The order is
// strict: a higher class first; in a class those that gave up a seat, then those that
// waited too long, then of the requests with one objective that of the tenant served
// least, and between objectives the one that is due first. One that does not fit yet
// holds back those behind it. When a running sequence needs a block
// and there is none, another one is preempted: of the lowest class, the newest,
// unless it has not got anywhere since it was preempted before. What a preempted
// sequence had computed may stay in the cache; the rest is computed again. A
// class may reserve a share of the pool and of the seats: others use the blocks for
// their cache alone, so that requests within the share preempt none.
//
// # Who gives up a seat
//
// A request that finds no seat, or no memory, takes those of a running sequence of a
// lower class, unless a seat is certain to be free after the next pass and that is
// soon enough for its objective (see [Seq.Objective]). That one
// waits, keeps what it computed in the cache while there is room for it, and continues
// with the same tokens. A class keeps its share of the seats by weight, a sequence
// that was admitted by its age keeps its seat, and one that was preempted before must
// first have written a block, and a part of what it had to compute again.
//
// # What gives way
//
// Background sequences are outside of all this: they are admitted, and get
// turns, only in passes in which no other sequence waits or runs. So a new
// request is delayed by them for the rest of one pass at most. They keep their
// blocks until another needs them.
//
// # No starvation
//
// Every pass in which a reader is present gives readers at least one token,
// and chunkMin if that takes it at most half beyond the target, even if the
// writers alone use the target up. When a class has had less than its share of the
// seats by weight, or none, for AgeMax, a request of it that has waited as long is
// admitted before all others of any class, and runs to its end. When the
// background has had no turn for BackgroundWait, the oldest of its sequences
// stops being one: it runs to its end like any other, and the next is
// admitted BackgroundWait after it.
package sched

import (
	"slices"
	"time"

	"parley"
	"parley/engine/kv"
)

// Add puts a sequence among those that wait. It must [Config.Fit].
func (s *Scheduler) Add(q *Seq, now time.Time) {
	s.arrivals.n++
	q.arrive(s.arrivals.n, now)
	s.arrivals.expires = s.arrivals.expires || !q.Deadline.IsZero()
	q.Prepare()
	s.joins(q)
	s.waiting = append(s.waiting, q)
}

// Next returns what the next pass computes. The plan is valid until the next call.
func (s *Scheduler) Next(now time.Time) *Plan {
	s.pass.plan = Plan{Parts: s.pass.plan.Parts[:0], Expired: s.pass.plan.Expired[:0], Copies: s.pass.plan.Copies[:0]}
	s.sealAll()
	s.expire(now)
	s.pass.busy = s.hasForeground()
	s.letIn(now)
	why := s.admit(now)
	for _, q := range s.waiting {
		q.note(why, now)
	}
	s.transfers.queue.Add(s.cache.Moves())
	tokens, outputs := s.cfg.StepTokens, s.cfg.StepOutputs
	s.planWriters(&tokens, &outputs, now)
	for i := range s.pass.plan.Parts {
		s.guess(&s.pass.plan.Parts[i], &tokens, &outputs, now)
	}
	s.planReaders(&tokens, &outputs)
	s.planCopies()
	return &s.pass.plan
}

// planReaders shares what the writers leave of the pass: first what classes
// have reserved, then the rest by turns.
func (s *Scheduler) planReaders(tokens, outputs *int) {
	s.pass.reading, s.pass.alone = 0, s.pace.Predict(s.pass.plan.Work)
	s.pass.readers = slices.DeleteFunc(s.pass.readers, func(q *Seq) bool { return !s.board(q) })
	s.ledger.sorted(s.pass.readers)
	for class, share := range s.cfg.Reserve {
		if share > 0 {
			s.grant(tokens, share, func(q *Seq) bool { return q.Class == parley.Class(class) })
		}
	}
	s.grant(tokens, 1, func(*Seq) bool { return true })
	for _, q := range s.pass.readers {
		if part := share(q, q.granted, *outputs); part.Tokens > 0 {
			s.pass.plan.Parts = append(s.pass.plan.Parts, part)
			*outputs -= part.Outputs
		}
	}
}

// grant lets readers take up to a share of the pass, in order.
func (s *Scheduler) grant(tokens *int, share float64, may func(*Seq) bool) {
	left := min(*tokens, int(share*float64(s.cfg.StepTokens)))
	for _, q := range s.pass.readers {
		if !may(q) {
			continue
		}
		n := max(0, min(s.chunk(q, share), left))
		s.pass.plan.Work = s.pass.plan.Work.Add(n, q.Computed+q.granted)
		q.grant(q.granted + n)
		s.pass.reading += n
		left -= n
		*tokens -= n
	}
}

// planWriters gives every writer its token, for which others may have to make
// room, and lists the readers that are left.
func (s *Scheduler) planWriters(tokens, outputs *int, now time.Time) {
	s.pass.readers, s.pass.turns = s.pass.readers[:0], append(s.pass.turns[:0], s.running...)
	preempted := s.stats.Preempted
	for _, q := range s.pass.turns {
		if q.runs() && s.turn(q) && q.behind() == 1 && s.board(q) && s.room(q, len(q.Tokens), now) {
			s.take(q, tokens, outputs, 1)
		}
	}
	if s.stats.Preempted != preempted {
		s.pass.plan.Parts = slices.DeleteFunc(s.pass.plan.Parts, func(p Part) bool { return !p.Seq.runs() })
	}
	s.pass.writers = len(s.pass.plan.Parts)
	for _, q := range s.running {
		if s.turn(q) && q.behind() > 1 {
			q.grant(0)
			s.pass.readers = append(s.pass.readers, q)
		}
	}
}

// guess adds a writer's guesses to its part, as far as they fit the pass.
func (s *Scheduler) guess(p *Part, tokens, outputs *int, now time.Time) {
	q := p.Seq
	known := len(q.Tokens)
	n := min(q.Draft, q.Most-known-1, *tokens, *outputs) // what comes last needs no guess
	if s.cfg.Target > 0 && n > 0 {
		n = s.pace.Fit(s.pass.plan.Work, known, n, s.limit())
	}
	if n <= 0 || !s.cache.Grow(&q.Table, known+n, now) {
		return
	}
	p.Tokens, p.Outputs, p.Draft = p.Tokens+n, p.Outputs+n, n
	s.pass.plan.Work = s.pass.plan.Work.Add(n, known)
	*tokens -= n
	*outputs -= n
}

// chunk returns how many more tokens of a reader may join the pass, if readers
// may use the given share of it.
func (s *Scheduler) chunk(q *Seq, share float64) int {
	behind := q.behind() - q.granted
	if s.cfg.Target == 0 || s.cfg.Baseline.WholePrompts {
		return behind
	}
	if !s.pace.Known() && s.pass.writers == 0 {
		return behind
	}
	if !s.pace.Known() {
		return min(behind, max(0, chunkBlind-s.pass.plan.Work.Rows))
	}
	limit := float64(s.readLimit() - s.transfers.pace.planned - s.evictions(q, behind))
	if share < 1 {
		soFar := float64(s.pace.Predict(s.pass.plan.Work))
		limit = soFar + float64(share*(limit-soFar))
	}
	fits := s.pace.Fit(s.pass.plan.Work, q.Computed+q.granted, behind, time.Duration(limit))
	if s.pass.reading == 0 && fits < min(behind, chunkMin) && share == 1 {
		trickle := s.pace.Fit(s.pass.plan.Work, q.Computed, min(behind, chunkMin), time.Duration(limit*trickleFactor))
		return max(fits, trickle, 1)
	}
	return fits
}

// take puts up to n tokens of a sequence into the plan.
func (s *Scheduler) take(q *Seq, tokens, outputs *int, n int) {
	part := share(q, min(*tokens, n), *outputs)
	if part.Tokens == 0 {
		return
	}
	s.pass.plan.Parts = append(s.pass.plan.Parts, part)
	s.pass.plan.Work = s.pass.plan.Work.Add(part.Tokens, q.Computed)
	*tokens -= part.Tokens
	*outputs -= part.Outputs
}

// share returns how far q gets with the given tokens and outputs of the budget.
func share(q *Seq, tokens, outputs int) Part {
	behind := q.behind()
	n := min(behind, tokens)
	if q.EveryRow && q.Computed < q.Prompt {
		n = min(n, outputs)
		return Part{Seq: q, Tokens: n, Outputs: n}
	}
	if n < behind {
		return Part{Seq: q, Tokens: n}
	}
	if outputs == 0 {
		return Part{Seq: q, Tokens: n - 1}
	}
	return Part{Seq: q, Tokens: n, Outputs: 1}
}

// expire takes out the sequences whose deadline has passed.
func (s *Scheduler) expire(now time.Time) {
	if !s.arrivals.expires {
		return
	}
	for _, list := range [][]*Seq{s.waiting, s.running} {
		for _, q := range list {
			if !q.Deadline.IsZero() && now.After(q.Deadline) {
				s.pass.plan.Expired = append(s.pass.plan.Expired, q)
			}
		}
	}
	for _, q := range s.pass.plan.Expired {
		s.Remove(q, now)
	}
}

// Commit records that the plan was computed, and how long it took.
func (s *Scheduler) Commit(plan *Plan, took time.Duration) {
	s.Advance(plan)
	s.Learn(plan.Work, took)
}

// A Load says how busy the scheduler is.
type Load struct {
	Running int
	Waiting [parley.Classes]int
	// Pool says what the blocks of the device are doing, Tiers those of every
	// tier, Cache what came of the prompts so far.
	Pool  kv.Use
	Tiers [kv.Tiers]kv.Use
	Cache kv.Stats
	// Fairness is Jain's index over the present tenants of each class.
	Fairness [parley.Classes]float64
	Preemptions
}

// Load returns the present load.
func (s *Scheduler) Load() Load {
	l := Load{Running: len(s.running), Pool: s.cache.Use(kv.Device), Cache: s.cache.Stats(), Preemptions: s.stats}
	for t := range l.Tiers {
		l.Tiers[t] = s.cache.Use(kv.Tier(t))
	}
	for _, q := range s.waiting {
		l.Waiting[q.Class]++
	}
	for c := range l.Fairness {
		l.Fairness[c] = s.ledger.classes[c].tenants.Fairness()
	}
	return l
}

// Running returns how many sequences run.
func (s *Scheduler) Running() int { return len(s.running) }

// Preempted returns how often a sequence had to make room.
func (s *Scheduler) Preempted() uint64 { return s.stats.Preempted }

// Use returns what the blocks of the device are doing.
func (s *Scheduler) Use() kv.Use { return s.cache.Use(kv.Device) }

// Check reports any block that is lost or held twice.
func (s *Scheduler) Check() error { return s.cache.Check() }

// Advance records that the plan is being computed, and Learn how long that took.
func (s *Scheduler) Advance(plan *Plan) {
	for _, p := range plan.Parts {
		p.Seq.advance(p.Tokens)
		if !p.Seq.Background {
			s.ledger.charge(p.Seq, p.Tokens)
		}
	}
}

// Learn takes in how long a pass with this work took.
func (s *Scheduler) Learn(w Work, took time.Duration) { s.pace.Learn(w, took) }
