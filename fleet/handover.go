package fleet

import (
	"context"
	"sync"
	"time"

	"parley"
	"parley/route"
)

// A worker that is about to stop holds the cache of conversations that will continue. The others fetch what it
// alone holds, for a bounded time; it stays as long as its events are listened to, so they are until that is done.

// handOver has other workers fetch from a process that is about to stop, and lets it go then. What one that fails
// should have fetched goes to the others.
func (f *Fleet) handOver(m *member, instance string) {
	began := f.cfg.Now()
	ctx, release := context.WithTimeoutCause(f.context, max(f.cfg.WarmMax, 0), errWarmSlow)
	defer release()
	failed := map[*member]bool{}
	for more := true; more && ctx.Err() == nil; {
		plan := f.planHandOver(m, failed, f.cfg.WarmMax-f.cfg.Now().Sub(began))
		var all sync.WaitGroup
		for _, h := range plan {
			all.Go(func() { h.got = f.warm(ctx, h.to, h.fetches) })
		}
		all.Wait()
		more = false
		for _, h := range plan {
			f.metrics.handedTokens.Add(float64(h.got.Tokens))
			f.cfg.Log.Info("worker handed over", "worker", m.Name, "to", h.to.Name, "prefixes", h.got.Prefixes,
				"tokens", h.got.Tokens, "seconds", f.cfg.Now().Sub(began).Seconds(), "miss", h.got.Miss)
			if h.got.Miss == missFailed {
				failed[h.to], more = true, true
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	m.health.handed = instance
	f.letStop(m)
}

// A handing is what one worker fetches from another one, and what came of it.
type handing struct {
	to      *member
	fetches []*parley.Request
	got     WarmUp
}

// planHandOver returns what others fetch from a worker within a time, by worker. Those that have failed fetch nothing.
func (f *Fleet) planHandOver(m *member, failed map[*member]bool, within time.Duration) (plan []*handing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.Blocks == nil || f.cfg.NoTransfers || f.cfg.WarmMax < 0 || m.orders.leaving {
		return nil
	}
	now := f.cfg.Now()
	f.report(now)
	by := map[*member]*handing{}
	for _, s := range m.replicas {
		uses, asked := f.recentUses(m, s.model)
		able := func(to route.ID) bool { return !failed[f.at(to)] }
		for _, h := range f.router.HandOver(s.id, able, uses, within, now) {
			to := f.at(h.To)
			if by[to] == nil {
				by[to] = &handing{to: to}
				plan = append(plan, by[to])
			}
			by[to].fetches = append(by[to].fetches, fetching(asked[h.Use], m, h.Transfer, now))
		}
	}
	return plan
}
