package kvwire

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A prefill is a request that computes the blocks of a shelf.
type prefill struct {
	*shelf
	mu      sync.Mutex
	running bool
	changed chan struct{}
}

func (p *prefill) follow(request string) (<-chan struct{}, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed, request == "r" && p.running
}

// set changes how many blocks are there and whether the request runs.
func (p *prefill) set(held int, running bool) {
	p.shelf.mu.Lock()
	p.held = held
	p.shelf.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = running
	close(p.changed)
	p.changed = make(chan struct{})
}

// TestBlocksComeAsTheyAreComputed asks for blocks before the first is computed: each comes
// while the request that computes them still runs.
func TestBlocksComeAsTheyAreComputed(t *testing.T) {
	const blocks = 10
	for name, test := range map[string]struct {
		steps  []int // how many blocks there are after each
		ends   bool  // the request ends after the last
		late   time.Duration
		cancel bool
		want   int
		miss   string
	}{
		"all":           {steps: []int{0, 2, 3, 7, 10}, want: 10},
		"all at once":   {steps: []int{10}, want: 10},
		"fails":         {steps: []int{1, 6}, ends: true, want: 6, miss: "gone"},
		"fails at once": {steps: []int{0}, ends: true, miss: "gone"},
		"comes late":    {late: arriveMax / 2, steps: []int{4, 10}, want: 10},
		"never comes":   {late: 2 * arriveMax, miss: "gone"},
		"too slow":      {steps: []int{4}, want: 4, miss: "too slow"},
		"cancelled":     {steps: []int{0, 5}, cancel: true, want: 5, miss: "cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &prefill{shelf: newShelf(blocks), changed: make(chan struct{})}
				p.held = 0
				g := &rig{shelf: p.shelf, follow: p.follow, asks: "r"}
				g.run(t, func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					type end struct {
						blocks int
						err    error
					}
					ended := make(chan end, 1)
					go func() {
						n, err := g.fetch(ctx)
						ended <- end{n, err}
					}()
					time.Sleep(test.late)
					for _, held := range test.steps {
						p.set(held, true)
						synctest.Wait()
						if !g.whole(held) {
							t.Errorf("%d bytes have come when %d blocks are computed", len(g.taken), held)
						}
					}
					if test.ends {
						p.set(p.held, false)
					}
					if test.cancel {
						cancel()
					}
					if got := <-ended; got.blocks != test.want || reason(got.err) != test.miss || !g.whole(test.want) {
						t.Errorf("%d blocks came, %v; want %d and %q", got.blocks, got.err, test.want, test.miss)
					}
				})
			})
		})
	}
}
