package fleet

import (
	"context"
	"errors"
	"time"

	"parley/route/kvindex"
	"parley/worker"
)

// probe asks a member again and again how it is.
func (f *Fleet) probe(ctx context.Context, m *member) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-m.kick:
		}
		changes, began := f.changesOf(m), f.cfg.Now()
		bounded, cancel := context.WithTimeout(ctx, f.cfg.ProbeWait)
		var condition Condition
		err := guarded(func() (err error) { condition, err = m.Probe(bounded); return err })
		cancel()
		if ctx.Err() == nil {
			f.probed(m, changes, began, condition, err)
			if err == nil {
				f.exchangeReuse(ctx, m)
			}
		}
		timer.Reset(f.cfg.ProbeEvery)
	}
}

// changesOf returns what an answer to a probe that begins now is as old as.
func (f *Fleet) changesOf(m *member) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return m.orders.changes
}

// probed takes the answer to a probe that began at a time. One from before the worker fell asleep, woke
// or was lost, as changes shows, is ignored.
func (f *Fleet) probed(m *member, changes int, began time.Time, c Condition, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if changes != m.orders.changes {
		return
	}
	if err != nil {
		f.missed(m, err)
		return
	}
	restarted := m.health.condition.Instance != "" && m.health.condition.Instance != c.Instance
	if restarted {
		f.cfg.Log.Info("worker restarted", "worker", m.Name)
		f.forget(m)
	}
	if c.Draining != m.health.condition.Draining {
		f.cfg.Log.Info("worker draining state changed", "worker", m.Name, "draining", c.Draining)
		if c.Draining && c.MoveWithin > 0 {
			f.background.Go(func() { f.moveOff(m, c.Instance, c.MoveWithin) })
			f.background.Go(func() { f.handOver(m, c.Instance) })
		}
	}
	m.health.misses, m.health.condition, m.health.reported = 0, c, began
	f.letStop(m)
	f.checkModels(m)
	f.resize(m)
	if c.Sleeping {
		f.fallAsleep(m)
	} else {
		if restarted && m.health.state == Up {
			f.beginWarmUp(m)
		}
		f.rise(m)
	}
	f.withdrawSoon(f.cfg.Now())
}

// moveOff moves the answers of a process that is about to stop, after the time that it
// gives them.
func (f *Fleet) moveOff(m *member, instance string, within time.Duration) {
	if !sleep(f.context, within) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := &m.health.condition; c.Draining && c.Instance == instance {
		m.cut(errMoved)
	}
}

// missed notes that a probe was not answered. The lock is held.
func (f *Fleet) missed(m *member, err error) {
	m.health.misses++
	m.health.trouble = err
	if m.health.misses < f.cfg.ProbeFailures || m.health.state == Joining {
		return
	}
	if m.health.state != Down {
		f.cfg.Log.Warn("worker down: no response", "worker", m.Name, "error", err, "answering", len(m.attempts))
	}
	if m.health.state == Up {
		m.health.crowd = len(m.attempts)
		f.deaths.Add(1)
	}
	m.health.state = Down
	m.cut(errLost)
}

// suspect takes a member out because a request found it gone, until a probe says
// that it is back. One that has no probe is left to its breaker. It returns how
// much that speaks against the request: more if it was alone there. The lock is
// held.
func (f *Fleet) suspect(m *member, err error) (blame int) {
	m.totals.lost++
	if m.Probe == nil || m.health.state == Up {
		m.health.crowd = len(m.attempts) + 1
	}
	blame = 1
	if m.health.crowd == 1 {
		blame = blameAlone
	}
	if m.Probe == nil {
		m.breaker.Done(false, f.cfg.Now())
		return blame
	}
	m.breaker.Abandon()
	if m.health.state == Up && !m.orders.leaving {
		event := "worker down: answer cut off"
		if _, rejects := errors.AsType[*worker.KeyError](err); rejects {
			event = "worker down: it rejects the key"
			m.health.barred = f.cfg.Now().Add(keyRetry)
		}
		f.cfg.Log.Warn(event, "worker", m.Name, "error", err, "answering", len(m.attempts))
		m.health.state, m.health.trouble = Down, err
		m.orders.changes++
		f.deaths.Add(1)
	}
	m.ask()
	return blame
}

// ask has the member be probed now.
func (m *member) ask() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// keyRetry is how long a worker that rejects the key gets no requests, although it answers probes.
const keyRetry = 30 * time.Second

// blameAlone is how much a loss counts against a request that was alone with its
// worker.
const blameAlone = 3

// forget notes that a member is a new process, which holds nothing.
func (f *Fleet) forget(m *member) {
	for _, s := range m.replicas {
		f.router.Restarted(s.id)
	}
	m.health.since = f.cfg.Now()
}

// resize takes up how much a member says that it holds: one that joined asleep
// could not say. The lock is held.
func (f *Fleet) resize(m *member) {
	if m.health.condition.CapacityTokens == 0 {
		return
	}
	for _, s := range m.replicas {
		f.router.Resize(s.id, m.health.condition.CapacityTokens)
	}
}

// degraded reports whether what is known of a member's blocks is less than it
// should be.
func degraded(s kvindex.State) bool {
	return s == kvindex.Behind || s == kvindex.Rebuilding || s == kvindex.Degraded
}
