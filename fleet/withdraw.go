package fleet

import (
	"cmp"
	"context"
	"slices"
	"time"

	"parley"
	"parley/fleet/withdraw"
	"parley/route"
)

// A returnable is what is known of a leg that may be taken back from its worker before
// it has begun. The fleet's lock guards it.
type returnable struct {
	// request asks a worker that decides itself; see [Member.Withdraws].
	request parley.Withdrawal
	asked   bool
	// dropped: the worker was not asked, so what it still says is not wanted.
	dropped bool
	// why is for people, target the idle worker that it is meant for, ahead the leg of
	// a higher class that goes first; target is empty and ahead nil if that is not the
	// reason.
	why, target string
	ahead       *leg
	// begun is closed when the leg's first token has come or it has ended; nil while
	// none waits for that.
	begun chan struct{}
}

// returns is what is known of a trip that was taken back.
type returns struct {
	// times is how often that was, pool where it was last, since when it was with its
	// first worker.
	times int
	pool  string
	since time.Time
}

// sent notes that the trip was sent to a worker.
func (b *returns) sent(now time.Time) {
	if b.since.IsZero() {
		b.since = now
	}
}

// A returnLine has the trips that were taken back and not sent again, in the order in
// which they came. The fleet's lock guards it.
type returnLine struct {
	trips   []*trip
	planned time.Time // when it was last decided what is taken back
	left    time.Time // when the last one left the line
}

func (q *returnLine) enter(t *trip) {
	at, _ := slices.BinarySearchFunc(q.trips, t, func(a, b *trip) int { return a.said.began.Compare(b.said.began) })
	q.trips = slices.Insert(q.trips, at, t)
}

// first reports whether none that was taken back in the same pool came before t.
func (q *returnLine) first(t *trip) bool {
	i := slices.IndexFunc(q.trips, func(x *trip) bool { return x.back.pool == t.back.pool && x.r.Model == t.r.Model })
	return i < 0 || q.trips[i] == t
}

// leave reports whether t was there.
func (q *returnLine) leave(t *trip, now time.Time) bool {
	i := slices.Index(q.trips, t)
	if i >= 0 {
		q.trips = slices.Delete(q.trips, i, i+1)
		q.left = now
	}
	return i >= 0
}

const (
	// aheadMax bounds the wait for a request of a higher class to begin.
	aheadMax = 5 * time.Second
	// resendGap lies between two requests that are sent again one after the other: an
	// engine begins them in the order in which their connections deliver them.
	resendGap = time.Millisecond
)

// withdrawSoon takes back what workers should not hold any longer, unless that was just
// decided. The lock is held.
func (f *Fleet) withdrawSoon(now time.Time) {
	if line := &f.line; now.Sub(line.planned) >= f.cfg.ProbeEvery/4 {
		line.planned = now
		f.withdraw(now)
	}
}

// withdraw takes back what workers should not hold any longer. The lock is held.
func (f *Fleet) withdraw(now time.Time) {
	holds := func(m *member) bool { return m.condition.Waiting > 0 }
	if f.context.Err() != nil || !slices.ContainsFunc(f.members, holds) {
		return
	}
	f.report(now)
	for _, p := range f.withdrawable(now) {
		for _, x := range p.Plan(now) {
			b := &x.Owner.(*leg).back
			if x.To != nil {
				b.why, b.target = "another worker is idle", x.To.Name
			} else {
				b.why, b.ahead = "a higher class goes first", x.Behind.Owner.(*leg)
				b.ahead.back.watched()
			}
			f.takeBack(x.Owner.(*leg), b)
		}
	}
}

// takeBack asks for a leg back. The lock is held.
func (f *Fleet) takeBack(l *leg, b *returnable) {
	b.asked = true
	if l.member.Withdraws {
		f.keepers.Go(b.request.Ask) // a connection may have to be waited for
		return
	}
	b.dropped = true
	l.abort(errWithdrawn)
}

// watched makes begun a channel.
func (b *returnable) watched() {
	if b.begun == nil {
		b.begun = make(chan struct{})
	}
}

// answered notes that the first token has come, or none will.
func (b *returnable) answered() {
	if b.begun != nil {
		close(b.begun)
		b.begun = nil
	}
}

// withdrawable returns the workers of each pool and model with what they were sent. The
// lock is held.
func (f *Fleet) withdrawable(now time.Time) (pools []*withdraw.Peers) {
	type key struct{ pool, model string }
	known := map[key]*withdraw.Peers{}
	for _, m := range f.members {
		for _, s := range m.seats {
			k := key{m.Pool, s.model}
			if known[k] == nil {
				known[k] = &withdraw.Peers{Cached: func(a *withdraw.Attempt, w *withdraw.Worker) (int, bool) {
					return f.router.CachedOn(a.Owner.(*leg).query, w.Owner.(route.ID), now)
				}}
				pools = append(pools, known[k])
			}
			known[k].Workers = append(known[k].Workers, m.withdrawable(s, now))
		}
	}
	return pools
}

// withdrawable returns the member as a worker of one model. The lock is held.
func (m *member) withdrawable(s seat, now time.Time) *withdraw.Worker {
	w := &withdraw.Worker{
		Name:     m.Name,
		Open:     m.present(now) == Up && m.breaker.Ready(now),
		ByClass:  m.Withdraws,
		Seats:    m.condition.Seats,
		Running:  m.condition.Running,
		Waiting:  m.condition.Waiting,
		Reported: m.reported,
		Rate:     m.rate,
		Owner:    s.id,
	}
	for l := range m.legs {
		if l.query.Model != s.model || l.unseated {
			continue
		}
		a := &withdraw.Attempt{
			Class:     l.class,
			Sent:      l.sent,
			Answered:  l.computed,
			Asked:     l.back.asked,
			For:       l.back.target,
			Withdrawn: l.withdrawn,
			Cached:    l.decision.Cached,
			Owner:     l,
		}
		if l.decision.How == route.ByKey { // what it has cached is not known
			a.Cached = l.query.PromptTokens
		}
		w.Attempts = append(w.Attempts, a)
	}
	return w
}

// returned notes that a leg was taken back, and waits until the request may be sent
// again: behind the one that it was taken back for, and in the order in which requests
// came. Nothing of it counts as a failure.
func (t *trip) returned(ctx context.Context, l *leg) error {
	f, b := t.fleet, &t.back
	why := cmp.Or(l.back.why, "it was not asked for")
	f.metrics.withdrawn.WithLabelValues(why).Inc()
	f.cfg.Log.Info("request withdrawn", "request", t.r.ID, "worker", l.member.Name, "why", why, "for", l.back.target)
	f.mu.Lock()
	b.times++
	b.pool = l.member.Pool
	f.line.enter(t)
	var begun chan struct{}
	if l.back.ahead != nil {
		begun = l.back.ahead.back.begun
	}
	f.mu.Unlock()
	if begun != nil {
		if err := await(ctx, begun, aheadMax); err != nil {
			return err
		}
	}
	for {
		f.mu.Lock()
		first, changed, most := f.line.first(t), f.changed, lookEvery
		if first {
			most = resendGap - f.cfg.Now().Sub(f.line.left)
		}
		f.mu.Unlock()
		if most <= 0 {
			return nil
		}
		if err := await(ctx, changed, most); err != nil {
			return err
		}
	}
}

// settled notes that a trip which was taken back has been sent again, waits for a
// worker, or has ended.
func (f *Fleet) settled(t *trip) {
	if t.back.times == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.line.leave(t, f.cfg.Now()) {
		f.wake()
	}
}
