package batch

import (
	"context"
	"time"
)

// A place is a request's among those that are answered together. It belongs to
// one goroutine at a time.
type place struct {
	places *places
	tenant string
	held   bool
}

// placeKey is where a context keeps the place of its request.
type placeKey struct{}

func (p *place) take(ctx context.Context) error {
	err := p.places.take(ctx, p.tenant)
	p.held = err == nil
	return err
}

func (p *place) leave() {
	if p.held {
		p.places.leave(p.tenant)
		p.held = false
	}
}

// inTurn does something for a tenant when there is a place for it, unless ctx ends
// first.
func (r *Runner) inTurn(ctx context.Context, tenant string, do func(context.Context)) {
	p := &place{places: r.places, tenant: tenant}
	if p.take(ctx) != nil {
		return
	}
	defer p.leave()
	do(context.WithValue(ctx, placeKey{}, p))
}

// Rest waits for a time, as a request does whose author has no room for it now.
// If ctx is that of a request which a [Runner] makes, others use its slot
// meanwhile: an author with small limits delays no other.
func Rest(ctx context.Context, d time.Duration) error {
	p, placed := ctx.Value(placeKey{}).(*place)
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
