package queue

import (
	"time"

	"parley/internal/fairshare"
)

// New makes an empty queue, or says what is wrong with the config.
func New(cfg Config) (*Queue, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	q := &Queue{cfg: cfg, known: 1, intake: newIntake(cfg.Hold), shed: newShedder(cfg.Shed)}
	q.output = mean{value: outputUnknown}
	q.deadlines = heap[*Entry]{less: func(a, b *Entry) bool {
		if !a.deadline.Equal(b.deadline) {
			return a.deadline.Before(b.deadline)
		}
		return a.order < b.order
	}, index: func(e *Entry) *int { return &e.expires }}
	for class := range q.tiers {
		q.tiers[class] = newTier(cfg.Tiers[class])
	}
	return q, nil
}

// Workers says how many workers there are that can begin something; it is one
// until this is called. What they can do together changes with their number at
// once, and is measured from there. Without any, nothing goes.
func (q *Queue) Workers(n int) {
	if n == q.intake.workers {
		return
	}
	if n > 0 && q.known > 0 {
		factor := float64(n) / float64(q.known)
		q.intake.limit, q.intake.rate = max(q.intake.limit*factor, float64(limitMin*n)), q.intake.rate*factor
		q.runningLimit.limit, q.pace.perSecond = q.runningLimit.limit*factor, q.pace.perSecond*factor
	}
	if n > 0 {
		q.known = n
	}
	q.intake.workers, q.runningLimit.workers = n, n
}

// Len returns how many entries wait.
func (q *Queue) Len() int { return q.waiting }

// observe lets time pass: it learns how fast work is done, and whether that is
// fast enough.
func (q *Queue) observe(now time.Time) {
	q.pace.observe(now, q.waiting > 0)
	q.away.decay(now, q.pace.perSecond)
	q.shed.observe(now, q.standing(), q.waiting, q.pace.perSecond)
}

// Push lets an entry come. It waits unless the verdict says that it is refused.
func (q *Queue) Push(e *Entry, now time.Time) Verdict {
	q.observe(now)
	t := &q.tiers[e.Class]
	q.totals[e.Class].Pushed++
	q.arrivals++
	e.order, e.arrived = q.arrivals, now
	if !e.Arrived.IsZero() {
		e.arrived = e.Arrived
	}
	e.deadline = e.arrived.Add(q.waitMax(e))
	if !e.Deadline.IsZero() && e.Deadline.Before(e.deadline) {
		e.deadline = e.Deadline
	}
	e.due = e.arrived.Add(t.WaitMax)
	if ttft := e.Objective.TTFT; ttft > 0 {
		e.due = e.arrived.Add(ttft)
		q.shed.promise(ttft, now)
	}
	e.tenant, _ = t.tenants.Join(e.account())
	e.tenant.people = e.Person
	e.prompt, e.work = q.expect(e)
	q.shed.comes(e.work)
	if !e.Person && q.shed.drop(e.Class, e.tenant.waiting > 0) {
		return q.refuse(e, Overload, q.standing())
	}
	wait := q.waitIfPushed(e)
	if !e.Person && wait > e.deadline.Sub(now) {
		return q.refuse(e, Late, wait)
	}
	verdict := Verdict{Wait: wait}
	if t.waiting >= t.DepthMax || q.waiting >= q.cfg.DepthMax {
		if verdict.Displaced = q.victim(e); verdict.Displaced == nil {
			return q.refuse(e, Full, wait)
		}
		q.displace(verdict.Displaced)
	}
	q.put(e)
	return verdict
}

// waitMax returns how long an entry may wait.
func (q *Queue) waitMax(e *Entry) time.Duration {
	if e.Person {
		return q.cfg.PersonWaitMax
	}
	return q.cfg.Tiers[e.Class].WaitMax
}

func (q *Queue) refuse(e *Entry, why Reason, wait time.Duration) Verdict {
	e.state = Refused
	q.tiers[e.Class].tenants.Leave(e.tenant)
	q.totals[e.Class].Refused++
	retry := q.Retry(e, wait)
	q.away.add(e.work, q.pace.perSecond, q.cfg.RetryMax)
	return Verdict{Refused: why, Wait: wait, Retry: retry}
}

