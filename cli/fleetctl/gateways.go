package fleetctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"parley/cli/remote"
	"parley/fleet"
	"parley/fleet/scale"
)

// Gateways are the servers whose workers are scaled: one, or all that a name has addresses of,
// as that of a headless service of Kubernetes.
type gateways struct {
	client *remote.Client
	// lookup returns the addresses of a host; nil has one gateway.
	lookup func(ctx context.Context, host string) ([]string, error)
	// each are the gateways by address, that of the one is "".
	each map[string]*remote.Client
}

// find brings each up to date.
func (g *gateways) find(ctx context.Context) error {
	if g.lookup == nil {
		g.each = map[string]*remote.Client{"": g.client}
		return nil
	}
	at, err := url.Parse(g.client.Root)
	if err != nil {
		return err
	}
	addresses, err := g.lookup(ctx, at.Hostname())
	if err != nil {
		return fmt.Errorf("the addresses of %s are not known: %w", at.Hostname(), err)
	}
	if len(addresses) == 0 {
		return fmt.Errorf("%s has no address", at.Hostname())
	}
	known := map[string]*remote.Client{}
	for _, address := range addresses {
		if known[address] = g.each[address]; known[address] == nil {
			known[address] = g.dialing(address)
		}
	}
	for address, c := range g.each {
		if known[address] == nil {
			c.HTTP.CloseIdleConnections()
		}
	}
	g.each = known
	return nil
}

// dialing returns a client of the gateway at an address.
func (g *gateways) dialing(address string) *remote.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = func(ctx context.Context, network, named string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(named)
		if err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(address, port))
	}
	c := *g.client
	c.HTTP = &http.Client{Transport: transport}
	return &c
}

// look asks all gateways for their workers and metrics. One that does not answer is left out,
// unless none does.
func (g *gateways) look(ctx context.Context, seen *readings) (workers []fleet.Standing, err error) {
	if err := g.find(ctx); err != nil {
		return nil, err
	}
	answered := false
	seen.begin()
	for address, c := range g.each {
		own, failed := Standings(ctx, c)
		var metrics []byte
		if failed == nil {
			metrics, failed = c.Get(ctx, "/fleet/metrics")
		}
		if failed != nil {
			err = failed
			continue
		}
		answered = true
		seen.add(address, remote.ParseMetrics(metrics))
		// One that cannot join is not a part of the fleet that is scaled.
		own = slices.DeleteFunc(own, func(w fleet.Standing) bool { return w.State == fleet.Absent })
		workers = merge(workers, own)
	}
	if answered {
		return workers, nil
	}
	return nil, err
}

// merge adds the workers that a gateway knows to those that others do.
func merge(all, more []fleet.Standing) []fleet.Standing {
	for _, w := range more {
		i := slices.IndexFunc(all, func(known fleet.Standing) bool { return known.Name == w.Name })
		if i < 0 {
			all = append(all, w)
			continue
		}
		all[i].Answering += w.Answering
		if w.State == fleet.Up {
			all[i].State = fleet.Up
		}
	}
	return all
}

// order has all gateways drain, resume, wake a worker or put it to sleep. One that does not
// know the worker does not matter, unless none does.
func (g *gateways) order(ctx context.Context, worker, verb string) error {
	var errs []error
	for _, c := range g.each {
		if _, err := post(ctx, c, "/fleet/workers/"+url.PathEscape(worker)+"/"+verb, []byte{}); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == len(g.each) {
		return errors.Join(errs...)
	}
	return nil
}

// post sends a document and returns the answer.
func post(ctx context.Context, c *remote.Client, path string, body []byte) ([]byte, error) {
	resp, err := c.Send(ctx, http.MethodPost, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(io.LimitReader(resp.Body, remote.DocumentBytesMax))
}

// readings are what was seen of gateways. Their counters begin anew when they do.
type readings struct {
	pool            string           // whose requests count; those of all if empty
	last            map[string]tally // as each gateway said last
	begun, arrivals uint64           // since the first sight
	queued          int
	wait            time.Duration
}

// tally is the counters of a gateway.
type tally struct{ begun, came float64 }

// begin forgets what is true for a moment alone.
func (s *readings) begin() { s.queued, s.wait = 0, 0 }

// add takes in the metrics of a gateway.
func (s *readings) add(gateway string, metrics []remote.Metric) {
	var begun, shed, waiting, wait float64
	for _, m := range metrics {
		if s.pool != "" && remote.Label(m.Labels, "pool") != s.pool {
			continue
		}
		switch m.Name {
		case "parley_queue_wait_seconds_count":
			begun += m.Value
		case "parley_shed_total":
			shed += m.Value
		case "parley_queue_waiting":
			waiting += m.Value
		case "parley_queue_estimated_wait_seconds":
			wait = max(wait, m.Value)
		}
	}
	now, before := tally{begun, begun + shed + waiting}, s.last[gateway]
	s.begun += uint64(max(0, now.begun-before.begun))
	s.arrivals += uint64(max(0, now.came-before.came))
	if s.last == nil {
		s.last = map[string]tally{}
	}
	s.last[gateway] = now
	s.queued += int(waiting)
	s.wait = max(s.wait, time.Duration(wait*float64(time.Second)))
}

// state returns what a scaler is shown.
func (s *readings) state(workers []fleet.Standing, starting int) scale.State {
	state := scale.State{
		Starting: starting,
		Arrived:  s.arrivals,
		Begun:    s.begun,
		Queued:   s.queued,
		Wait:     s.wait,
	}
	for _, w := range workers {
		state.Streams += w.Answering
		if w.State == fleet.Up {
			state.Ready++
		}
	}
	state.KV = kvOf(workers)
	return state
}
