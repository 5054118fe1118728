package hub

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// attempt tries something until it succeeds, fails for good, or has failed Attempts
// times without bringing a byte. try returns how many bytes it brought.
func (c *Client) attempt(ctx context.Context, what string, try func(context.Context) (int64, error)) error {
	failures := 0
	for {
		n, err := try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		passing, ok := errors.AsType[*temporary](err)
		if !ok {
			return err
		}
		if n > 0 {
			failures = 0
		}
		if failures++; failures >= c.Attempts {
			return fmt.Errorf("%w. Run the command again to continue", passing.err)
		}
		if err := c.pause(ctx, what, passing, failures); err != nil {
			return err
		}
	}
}

// pause waits before the next attempt: for as long as the server asks, else for the
// backoff, of which up to a half is random so that ranges do not return together.
func (c *Client) pause(ctx context.Context, what string, why *temporary, failures int) error {
	wait := why.wait
	if wait > c.WaitMax {
		return errorf(Busy, "%s: the server asks to wait for %s. Then run the command again to continue",
			what, wait)
	}
	if wait == 0 {
		wait = min(c.Backoff<<min(failures-1, 10), backoffMax)
		wait -= time.Duration(rand.Int64N(int64(wait)/2 + 1))
	}
	if wait >= time.Second {
		c.notify(fmt.Sprintf("%v; trying again in %s", why.err, wait.Round(time.Second)))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
