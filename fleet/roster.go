package fleet

import (
	"context"
	"sync"
	"time"

	"parley/fleet/discover"
)

// A Connector makes a member of the worker at a place. It may ask the worker;
// an error means that it is not there yet.
type Connector func(ctx context.Context, at discover.Address) (Member, error)

// Populate keeps the workers that a source reports in the fleet, until ctx ends. One
// that the source no longer reports leaves; one that cannot join yet has the state [Absent].
func (f *Fleet) Populate(ctx context.Context, pool string, from discover.Source, connect Connector) {
	r := &roster{fleet: f, pool: pool, connect: connect, wanted: map[string]*rosterEntry{}}
	defer r.wait.Wait()
	from(ctx, func(places []discover.Address) { r.tell(ctx, places) })
	r.tell(ctx, nil)
}

// A roster is the workers of one source.
type roster struct {
	fleet   *Fleet
	pool    string
	connect Connector
	wanted  map[string]*rosterEntry
	wait    sync.WaitGroup
}

// A rosterEntry worker is in the fleet, or about to be.
type rosterEntry struct {
	place discover.Address
	stop  context.CancelFunc
	gone  chan struct{} // closed when it has left
}

// tell takes the places that there are now.
func (r *roster) tell(ctx context.Context, places []discover.Address) {
	now := map[string]discover.Address{}
	for _, p := range places {
		now[p.Name] = p
	}
	for name, w := range r.wanted {
		if p, ok := now[name]; !ok || p.URL != w.place.URL || p.Kind != w.place.Kind ||
			p.Credential != w.place.Credential {
			w.stop()
			<-w.gone
			delete(r.wanted, name)
		}
	}
	if ctx.Err() != nil {
		return
	}
	for _, p := range places {
		if r.wanted[p.Name] == nil {
			held, stop := context.WithCancel(ctx)
			w := &rosterEntry{p, stop, make(chan struct{})}
			r.wanted[p.Name] = w
			r.wait.Go(func() { r.hold(held, w) })
		}
	}
}

// hold has a worker join, as soon as it can be asked, and leave when ctx ends. Why
// it cannot yet is shown to operators, and logged whenever that is another reason.
func (r *roster) hold(ctx context.Context, w *rosterEntry) {
	defer close(w.gone)
	defer r.fleet.absent.remove(w)
	log, told := r.fleet.cfg.Log, ""
	for wait := joinMin; ; wait = min(2*wait, joinMax) {
		m, err := r.connect(ctx, w.place)
		if err == nil {
			m.rename(w.place.Name)
			if err = r.fleet.Join(m); err == nil {
				r.fleet.absent.remove(w)
				break
			}
			if m.Close != nil {
				_ = m.Close() // it was not used
			}
		}
		if ctx.Err() != nil {
			return
		}
		if why := err.Error(); why != told {
			told = why
			r.fleet.absent.add(w, absence{w.place.Name, r.pool, w.place.Kind, why})
			log.Warn("worker cannot join; retrying", "worker", w.place.Name, "url", w.place.URL, "error", err)
		}
		if !sleep(ctx, wait) {
			return
		}
	}
	<-ctx.Done()
	_ = r.fleet.Leave(w.place.Name) // the fleet may be closed
}

// joinMin and joinMax bound the wait before a worker that cannot join is asked
// again.
const joinMin, joinMax = 250 * time.Millisecond, 5 * time.Second
