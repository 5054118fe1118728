package worker

import (
	"cmp"
	"context"
	"io"
	"sync/atomic"
	"time"

	"parley"
)

// A silenceGuard ends a request whose engine sends nothing for too long.
type silenceGuard struct {
	timer *time.Timer
	most  time.Duration
	fired atomic.Bool
}

// guardSilence returns a context that ends when extend of the guard is not called for most;
// 0 means for ever. The caller must call stop.
func guardSilence(ctx context.Context, most time.Duration) (context.Context, *silenceGuard) {
	ctx, cancel := context.WithCancel(ctx)
	g := &silenceGuard{most: cmp.Or(most, 1<<62)}
	g.timer = time.AfterFunc(g.most, func() {
		g.fired.Store(true)
		cancel()
	})
	context.AfterFunc(ctx, func() { g.timer.Stop() })
	return ctx, g
}

func (g *silenceGuard) extend() { g.timer.Reset(g.most) }

// explain returns why an answer failed: because the service was silent, if it was. That is the fate of this
// request alone: others may be answered meanwhile, and by another model so may this one.
func (g *silenceGuard) explain(err error) error {
	if !g.fired.Load() {
		return err
	}
	return parley.Errorf(parley.Overloaded, "The upstream service of this model sent nothing for %v.", g.most)
}

// A guardedBody extends its guard with whatever is read.
type guardedBody struct {
	io.Reader
	guard *silenceGuard
}

// Read reads on.
func (b guardedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if n > 0 {
		b.guard.extend()
	}
	return n, err
}
