package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"parley"
	"parley/queue"
	"parley/route"
)

var _ parley.Worker = (*Fleet)(nil)

// New returns a fleet without members.
func New(cfg Config) (*Fleet, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	router, err := route.New(cfg.Route)
	if err != nil {
		return nil, err
	}
	f := &Fleet{
		cfg:     cfg,
		router:  router,
		budgets: map[string]*budget{},
		changed: newPeriod(),
	}
	for i := range cfg.Pools {
		f.budgets[cfg.Pools[i].Name] = new(newBudget(cfg.ReplayShare, cfg.ReplayBurst))
	}
	f.context, f.end = context.WithCancel(context.Background())
	f.metrics, err = newMetrics(f, cfg.Registry)
	return f, err
}

// Close ends background work and closes the members. Running answers fail.
func (f *Fleet) Close() error {
	f.mu.Lock()
	f.end()
	f.mu.Unlock()
	f.background.Wait()
	f.mu.Lock()
	members := f.members
	f.members = nil
	f.mu.Unlock()
	var errs []error
	for _, m := range members {
		if m.Close != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}

// Models lists what the fleet serves, whatever workers are up.
func (f *Fleet) Models() []parley.Model { return slices.Clone(f.cfg.Models) }

// Generate has one of the workers answer, and another resume if it is lost; see
// [parley.Worker].
func (f *Fleet) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		f.newDispatch(r, "").run(ctx, yield)
	}
}

// Join adds a worker. It gets work when a probe was answered, or at once if it
// has none. Errors do not name the worker, as it is shown beside them.
func (f *Fleet) Join(w Member) error {
	if w.Name == "" || w.Worker == nil {
		return errors.New("fleet: a worker needs a name and an engine")
	}
	if !slices.ContainsFunc(f.cfg.Pools, func(p Pool) bool { return p.Name == w.Pool }) {
		return fmt.Errorf("it names the unknown pool %q", w.Pool)
	}
	models := w.Worker.Models()
	if !slices.ContainsFunc(models, f.serves) {
		return fmt.Errorf(
			"it serves %s, which is not a model of this server: map the names with `models: {OURS: THEIRS}`",
			namesOfModels(models))
	}
	if len(models) > 1 && w.SourceOf == nil { // whose blocks events tell of is not known
		w.unfollow()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.find(w.Name) != nil {
		return errors.New("a worker of its name exists already")
	}
	m := &member{
		Member:   w,
		health:   health{state: Joining},
		breaker:  queue.NewBreaker(f.cfg.Breaker),
		attempts: map[*attempt]struct{}{},
		kick:     make(chan struct{}, 1),
	}
	if err := f.setModels(m, models); err != nil {
		f.removeReplicas(m)
		return err
	}
	if w.Probe == nil {
		m.health.state, m.health.since = Up, f.cfg.Now()
	}
	f.members = append(f.members, m)
	f.keep(m)
	f.wake()
	f.cfg.Log.Info("worker joined", "worker", m.Name, "kind", m.Kind, "pool", m.Pool)
	return nil
}

// keep starts the background work of a member. The lock is held.
func (f *Fleet) keep(m *member) {
	ctx, stop := context.WithCancel(f.context)
	m.stop = stop
	if m.Probe != nil {
		f.background.Go(func() { f.probe(ctx, m) })
	}
	if m.Follow != nil {
		f.background.Go(func() { f.follow(ctx, m) })
	}
}

// Leave takes a worker out. It gets no more requests; its running answers continue.
func (f *Fleet) Leave(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := f.named(name)
	if err != nil {
		return err
	}
	m.orders.leaving = true
	m.warmUp.end(errWarmStopped)
	f.cfg.Log.Info("worker leaving", "worker", m.Name, "answering", len(m.attempts))
	f.release(m)
	return nil
}

// release forgets a member that left once it has nothing more to do. The lock is
// held.
func (f *Fleet) release(m *member) {
	if !m.orders.leaving || len(m.attempts) > 0 {
		return
	}
	f.removeReplicas(m)
	f.members = slices.DeleteFunc(f.members, func(x *member) bool { return x == m })
	m.stop()
	if m.Close != nil {
		f.background.Go(func() {
			if err := m.Close(); err != nil {
				f.cfg.Log.Warn("closing a worker failed", "worker", m.Name, "error", err)
			}
		})
	}
}

// Drain keeps new work from a worker. Its answers finish, and those that have not
// within the time given move; less than 0 lets them all finish.
func (f *Fleet) Drain(name string, within time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := f.named(name)
	if err != nil {
		return err
	}
	m.orders.drained = true
	m.warmUp.end(errWarmStopped)
	m.orders.drains++
	f.cfg.Log.Info("worker draining", "worker", m.Name, "answering", len(m.attempts))
	if drain := m.orders.drains; within >= 0 {
		f.background.Go(func() {
			if sleep(f.context, within) {
				f.evacuate(m, drain)
			}
		})
	}
	return nil
}

// evacuate moves the answers of a worker, unless the drain that this was for was
// withdrawn or is not the latest.
func (f *Fleet) evacuate(m *member, drain int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.orders.drained && m.orders.drains == drain {
		m.cut(errMoved)
	}
}

// Resume lets a drained worker have work again, or one that was to sleep and does
// not yet.
func (f *Fleet) Resume(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := f.named(name)
	if err != nil {
		return err
	}
	m.orders.drained, m.orders.tired, m.health.since = false, false, f.cfg.Now()
	f.wake()
	return nil
}
