package fleet

import (
	"cmp"
	"context"
	"slices"
	"time"

	"parley/fleet/withdraw"
	"parley/route"
)

const (
	// aheadMax bounds the wait for a request of a higher class to begin.
	aheadMax = 5 * time.Second
	// resendGap lies between two requests that are sent again one after the other: an
	// engine begins them in the order in which their connections deliver them.
	resendGap = time.Millisecond
)

// withdrawSoon withdraws what workers should not hold any longer, unless that was just
// decided. The lock is held.
func (f *Fleet) withdrawSoon(now time.Time) {
	if queue := &f.withdrawn; now.Sub(queue.planned) >= f.cfg.ProbeEvery/4 {
		queue.planned = now
		f.withdraw(now)
	}
}

// withdraw withdraws what workers should not hold any longer. The lock is held.
func (f *Fleet) withdraw(now time.Time) {
	holds := func(m *member) bool { return m.health.condition.Waiting > 0 }
	if f.context.Err() != nil || !slices.ContainsFunc(f.members, holds) {
		return
	}
	f.report(now)
	for _, p := range f.withdrawable(now) {
		for _, x := range p.Plan(now) {
			b := &x.Owner.(*attempt).back
			if x.To != nil {
				b.why, b.target = "another worker is idle", x.To.Name
			} else {
				b.why, b.ahead = "a higher class goes first", x.Behind.Owner.(*attempt)
				b.ahead.back.watched()
			}
			f.takeBack(x.Owner.(*attempt), b)
		}
	}
}

// takeBack asks for an attempt back. The lock is held.
func (f *Fleet) takeBack(l *attempt, b *withdrawable) {
	b.asked = true
	if l.member.Withdraws {
		f.background.Go(b.request.Ask) // a connection may have to be waited for
		return
	}
	b.dropped = true
	l.abort(errWithdrawn)
}

// withdrawable returns the workers of each pool and model with what they were sent. The
// lock is held.
func (f *Fleet) withdrawable(now time.Time) (pools []*withdraw.Peers) {
	type key struct{ pool, model string }
	known := map[key]*withdraw.Peers{}
	for _, m := range f.members {
		for _, s := range m.replicas {
			k := key{m.Pool, s.model}
			if known[k] == nil {
				known[k] = &withdraw.Peers{Cached: func(a *withdraw.Attempt, w *withdraw.Worker) (int, bool) {
					return f.router.CachedOn(a.Owner.(*attempt).query, w.Owner.(route.ID), now)
				}}
				pools = append(pools, known[k])
			}
			known[k].Workers = append(known[k].Workers, f.withdrawableOf(m, s, now))
		}
	}
	return pools
}

// withdrawableOf returns a member as a worker of one model. The lock is held.
func (f *Fleet) withdrawableOf(m *member, s replica, now time.Time) *withdraw.Worker {
	w := &withdraw.Worker{
		Name:     m.Name,
		Open:     m.present(now) == Up && m.breaker.Ready(now),
		ByClass:  m.Withdraws,
		Seats:    m.health.condition.Seats,
		Running:  m.health.condition.Running,
		Waiting:  m.health.condition.Waiting,
		Reported: m.health.reported,
		Rate:     f.router.PromptRate(s.id),
		Owner:    s.id,
	}
	for l := range m.attempts {
		if l.query.Model != s.model || l.removed {
			continue
		}
		a := &withdraw.Attempt{
			Class:     l.back.class,
			Sent:      l.sent,
			Answered:  l.computed,
			Asked:     l.back.asked,
			For:       l.back.target,
			Withdrawn: l.back.withdrawn,
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

// returned notes that an attempt was withdrawn, and waits until the request may be sent
// again: behind the one that it was withdrawn for, and in the order in which requests
// came. Nothing of it counts as a failure.
func (t *dispatch) returned(ctx context.Context, l *attempt) error {
	f, b := t.fleet, &t.back
	why := cmp.Or(l.back.why, "it was not asked for")
	f.metrics.withdrawn.WithLabelValues(why).Inc()
	f.cfg.Log.Info("request withdrawn", "request", t.r.ID, "worker", l.member.Name, "why", why, "for", l.back.target)
	f.mu.Lock()
	b.times++
	b.pool = l.member.Pool
	f.withdrawn.enter(t)
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
		first, changed, most := f.withdrawn.first(t), f.changed.over, lookEvery
		if first {
			most = resendGap - f.cfg.Now().Sub(f.withdrawn.left)
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

// settled notes that a dispatch which was withdrawn has been sent again, waits for a
// worker, or has ended.
func (f *Fleet) settled(t *dispatch) {
	if t.back.times == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.withdrawn.leave(t, f.cfg.Now()) {
		f.wake()
	}
}
