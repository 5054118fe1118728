package record

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"parley"
	"parley/gateway/admin"

	"github.com/prometheus/client_golang/prometheus"
)

// Operations are what operators are shown: an hour of readings of the metrics, and the
// latest requests that have ended. It is the edge around package admin: it has the lock
// and reads the counters.
type Operations struct {
	registry   *prometheus.Registry
	now        func() time.Time
	log        *slog.Logger
	fleet      *admin.Fleet
	objectives parley.Objectives

	mu       sync.Mutex
	readings *admin.History
	recent   *admin.Recent
}

func newOperations(c *Config) *Operations {
	return &Operations{
		registry:   c.Registry,
		now:        c.Now,
		log:        c.Log,
		fleet:      c.Fleet,
		objectives: c.Objectives,
		readings:   admin.NewHistory(),
		recent:     admin.NewRecent(),
	}
}

// freshFor is how long a reading is as good as a new one.
const freshFor = 900 * time.Millisecond

// Observe reads the counters every few seconds until ctx ends, so that there is
// a history to look back on.
func (h *Operations) Observe(ctx context.Context) {
	tick := time.NewTicker(admin.Step)
	defer tick.Stop()
	for {
		if err := h.read(); err != nil {
			h.log.Warn("the counters cannot be read, so the operator's page shows nothing new", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// read takes a reading unless there is a fresh one.
func (h *Operations) read() error {
	now := h.now()
	h.mu.Lock()
	latest := h.readings.Latest()
	h.mu.Unlock()
	if latest != nil && now.Sub(latest.At) < freshFor {
		return nil
	}
	gathered, err := h.registry.Gather()
	if err != nil {
		return err
	}
	reading := admin.Read(gathered, now)
	h.withFleet(reading)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readings.Add(reading)
	return nil
}

// Picture returns what the server does now.
func (h *Operations) Picture() (*admin.Picture, error) {
	if err := h.read(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.readings.Now(h.objectives, h.recent.LimitedSince(h.now().Add(-admin.HeadlineWindow))...), nil
}

// Points returns what happened in the last hour, one point per step, and the bounds of
// its histograms of first tokens.
func (h *Operations) Points(step time.Duration) (points []admin.Point, bounds []float64, err error) {
	if err := h.read(); err != nil {
		return nil, nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.readings.Points(step), h.readings.TTFTBounds(), nil
}

// Recent lists the latest requests that have ended, newest first, at most limit.
func (h *Operations) Recent(f admin.Filter, limit int) []*admin.RequestRecord {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.recent.List(f, limit)
}

// Find returns a request that has ended, by its id or its client's name for it; nil if
// it is not among the latest.
func (h *Operations) Find(id string) *admin.RequestRecord {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.recent.Find(id)
}

// remember keeps what became of a request.
func (h *Operations) remember(l *admin.RequestRecord) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recent.Add(l)
}

// withFleet adds the workers of other processes to a reading. They know better
// who is there than the counters of this process.
func (h *Operations) withFleet(reading *admin.Reading) {
	if h.fleet == nil {
		return
	}
	engines := reading.Workers
	reading.Fleet = true
	reading.Workers = h.fleet.Workers()
	for i := range reading.Workers {
		for _, e := range engines {
			if w := &reading.Workers[i]; strings.HasPrefix(w.Name, "local/") && w.Model == e.Model {
				name, pool, state := w.Name, w.Pool, w.State
				*w = e
				w.Name, w.Pool, w.State = name, pool, state
			}
		}
	}
}
