package fleet

import (
	"cmp"
	"context"
	"time"

	"parley"
	"parley/route"
	"parley/worker/kvwire"
)

// A worker that joins, starts again or wakes holds nothing. Before it gets requests, it
// fetches from the others what they were asked for lately: for a bounded time, and only
// while no request needs it. Whatever goes wrong, it gets requests then.

// remember notes what was asked of the worker of an attempt, and answered. The lock is held.
func (f *Fleet) remember(l *attempt, r *parley.Request, answer []parley.Token) {
	if l.member.Blocks == nil || f.cfg.NoTransfers || f.cfg.WarmMax < 0 || r.SinkTokens > 0 {
		return
	}
	f.recent.add(&recentPrompt{
		model:        r.Model,
		tenant:       r.Tenant,
		class:        r.Class,
		salt:         r.Salt,
		publicTokens: r.PublicTokens,
		prompt:       r.Prompt,
		answer:       answer,
		pool:         l.member.Pool,
		at:           f.cfg.Now(),
	})
}

// beginWarmUp has a worker that has come up fetch what was asked for lately, if there is
// something and it can. The lock is held.
func (f *Fleet) beginWarmUp(m *member) {
	m.warmUp.end(errWarmStopped)
	m.warmUp = nil
	now := f.cfg.Now()
	if m.Blocks == nil || f.cfg.NoTransfers || f.cfg.WarmMax < 0 || m.present(now) != Up || f.context.Err() != nil {
		return
	}
	f.report(now)
	fetches := f.planWarmUp(m, now)
	if len(fetches) == 0 {
		return
	}
	ctx, cancel := context.WithCancelCause(f.context)
	bounded, release := context.WithTimeoutCause(ctx, f.cfg.WarmMax, errWarmSlow)
	w := &warmUp{WarmUp{Prefixes: len(fetches)}, cancel}
	m.warmUp = w
	f.cfg.Log.Info("worker warming up", "worker", m.Name, "prefixes", len(fetches))
	f.background.Go(func() {
		defer release()
		got := f.warm(bounded, m, fetches)
		if cause := context.Cause(bounded); cause != nil {
			got.Miss = cause.Error()
		}
		got.Seconds = f.cfg.Now().Sub(now).Seconds()
		f.warmed(m, w, got)
	})
}

// planWarmUp returns the requests that have a worker fetch what it should. The lock is held.
func (f *Fleet) planWarmUp(m *member, now time.Time) (fetches []*parley.Request) {
	for _, s := range m.replicas {
		uses, asked := f.recentUses(m, s.model)
		for _, w := range f.router.WarmUp(s.id, uses, f.cfg.WarmMax, now) {
			fetches = append(fetches, fetching(asked[w.Use], f.at(w.From), w.Transfer, now))
		}
	}
	return fetches
}

// recentUses returns what was asked lately of a model in the pool of a member, and the requests that fetch
// it. The lock is held.
func (f *Fleet) recentUses(m *member, model string) (uses []route.Use, asked []*parley.Request) {
	for _, p := range f.recent.list {
		if p.model == model && p.pool == m.Pool {
			r := p.request()
			uses = append(uses, route.Use{Keys: keysOf(r.Prompt, r, m.BlockTokens), At: p.at})
			asked = append(asked, r)
		}
	}
	return uses, asked
}

// fetching has a request fetch from a worker, and compute nothing. The lock is held.
func fetching(r *parley.Request, from *member, t *route.Transfer, now time.Time) *parley.Request {
	source := from.Blocks(from.health.condition.Instance, now.Add(kvwire.TicketLife))
	source.Worker, source.Tokens, source.Within, source.Only = from.Name, t.Tokens, t.Within, true
	r.Fetch = &source
	return r
}

// missFailed is why nothing came to a worker that does not answer.
const missFailed = "failed"

// warm has a worker fetch, one prompt after the other. A source that fails is not asked again. What it misses is the
// first reason, but missFailed before any other.
func (f *Fleet) warm(ctx context.Context, m *member, fetches []*parley.Request) (got WarmUp) {
	got.Prefixes = len(fetches)
	failed := map[string]bool{}
	for _, r := range fetches {
		if failed[r.Fetch.Worker] || ctx.Err() != nil {
			continue
		}
		miss := missFailed
		_ = guarded(func() error {
			for d, err := range m.Worker.Generate(ctx, r) {
				if err != nil {
					return err
				}
				if t := d.Transfer; t != nil {
					miss, got.Tokens, got.Bytes = t.Miss, got.Tokens+t.CameTokens, got.Bytes+t.Bytes
				}
			}
			return nil
		})
		if got.Miss == "" || miss == missFailed {
			got.Miss = miss
		}
		failed[r.Fetch.Worker] = miss != "" && miss != "gone"
	}
	return got
}

// warmed notes what came of a warm-up: its worker gets requests now.
func (f *Fleet) warmed(m *member, w *warmUp, got WarmUp) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.metrics.warmUps.WithLabelValues(cmp.Or(got.Miss, "whole")).Inc()
	f.metrics.warmTokens.Add(float64(got.Tokens))
	f.cfg.Log.Info("worker warmed up", "worker", m.Name, "prefixes", got.Prefixes, "tokens", got.Tokens,
		"seconds", got.Seconds, "miss", got.Miss)
	w.WarmUp = got
	w.cancel(nil)
	w.cancel = nil
	if m.warmUp == w {
		m.health.since = f.cfg.Now()
		f.wake()
	}
}

// cutWarmUps ends the warm-ups of workers that a request could go to, for which there is
// no other. The lock is held.
func (f *Fleet) cutWarmUps(r *parley.Request) {
	for _, m := range f.members {
		if f.mayServe(m, r) {
			m.warmUp.end(errWarmNeeded)
		}
	}
}