func (q *Queue) displace(e *Entry) {
	q.take(e, Displaced)
	q.tiers[e.Class].tenants.Leave(e.tenant)
	q.totals[e.Class].Displaced++
	q.away.add(e.work, q.pace.perSecond, q.cfg.RetryMax)
}

// Retry returns when a rejected entry that would have had to wait should be retried:
// when enough is served that it would be admitted, and the ones rejected before it
// have had their chance.
func (q *Queue) Retry(e *Entry, wait time.Duration) time.Duration {
	over := max(0, wait-q.cfg.Tiers[e.Class].WaitMax)
	retry := over + q.pace.time(q.away.work)
	return min(max(retry, retryMin), q.cfg.RetryMax)
}

// put lets an entry wait.
func (q *Queue) put(e *Entry) {
	t := &q.tiers[e.Class]
	if t.waiting == 0 {
		t.Lift(q.floor)
	}
	e.state = Waiting
	t.put(e)
	q.deadlines.push(e)
	q.waiting++
	q.work += e.work
}

// take ends an entry's waiting.
func (q *Queue) take(e *Entry, state State) {
	e.state = state
	q.tiers[e.Class].take(e)
	q.deadlines.remove(e)
	q.waiting--
	q.work -= e.work
}

// victim returns the entry that must go for e, or nil if none may: the newest
// of the tenant with the most waiting, in the lowest tier that has any, and no person's.
// In e's own tier that must be a tenant with more waiting than e's would have.
func (q *Queue) victim(e *Entry) *Entry {
	class := e.Class
	if t := &q.tiers[e.Class]; t.waiting < t.DepthMax {
		for class = range e.Class + 1 {
			if q.tiers[class].programs() != nil {
				break
			}
		}
	}
	longest := q.tiers[class].programs()
	if longest == nil || class == e.Class && !e.Person && longest.waiting <= e.tenant.waiting+1 {
		return nil
	}
	return longest.tail
}

// Expire ends the waiting of one entry whose deadline has passed and returns it,
// or nil if there is none. Call it until it returns nil, before [Queue.Next].
func (q *Queue) Expire(now time.Time) *Entry {
	e := q.deadlines.top()
	if e == nil || now.Before(e.deadline) {
		return nil
	}
	q.observe(now)
	q.take(e, Expired)
	q.tiers[e.Class].tenants.Leave(e.tenant)
	q.totals[e.Class].Expired++
	return e
}

// Trim ends the waiting of one entry that overload leaves no room for, and
// returns it, or nil if there is none: what came before the overload was seen
// waits no longer for it than what comes later. It is the newest of the tenant
// with the most waiting, in the lowest tier, and no person's. Call it until it returns nil.
func (q *Queue) Trim(now time.Time) *Entry {
	q.observe(now)
	if !q.shed.trims(q.standing(), q.waiting) {
		return nil
	}
	for class := range q.tiers {
		if longest := q.tiers[class].programs(); longest != nil {
			e := longest.tail
			q.displace(e)
			return e
		}
	}
	return nil
}

// Ready reports whether [Queue.Next] would return an entry.
func (q *Queue) Ready(now time.Time) bool {
	q.observe(now)
	return q.nextTier() != nil
}

// Next dispatches the entry that is due and returns it, or nil if nothing
// waits or the workers hold enough; where they hold enough of lower tiers, a higher
// one goes first. The caller sends it to a worker, and calls
// [Queue.Started] and [Queue.Finish], or [Queue.Cancel].
//
// Between any two moments at which two tenants of a tier both wait, the work of
// one that is dispatched is at most that of the other and the largest entry of
// each; for tiers the same holds with work divided by weight while the workers take
// more of both.
func (q *Queue) Next(now time.Time) *Entry {
	if !q.Ready(now) {
		return nil
	}
	t := q.nextTier()
	tenant := t.present.top()
	e := tenant.head
	q.floor, t.floor = max(q.floor, t.Served()), max(t.floor, tenant.Served())
	q.take(e, Held)
	q.charge(e, e.work)
	q.totals[e.Class].Dispatched++
	e.dispatchedAt = now
	q.intake.hold(e, now)
	return e
}

