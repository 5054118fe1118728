package batch

import (
	"context"
	"slices"
	"sync"
	"time"

	"parley/internal/fairshare"
)

// slots are the slots of requests that run at the same time. A request gets a free
// slot when no tenant with fewer slots waits; so tenants with enough work have equally
// many, and one with many slow requests delays others by at most one of them.
type slots struct {
	mu   sync.Mutex
	free int
	// tenants are those that wait or have slots. An account is how many slots one has.
	tenants *fairshare.Group[fairshare.Party, *fairshare.Party]
	waiting []*waiter
}

// A waiter waits for a place; called is closed when it has one.
type waiter struct {
	tenant *fairshare.Party
	called chan struct{}
}

func newSlots(n int) *slots {
	return &slots{free: n, tenants: fairshare.NewGroup[fairshare.Party](0)}
}

// take waits for a place, or until ctx ends.
func (p *slots) take(ctx context.Context, tenant string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w := &waiter{called: make(chan struct{})}
	p.mu.Lock()
	w.tenant, _ = p.tenants.Join(tenant)
	p.waiting = append(p.waiting, w)
	p.call()
	p.mu.Unlock()
	select {
	case <-w.called:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	i := slices.Index(p.waiting, w)
	if i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.tenants.Leave(w.tenant)
	}
	p.mu.Unlock()
	if i < 0 { // it was called just now
		p.leave(tenant)
	}
	return context.Cause(ctx)
}

// leave gives a place back.
func (p *slots) leave(tenant string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	t := p.tenants.Find(tenant)
	t.Charge(-1, 1)
	p.tenants.Leave(t)
	p.call()
}

// call gives free slots to waiting requests: to the tenant with the fewest slots, of
// those to the one that has waited longest. The lock is held.
func (p *slots) call() {
	for p.free > 0 && len(p.waiting) > 0 {
		next := 0
		for i, w := range p.waiting {
			if fairshare.Compare(&w.tenant.Account, &p.waiting[next].tenant.Account) < 0 {
				next = i
			}
		}
		w := p.waiting[next]
		p.waiting = slices.Delete(p.waiting, next, next+1)
		p.free--
		w.tenant.Charge(1, 1)
		close(w.called)
	}
}

// A requestSlot is a request's among those that are answered together. It belongs to
// one goroutine at a time.
type requestSlot struct {
	places *slots
	tenant string
	held   bool
}

// slotKey is where a context keeps the place of its request.
type slotKey struct{}

func (p *requestSlot) take(ctx context.Context) error {
	err := p.places.take(ctx, p.tenant)
	p.held = err == nil
	return err
}

func (p *requestSlot) leave() {
	if p.held {
		p.places.leave(p.tenant)
		p.held = false
	}
}

// Rest waits for a time, as a request does whose author has no room for it now.
// If ctx is that of a request which a [Runner] makes, others use its slot
// meanwhile: an author with small limits delays no other.
func Rest(ctx context.Context, d time.Duration) error {
	p, placed := ctx.Value(slotKey{}).(*requestSlot)
	if placed {
		p.leave()
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if placed {
		return p.take(ctx)
	}
	return nil
}
