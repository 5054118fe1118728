package gateway

import (
	"context"
	"sync"
	"time"

	"parley/gateway/admin"
)

// operations are what the people who run the server are shown: an hour of
// history, and the latest requests. It is the edge around package admin: it has the
// lock and reads the counters.
type operations struct {
	mu      sync.Mutex
	history *admin.History
	recent  *admin.Recent
}

func newOperations() operations {
	return operations{history: admin.NewHistory(), recent: admin.NewRecent()}
}

// freshFor is how long a reading is as good as a new one.
const freshFor = 900 * time.Millisecond

// Observe reads the counters every few seconds until ctx ends, so that there is
// a history to look back on.
func (g *Gateway) Observe(ctx context.Context) {
	tick := time.NewTicker(admin.Step)
	defer tick.Stop()
	for {
		if err := g.read(); err != nil {
			g.config.Log.Warn("the counters cannot be read, so the operator's page shows nothing new", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// read takes a reading unless there is a fresh one.
func (g *Gateway) read() error {
	o, now := &g.operations, g.config.Now()
	o.mu.Lock()
	latest := o.history.Latest()
	o.mu.Unlock()
	if latest != nil && now.Sub(latest.At) < freshFor {
		return nil
	}
	gathered, err := g.config.Registry.Gather()
	if err != nil {
		return err
	}
	r := admin.Read(gathered, now)
	g.withFleet(r)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.history.Add(r)
	return nil
}

// picture returns what the server does now.
func (g *Gateway) picture() (*admin.Picture, error) {
	if err := g.read(); err != nil {
		return nil, err
	}
	g.operations.mu.Lock()
	defer g.operations.mu.Unlock()
	return g.operations.history.Now(g.objectives), nil
}

// remember keeps what became of a request.
func (o *operations) remember(l *admin.Life) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recent.Add(l)
}
