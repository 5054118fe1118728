package fleet

import (
	"context"
	"slices"
	"time"

	"parley"
)

// wakeAgain is how long a worker that could not be woken is left alone.
const wakeAgain = 5 * time.Second

// Sleep has a worker give its memory back. It gets no more work; its answers
// finish, or move after the time given, less than 0 for never; then it sleeps.
// It returns before that.
func (f *Fleet) Sleep(name string, within time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := f.named(name)
	switch {
	case err != nil:
		return err
	case m.Member.Sleep == nil || m.Member.Wake == nil:
		return cannotSleep(m)
	case m.health.state != Up && m.health.state != Asleep:
		return parley.Errorf(parley.Conflict, "fleet: worker %s is %s: only a worker that is up can be put to sleep",
			name, m.health.state)
	case m.orders.tired || m.health.state == Asleep && !m.orders.waking || f.context.Err() != nil:
		return nil
	case m.orders.waking:
		return parley.Errorf(parley.Conflict, "fleet: worker %s is waking: put it to sleep when it is up", name)
	}
	m.orders.tired = true
	m.warmUp.end(errWarmStopped)
	f.cfg.Log.Info("worker going to sleep", "worker", m.Name, "answering", len(m.attempts))
	f.background.Go(func() { f.layDown(m, within) })
	return nil
}

func cannotSleep(m *member) error {
	return parley.Errorf(parley.Conflict, "fleet: worker %s of kind %s does not support sleep", m.Name, m.Kind)
}

// layDown waits until a worker has nothing to do, and has it sleep.
func (f *Fleet) layDown(m *member, within time.Duration) {
	if !f.quiet(m, within) {
		return
	}
	bounded, cancel := context.WithTimeout(f.context, f.cfg.WakeMax)
	defer cancel()
	err := guarded(func() error { return m.Member.Sleep(bounded) })
	f.mu.Lock()
	defer f.mu.Unlock()
	m.orders.tired = false
	m.orders.changes++
	if err != nil {
		f.cfg.Log.Warn("worker sleep failed", "worker", m.Name, "error", err)
		m.health.trouble = err
		return
	}
	f.fallAsleep(m)
}

// quiet waits until a worker has no answers, and reports whether it is still to
// sleep.
func (f *Fleet) quiet(m *member, within time.Duration) bool {
	until := f.cfg.Now().Add(within)
	for {
		f.mu.Lock()
		if !m.orders.tired || len(m.attempts) == 0 {
			defer f.mu.Unlock()
			return m.orders.tired
		}
		if within >= 0 && !f.cfg.Now().Before(until) {
			m.cut(errMoved)
		}
		changed := f.changed.over
		f.mu.Unlock()
		if await(f.context, changed, lookEvery) != nil {
			return false
		}
	}
}

// fallAsleep notes that a worker sleeps: what it held is gone. The lock is held.
func (f *Fleet) fallAsleep(m *member) {
	if m.health.state != Asleep {
		f.cfg.Log.Info("worker asleep", "worker", m.Name, "was", m.health.state)
		if !m.Source.Events { // those that have tell it themselves
			f.forget(m)
		}
		m.health.state, m.health.trouble = Asleep, nil
	}
	f.wake()
}

// rise notes that a worker can be given work. The lock is held.
func (f *Fleet) rise(m *member) {
	if m.health.state != Up {
		if f.cfg.Now().Before(m.health.barred) {
			return
		}
		f.cfg.Log.Info("worker up", "worker", m.Name, "was", m.health.state)
		m.health.state, m.health.since, m.health.trouble = Up, f.cfg.Now(), nil
		f.beginWarmUp(m)
	}
	f.wake()
}

// Wake has a worker that sleeps take its memory again. It returns before that.
func (f *Fleet) Wake(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := f.named(name)
	switch {
	case err != nil:
		return err
	case m.Member.Wake == nil:
		return cannotSleep(m)
	}
	m.orders.tired = false
	if m.health.state == Asleep {
		f.rouse(m, "operator")
	}
	return nil
}

// rouse has a worker wake. The lock is held.
func (f *Fleet) rouse(m *member, why string) {
	if m.orders.waking || f.context.Err() != nil {
		return
	}
	m.orders.waking = true
	f.metrics.wakes.Inc()
	f.cfg.Log.Info("waking worker", "worker", m.Name, "why", why)
	f.background.Go(func() {
		bounded, cancel := context.WithTimeout(f.context, f.cfg.WakeMax)
		defer cancel()
		err := guarded(func() error { return m.Member.Wake(bounded) })
		var now *Condition
		if err == nil && m.Probe != nil {
			_ = guarded(func() error {
				c, fault := m.Probe(bounded)
				if fault == nil {
					now = &c
				}
				return fault // the next probe says so, too
			})
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if now != nil {
			m.health.condition = *now
			f.resize(m)
		}
		m.orders.waking = false
		m.orders.changes++
		if err != nil {
			f.cfg.Log.Warn("worker wake failed", "worker", m.Name, "error", err)
			m.health.trouble, m.orders.wakeAfter = err, f.cfg.Now().Add(wakeAgain)
			return
		}
		f.rise(m)
	})
}

// rouseFor wakes a worker for a request that no worker up can answer. The lock is
// held.
func (f *Fleet) rouseFor(r *parley.Request) {
	able := func(m *member) bool { return f.mayServe(m, r) }
	now := f.cfg.Now()
	answers := func(m *member) bool {
		return able(m) && (m.orders.waking || m.present(now) == Up || m.present(now) == Warming)
	}
	if slices.ContainsFunc(f.members, answers) {
		return
	}
	if m := f.sleeper(able); m != nil {
		f.rouse(m, "request for model "+r.Model)
	}
}

// sleeper returns a worker that can be woken now; nil if there is none. The
// lock is held.
func (f *Fleet) sleeper(able func(*member) bool) *member {
	now := f.cfg.Now()
	for _, m := range f.members {
		o := &m.orders
		if m.health.state == Asleep && m.Member.Wake != nil && !o.drained && !o.leaving && !now.Before(o.wakeAfter) &&
			able(m) {
			return m
		}
	}
	return nil
}

// sleeps reports whether a worker that may serve a request is asleep: one whose waking
// has failed is woken again.
func (f *Fleet) sleeps(r *parley.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.members, func(m *member) bool {
		return m.health.state == Asleep && !m.orders.drained && f.mayServe(m, r)
	})
}

// rousing reports whether a worker that may serve a request is being woken or warmed up.
func (f *Fleet) rousing(r *parley.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.members, func(m *member) bool {
		return (m.orders.waking || m.warmUp.underWay()) && f.mayServe(m, r)
	})
}
