package fleet

import (
	"context"
	"time"

	"parley"
)

// guarded turns a panic into an error: one bad worker must not end the process.
func guarded(run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = parley.PanicError(p)
		}
	}()
	return run()
}

// sleep waits, and reports false if ctx ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func await(ctx context.Context, changed <-chan struct{}, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// lookEvery is how often waiting requests look again, because a breaker may have
// closed, which is not announced.
const lookEvery = 250 * time.Millisecond
