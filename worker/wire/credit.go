package wire

import (
	"context"
	"sync"
	"time"
)

// A credit is how many tokens may still be sent.
type credit struct {
	mu   sync.Mutex
	left int
	more chan struct{}
	// paused is how long take has waited; it belongs to the caller of take.
	paused time.Duration
}

func newCredit(window int) *credit { return &credit{left: window, more: make(chan struct{}, 1)} }

// take waits until something may be sent. A delta of several tokens may go over
// the window, and the next one waits for it.
func (c *credit) take(ctx context.Context, tokens int) error {
	for {
		c.mu.Lock()
		if c.left > 0 {
			c.left -= tokens
			c.mu.Unlock()
			return nil
		}
		c.mu.Unlock()
		begun := time.Now()
		select {
		case <-c.more:
			c.paused += time.Since(begun)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// refill lets more be sent.
func (c *credit) refill(tokens int) {
	c.mu.Lock()
	c.left += tokens
	c.mu.Unlock()
	select {
	case c.more <- struct{}{}:
	default:
	}
}