// nextTier returns the tier to take from among those that the workers take more of,
// or nil if there is none.
func (q *Queue) nextTier() (least *tier) {
	for class := range q.tiers {
		// Of equals the higher goes first.
		t := &q.tiers[class]
		if t.waiting > 0 && (least == nil || fairshare.Compare(&t.Account, &least.Account) <= 0) &&
			q.goes(t.present.top().head) {
			least = t
		}
	}
	return least
}

// goes reports whether the workers take one more like e: what they hold, and what
// they write, of lower tiers makes room for it.
func (q *Queue) goes(e *Entry) bool {
	_, beside := q.intake.above(e.Class)
	for _, running := range q.begun[e.Class:] {
		beside += running
	}
	return q.intake.takes(e) && q.runningLimit.bears(beside)
}

// charge counts work, which may be less than nothing, as service of an entry's
// tenant and tier.
func (q *Queue) charge(e *Entry, work int) {
	t := &q.tiers[e.Class]
	t.Charge(float64(work), t.Weight)
	t.serve(e.tenant, float64(work))
}

// Started says that the first token of a dispatched entry has come.
func (q *Queue) Started(e *Entry, now time.Time) {
	if e.state != Held {
		return
	}
	e.state = Running
	q.running++
	q.gaps.add(e.Objective.TPOT)
	q.begun[e.Class]++
	q.intake.begin(e, now)
	q.pace.add(e.prompt)
	q.observe(now)
}

// Served records that tokens were generated for a dispatched entry.
func (q *Queue) Served(e *Entry, tokens int, now time.Time) {
	if tokens > 0 {
		q.pace.add(tokens)
		if !e.wrote.IsZero() {
			q.runningLimit.learn(now.Sub(e.wrote), tokens, now)
		}
		e.wrote = now
	}
	if now != q.shed.at { // else nothing has passed since the last token of the same pass
		if q.runningLimit.due(now) {
			q.runningLimit.adjust(q.running, q.intake.entries, q.gaps.least(q.cfg.TokenMax), now)
		}
		q.observe(now)
	}
}

// Finish ends a dispatched entry that cost computed prompt tokens and output tokens,
// and corrects its tenant's account.
func (q *Queue) Finish(e *Entry, computed, output int, now time.Time) {
	if e.state != Held && e.state != Running {
		return
	}
	q.leave(e, Finished, now)
	q.totals[e.Class].Finished++
	q.charge(e, computed+output-e.work)
	each := float64(output) / float64(max(1, e.Choices))
	q.output.learn(each)
	e.tenant.output.learn(each)
	if e.Prompt > 0 {
		e.tenant.cached.learn(1 - float64(computed)/float64(e.Prompt))
	}
	q.tiers[e.Class].tenants.Leave(e.tenant)
}

// Cancel ends an entry that its client has left, or that has failed, wherever
// it is. What it was charged stays: it was dispatched.
func (q *Queue) Cancel(e *Entry, now time.Time) {
	switch e.state {
	case Waiting:
		q.take(e, Cancelled)
		q.shed.leaves(e.work)
	case Held, Running:
		q.leave(e, Cancelled, now)
		if e.dispatchedAt.Sub(e.arrived) >= q.cfg.Shed.Start {
			q.shed.leaves(e.work)
		}
	default:
		return
	}
	q.observe(now)
	q.totals[e.Class].Cancelled++
	q.tiers[e.Class].tenants.Leave(e.tenant)
}

// Withdraw ends an entry that waits and goes to another queue, or that no worker can
// begin: unlike one that is cancelled, its client has not lost patience.
func (q *Queue) Withdraw(e *Entry, now time.Time) {
	if e.state != Waiting {
		return
	}
	q.take(e, Cancelled)
	q.observe(now)
	q.totals[e.Class].Cancelled++
	q.tiers[e.Class].tenants.Leave(e.tenant)
}

// leave takes a dispatched entry off the workers.
func (q *Queue) leave(e *Entry, state State, now time.Time) {
	if e.state == Held {
		q.intake.drop(e)
	} else {
		q.running--
		q.begun[e.Class]--
		q.gaps.remove(e.Objective.TPOT)
	}
	e.state = state
	q.observe(now)
}
