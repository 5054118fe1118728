package batch

import (
	"context"
	"time"
)

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

// inTurn does something for a tenant when there is a place for it, unless ctx ends
// first.
func (r *Runner) inTurn(ctx context.Context, tenant string, do func(context.Context)) {
	p := &requestSlot{places: r.places, tenant: tenant}
	if p.take(ctx) != nil {
		return
	}
	defer p.leave()
	do(context.WithValue(ctx, slotKey{}, p))
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
