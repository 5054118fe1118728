package kvstore

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"parley/queue"
)

// A direction is reading or writing, with what keeps requests from a store that fails.
type direction struct {
	verb    string
	log     *slog.Logger
	mu      sync.Mutex
	breaker *queue.Breaker
	down    bool
}

func newDirection(verb string, log *slog.Logger) direction {
	cfg := queue.BreakerConfig{Failures: 3, OpenMin: 2 * time.Second, OpenMax: time.Minute, Trials: 1}
	return direction{verb: verb, log: log, breaker: queue.NewBreaker(cfg)}
}

// begin reports whether the store may be asked. The caller reports how it went with end.
func (w *direction) begin(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.breaker.Ready(now) {
		return false
	}
	w.breaker.Go(now)
	return true
}

// end takes in how a request went that begin has let through.
func (w *direction) end(reason string, err error, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch reason {
	case "cancelled", "no room", "engine busy", "damaged": // not the store's fault, or one block's
		w.breaker.Abandon()
		return
	}
	w.breaker.Done(reason == "", now)
	down := w.breaker.State(now) != queue.Closed
	if down == w.down {
		return
	}
	w.down = down
	if down {
		w.log.Warn("key/value store unavailable", "verb", w.verb, "reason", reason, "error", err)
	} else {
		w.log.Info("key/value store available again", "verb", w.verb)
	}
}

// rest returns how long the store is not to be asked.
func (w *direction) rest(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.breaker.Retry(now)
}

// up reports whether the store is asked as usual.
func (w *direction) up() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.down
}

// A pace spreads bytes over time. The zero rate lets nothing through.
type pace struct {
	rate float64 // bytes in a second

	mu   sync.Mutex
	next time.Time // when the next byte may go
}

// wait returns when bytes may go, or ctx ends.
func (p *pace) wait(ctx context.Context, bytes int) error {
	p.mu.Lock()
	now := time.Now()
	at := p.next
	if at.Before(now) {
		at = now
	}
	p.next = at.Add(time.Duration(float64(bytes) / p.rate * float64(time.Second)))
	p.mu.Unlock()
	return sleep(ctx, at.Sub(now))
}

// sleep waits until ctx ends, or for a time.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
