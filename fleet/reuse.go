package fleet

import (
	"context"
	"time"
)

// Each worker learns from its own requests how soon blocks are used again, and evicts by that. A
// fleet divides the requests, so that each sees few. Therefore workers with the same model are given
// what the others have observed: counts by kind and age of blocks, without anything of requests.

const (
	// reuseEvery is how often a worker is given what others have observed.
	reuseEvery = 10 * time.Second
	// reuseOthers bounds of how many: more would hardly add to what is known.
	reuseOthers = 15
)

// A reuse is what a member has observed, in the bytes of its engine.
type reuse struct {
	observed []byte
	given    time.Time // when it was last given that of others
}

// exchangeReuse gives a member what others have observed, if that is due, and notes what it has. A
// failure costs what could have been learned, and is found by probes if it lasts.
func (f *Fleet) exchangeReuse(ctx context.Context, m *member) {
	others, due := f.reuseFor(m)
	if !due {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, f.cfg.ProbeWait)
	defer cancel()
	var own []byte
	err := guarded(func() (err error) { own, err = m.LearnFrom(bounded, others); return err })
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.reuse.given = f.cfg.Now(); err == nil {
		m.reuse.observed = own
	}
}

// reuseFor returns what workers have observed that have the same model as a member and serve the
// same pool, and whether it is to be given that now.
func (f *Fleet) reuseFor(m *member) (others [][]byte, due bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	format := m.health.condition.Format
	if m.LearnFrom == nil || format == "" || f.cfg.NoTransfers || f.cfg.Now().Sub(m.reuse.given) < reuseEvery {
		return nil, false
	}
	peers := 0
	for _, o := range f.members {
		if o == m || o.Pool != m.Pool || o.health.condition.Format != format {
			continue
		}
		if peers++; len(o.reuse.observed) > 0 && len(others) < reuseOthers {
			others = append(others, o.reuse.observed)
		}
	}
	return others, peers > 0 || !m.reuse.given.IsZero() // the last of its peers may have left
}
