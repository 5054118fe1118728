package fleet

import (
	"context"
	"sync"
	"time"

	"parley"
)

// A worker that is about to stop holds conversations that wait for their next turn. The others fetch what it
// alone holds, for a bounded time; it stays as long as its events are listened to, so they are until that is done.

// handOver has other workers fetch from a process that is about to stop, and lets it go then.
func (f *Fleet) handOver(m *member, instance string) {
	began := f.cfg.Now()
	ctx, release := context.WithTimeoutCause(f.context, max(f.cfg.WarmMax, 0), errWarmSlow)
	defer release()
	plan := f.planHandOver(m, began)
	results := make([]WarmUp, len(plan))
	var all sync.WaitGroup
	for i := range plan {
		all.Go(func() { results[i] = f.warm(ctx, plan[i].to, plan[i].fetches) })
	}
	all.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, got := range results {
		f.metrics.handedTokens.Add(float64(got.Tokens))
		f.cfg.Log.Info("worker handed over", "worker", m.Name, "to", plan[i].to.Name, "prefixes", got.Prefixes,
			"tokens", got.Tokens, "seconds", f.cfg.Now().Sub(began).Seconds(), "miss", got.Miss)
	}
	m.health.handed = instance
	f.letStop(m)
}

// A handing is what one worker fetches from another one.
type handing struct {
	to      *member
	fetches []*parley.Request
}

// planHandOver returns what others fetch from a worker, by worker.
func (f *Fleet) planHandOver(m *member, now time.Time) (plan []*handing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.Blocks == nil || f.cfg.NoTransfers || f.cfg.WarmMax < 0 || m.orders.leaving {
		return nil
	}
	f.report(now)
	by := map[*member]*handing{}
	for _, s := range m.seats {
		uses, asked := f.recentUses(m, s.model)
		for _, h := range f.router.HandOver(s.id, uses, f.cfg.WarmMax, now) {
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
