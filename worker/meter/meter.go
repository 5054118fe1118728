// Package meter measures what a GPU does: it adds up the work of an engine's forward passes, and
// once a second relates it to the GPU's ceilings and asks the driver how the GPU is.
//
//	meter.go  what passes did and when the GPU is asked
//	work.go   the bytes and operations of a pass
package meter

import (
	"sync"
	"time"

	"parley"
	"parley/compute"
)

// Every is how often the GPU is asked.
const Every = time.Second

// closeWait is how long Close waits for a driver that is being asked: one whose GPU is lost may
// never answer.
const closeWait = 5 * time.Second

// A Meter follows one engine. Its functions for passes are called by the goroutine that computes
// and never wait for the driver; the others may be called by any goroutine.
type Meter struct {
	network Network
	read    func(*parley.DeviceState) // asks the driver; nil without
	stop    chan struct{}
	closing sync.Once
	ended   chan struct{}
	air     []Load // launched and not waited for, the oldest first
	last    *Load  // computed and not timed, nil if unknown

	mu    sync.Mutex
	done  totals
	state parley.DeviceState
}

// totals are how long all passes took, and the work of those that it is known of, which took
// known of the time.
type totals struct {
	Load
	known, took time.Duration
}

// Start returns a meter for a GPU whose state has its name and ceilings. Read asks the driver; nil
// means that it cannot be asked. The meter must be closed.
func Start(s parley.DeviceState, n Network, read func(*parley.DeviceState)) *Meter {
	m := &Meter{network: n, read: read, stop: make(chan struct{}), ended: make(chan struct{})}
	m.state = s
	go m.follow()
	return m
}

// follow asks at once and then regularly, until Close.
func (m *Meter) follow() {
	defer close(m.ended)
	ticker := time.NewTicker(Every)
	defer ticker.Stop()
	before, at := totals{}, time.Now()
	m.ask(totals{}, 0)
	for {
		select {
		case <-m.stop:
			return
		case <-ticker.C:
		}
		m.mu.Lock()
		done, now := m.done, time.Now()
		m.mu.Unlock()
		m.ask(done.since(before), now.Sub(at))
		before, at = done, now
	}
}

func (t totals) since(before totals) totals {
	return totals{
		Load:  Load{t.Bytes - before.Bytes, t.Operations - before.Operations},
		known: t.known - before.known,
		took:  t.took - before.took,
	}
}

// ask sets the state, after passes over the time elapsed.
func (m *Meter) ask(passes totals, elapsed time.Duration) {
	m.mu.Lock()
	s := m.state
	m.mu.Unlock()
	s.Busy, s.Bandwidth, s.Compute = nil, nil, nil
	if elapsed > 0 {
		busy := min(passes.took.Seconds()/elapsed.Seconds(), 1)
		s.Busy = &busy
	}
	if known := passes.known.Seconds(); known > 0 {
		s.Bandwidth = share(passes.Bytes/known, s.BandwidthCeiling)
		s.Compute = share(passes.Operations/known, s.ComputeCeiling)
	}
	if m.read != nil {
		m.read(&s)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = s
}

// share returns x of ceiling, nil if that is not known.
func share(x float64, ceiling *float64) *float64 {
	if ceiling == nil {
		return nil
	}
	x /= *ceiling
	return &x
}

// Launched notes a step that computes while the host does something else.
func (m *Meter) Launched(step *compute.Step) { m.air = append(m.air, m.network.Of(step)) }

// Landed notes that the host begins to wait for the oldest launched step.
func (m *Meter) Landed() {
	m.last = nil
	if len(m.air) > 0 {
		m.last = new(m.air[0])
		m.air = append(m.air[:0], m.air[1:]...)
	}
}

// Computed notes a step that was computed while the host waited.
func (m *Meter) Computed(step *compute.Step) { m.last = new(m.network.Of(step)) }

// Took notes how long the last step that was computed, or landed, took.
func (m *Meter) Took(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done.took += d
	if m.last != nil {
		m.done.Load, m.done.known = m.done.plus(*m.last), m.done.known+d
	}
	m.last = nil
}

// State returns what was last known of the GPU. It never waits for the driver.
func (m *Meter) State() parley.DeviceState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// Close stops asking. It may be called again.
func (m *Meter) Close() {
	m.closing.Do(func() { close(m.stop) })
	select {
	case <-m.ended:
	case <-time.After(closeWait):
	}
}
