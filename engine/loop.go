package engine

import (
	"fmt"
	"time"

	"parley"
	"parley/engine/sched"
	"parley/model/weights"
)

// learned says what is known of how long passes take.
func (l *loop) learned(last bool) {
	if tell, pace := l.cfg.Learned, l.sched.Pace(); tell != nil && pace.Known() {
		tell(pace, last)
	}
}

// round computes one pass, or sleeps until there is something to compute. It
// reports whether the engine is closed.
func (l *loop) round() (closed bool) {
	defer func() {
		if p := recover(); p != nil {
			l.restart(weights.PanicError(p))
		}
	}()
	if l.attend() {
		return true
	}
	l.publish()
	l.answerLooks()
	l.speculate()
	now := l.cfg.Now()
	plan := l.sched.Next(now)
	l.expire(plan.Expired)
	l.reportWaiting(now)
	switch {
	case len(plan.Parts)+len(plan.Copies) > 0:
		l.pass(plan)
	case len(l.inFlight.flights) > 0:
		l.land()
	default:
		l.inFlight.ended, l.cache.arrivals = time.Time{}, arrivals{}
		l.idle()
	}
	return false
}

// restart begins anew after a fault outside a pass, when the scheduler's state
// cannot be trusted any more: every request fails, and the cache is empty.
func (l *loop) restart(err error) {
	l.cfg.Log.Error("engine restarted", "model", l.cfg.Model.ID, "error", err, "sequences", len(l.owner))
	for _, c := range l.owner {
		c.job.done = true
		c.job.mail.fail(fmt.Errorf("engine: %w", err))
	}
	l.stats.failed()
	l.discard()
	l.discardCopies()
	anew, err := newLoop(l.cfg.restarted(l.sched.Pace()), l.inbox, l.stats, l.masks.vocabulary)
	if err != nil {
		panic(err) // the same configuration was good before
	}
	*l = *anew
	l.forgetAll()
}

// attend takes in the jobs that joined and lets go of those that left. It
// reports whether the engine is closed, in which case every job has failed.
func (l *loop) attend() (closed bool) {
	jobs, closed := l.inbox.take()
	l.stats.load(l.sched.Load())
	for _, j := range jobs.joining {
		j.open = len(j.choices)
		l.owner[&j.choices[0].seq] = j.choices[0]
		l.masks.constrain(j.choices[0])
		l.sched.Add(&j.choices[0].seq, j.times.arrived)
	}
	for _, j := range jobs.leaving {
		l.remove(j)
	}
	for _, j := range jobs.resumed {
		j.pause(false)
	}
	for _, j := range jobs.asked {
		if j.times.started.IsZero() && !j.done {
			l.fail(j, parley.Errorf(parley.Withdrawn, "the request was withdrawn before it had begun"))
		}
	}
	if closed {
		l.failAll(l.cfg.closing())
		l.sched.CloseIntakes(l.cfg.Now())
	}
	return closed
}

// expire fails the jobs of sequences whose deadline has passed.
func (l *loop) expire(seqs []*sched.Seq) {
	for _, q := range seqs {
		if c := l.owner[q]; c != nil {
			l.fail(c.job, errExpired())
		}
	}
}

// pass computes the plan and delivers the results. If it fails, the requests of this
// pass fail and the loop continues.
func (l *loop) pass(plan *sched.Plan) {
	defer func() {
		if p := recover(); p != nil {
			l.abandon(plan, weights.PanicError(p))
		}
	}()
	l.cache.worked = true
	whole := l.copy(plan.Copies)
	l.holdBack(plan)
	if l.cfg.Ahead != nil { // other devices read each sequence by itself
		plan.GroupPrefixes()
	}
	if whole && len(plan.Parts) > 0 && l.mayFly(plan) {
		l.launch(plan)
		l.landDue()
		return
	}
	l.land()
	plan.Drop(func(q *sched.Seq) bool { return l.owner[q] == nil })
	if !whole || len(plan.Parts) == 0 {
		return
	}
	l.inFlight.flown = 0
	l.draft(plan)
	began := l.cfg.Now()
	l.expose(began)
	l.assemble(plan.Parts, began)
	if err := l.buffers.step.Validate(l.cfg.Sched.Blocks); err != nil {
		l.abandon(plan, err)
		return
	}
	pass := l.passOf(plan.Work, began)
	l.cfg.Forward(&l.buffers.step, l.buffers.logits)
	l.now = l.cfg.Now()
	pass.Took = l.now.Sub(began)
	l.inFlight.ended = l.now
	l.sched.Commit(plan, pass.Took)
	l.count(pass)
	rows := l.buffers.logits
	for i, p := range plan.Parts {
		if c := l.owner[p.Seq]; c != nil && c.job.req.Embed {
			l.embed(c, &l.buffers.step.Seqs[i])
		} else if c != nil {
			l.settle(c, p, rows[:p.Outputs*l.cfg.Vocab])
		}
		rows = rows[p.Outputs*l.cfg.Vocab:]
	}
}

// abandon fails the requests of a pass.
func (l *loop) abandon(plan *sched.Plan, err error) {
	l.cfg.Log.Error("step failed", "model", l.cfg.Model.ID, "error", err, "sequences", len(plan.Parts))
	err = fmt.Errorf("engine: the step failed: %w", err)
	l.crash(err)
	for _, p := range plan.Parts {
		if c := l.owner[p.Seq]; c != nil {
			l.fail(c.job, err)
		}
	}
	l.stats.failed()
}

// settle takes the logits of one part: log-probabilities of the prompt, and if
// the sequence has caught up, its next token.
func (l *loop) settle(c *choice, p sched.Part, rows []float32) {
	vocab := l.cfg.Vocab
	q := &c.seq
	if q.EveryRow && q.Computed <= q.Prompt {
		if err := l.scorePrompt(c, p, rows); err != nil {
			l.fail(c.job, err)
			return
		}
	}
	if q.Computed < len(q.Tokens) {
		l.reportReading(c)
		return
	}
	if !c.job.begun {
		l.reportReading(c)
		q.EveryRow = false
		l.begin(c.job, rows[len(rows)-vocab:])
		return
	}
	l.verify(c, p, rows[len(rows)-(1+p.Draft)*vocab:])
}

// verify chooses the next token, and as long as it is the one that was
// guessed, the one after it.
func (l *loop) verify(c *choice, p sched.Part, rows []float32) {
	vocab, right := l.cfg.Vocab, 0
	for {
		tok, more := l.choose(c, rows[:vocab])
		if !more || right == p.Draft || tok != c.spec.Guess[right] || c.seq.Computed == 0 {
			break
		}
		right++
		rows = rows[vocab:]
	}
	c.seq.Settle()
	l.learnGuesses(c, p.Draft, right)
}
