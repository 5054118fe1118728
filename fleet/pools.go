package fleet

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"parley"
)

// admitting returns the pools that admit a request, in the order in which they are
// asked: the preferred one first, if it is among them.
func (f *Fleet) admitting(r *parley.Request, preferred string) (pools []*Pool) {
	for i := range f.cfg.Pools {
		switch p := &f.cfg.Pools[i]; {
		case !p.admits(r):
		case p.Name == preferred:
			pools = slices.Insert(pools, 0, p)
		default:
			pools = append(pools, p)
		}
	}
	return pools
}

func notAdmitted(r *parley.Request) error {
	return &parley.Error{
		Code:    parley.Forbidden,
		Message: "No pool of this server serves your requests for the model '" + r.Model + "'.",
	}
}

// mayServe reports whether a member has the model of a request and stands in a pool
// that admits it.
func (f *Fleet) mayServe(m *member, r *parley.Request) bool {
	_, serves := m.replica(r.Model)
	return serves && slices.ContainsFunc(f.cfg.Pools, func(p Pool) bool { return p.Name == m.Pool && p.admits(r) })
}

// Pools lists the pools that serve a model, in the order in which they are asked.
func (f *Fleet) Pools(model string) (names []string) {
	for i := range f.cfg.Pools {
		if p := &f.cfg.Pools[i]; allows(p.Models, model) {
			names = append(names, p.Name)
		}
	}
	return names
}

// PoolsFor lists the pools that admit a request: first those with a worker that gets
// work, then those with one that can be woken, then the rest; each in the order in
// which they are asked.
func (f *Fleet) PoolsFor(r *parley.Request) []string {
	pools := f.admitting(r, "")
	if len(pools) == 1 {
		return []string{pools[0].Name}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	up, asleep := 0, 0
	for _, p := range pools {
		switch n, wakes := f.ready(r.Model, p.Name); {
		case n > 0:
			names = slices.Insert(names, up, p.Name)
			up++
		case wakes:
			names = slices.Insert(names, up+asleep, p.Name)
			asleep++
		default:
			names = append(names, p.Name)
		}
	}
	return names
}

// ready counts the workers of a pool that get work for a model, and reports, if there are
// none, whether one could be woken or have its warm-up cut short. The lock is held.
func (f *Fleet) ready(model, pool string) (n int, wakes bool) {
	now := f.cfg.Now()
	for _, m := range f.members {
		if _, serves := m.replica(model); serves && m.Pool == pool {
			switch m.present(now) {
			case Up:
				n++
			case Warming:
				wakes = true
			}
		}
	}
	if n > 0 || wakes {
		return n, wakes
	}
	able := func(m *member) bool { _, serves := m.replica(model); return serves && m.Pool == pool }
	return 0, f.sleeper(able) != nil
}

// Ready returns how many workers of a pool get work for a model, so that a queue in
// front knows how many can begin at once. Where all who serve it sleep it is one: a
// request must come for one of them to be woken.
func (f *Fleet) Ready(model, pool string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, wakes := f.ready(model, pool)
	if n == 0 && wakes {
		return 1
	}
	return n
}

// TurnsOnly reports whether all workers that serve a model take conversations alone, whose
// answers cannot be continued; false while it has none.
func (f *Fleet) TurnsOnly(model string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	only := false
	for _, m := range f.members {
		if _, serves := m.replica(model); serves {
			if !m.TurnsOnly {
				return false
			}
			only = true
		}
	}
	return only
}

// NoWorkers returns what a client is told whose request no worker can take: what
// has become of the workers of each pool that admits it.
func (f *Fleet) NoWorkers(r *parley.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	pools := f.admitting(r, "")
	if len(pools) == 0 {
		return notAdmitted(r)
	}
	var parts []string
	for _, p := range pools {
		parts = append(parts, "pool '"+p.Name+"': "+f.states(r.Model, p.Name))
	}
	return &parley.Error{
		Code: parley.Unavailable,
		Wait: retryEmpty,
		Message: "No worker for the model '" + r.Model + "' can take your request now (" + strings.Join(parts,
			"; ") + "). Try again later.",
	}
}

// retryEmpty is what clients of a pool without workers are told to wait.
const retryEmpty = 5 * time.Second

// states counts the workers of a pool with a model by their state. The lock is held.
func (f *Fleet) states(model, pool string) string {
	counts := map[State]int{}
	now := f.cfg.Now()
	for _, m := range f.members {
		if _, serves := m.replica(model); serves && m.Pool == pool {
			counts[m.present(now)]++
		}
	}
	var parts []string
	for _, s := range []State{Up, Joining, Draining, Down, Failing, Asleep, Waking, Warming} {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprint(counts[s], " ", s))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "no worker has joined")
	}
	if n := len(f.absent.each(pool)); n > 0 {
		parts = append(parts, fmt.Sprint(n, " ", Absent))
	}
	return strings.Join(parts, ", ")
}

// Cached returns how many tokens of a prompt the best worker of a pool holds; known
// is false if none of its workers reports its blocks.
func (f *Fleet) Cached(r *parley.Request, pool string) (tokens int, known bool) {
	q := query(r, r.Prompt, f.blockSizes())
	q.Pool = pool
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.cfg.Now()
	for _, m := range f.members {
		if id, serves := m.replica(r.Model); serves && m.Pool == pool {
			f.router.Report(id, m.status(now, f.cfg.SlowStart))
		}
	}
	return f.router.Cached(q, now)
}

// Pool returns a worker that computes in one pool, and where that has no worker at
// work in the others that admit a request.
func (f *Fleet) Pool(name string) parley.Worker { return poolWorker{f, name} }

type poolWorker struct {
	*Fleet
	pool string
}

// Generate is that of the fleet, with the pool asked first.
func (p poolWorker) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		p.newDispatch(r, p.pool).run(ctx, yield)
	}
}
