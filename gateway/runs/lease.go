package runs

import (
	"context"
	"sync"
	"time"
)

// How a process shows the store that it lives. What it was writing is taken for
// abandoned when there was no heartbeat for leaseFor.
const (
	HeartbeatEvery = 5 * time.Second
	leaseFor       = 15 * time.Second
)

// A lease is this process's right to write what it has claimed in the store.
type lease struct {
	store   Store
	process string
	now     func() time.Time

	mu sync.Mutex
	// until is when it ends, as the store was told last; writing counts what needs it.
	until   time.Time
	writing int
}

// Enter makes sure that the store takes this process for alive until [Runs.Leave].
func (l *lease) Enter(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until.Sub(l.now()) < leaseFor-HeartbeatEvery {
		if err := l.extend(ctx); err != nil {
			return err
		}
	}
	l.writing++
	return nil
}

// Leave ends what Enter began.
func (l *lease) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing--
}

// extend is called with mu held.
func (l *lease) extend(ctx context.Context) error {
	until := l.now().Add(leaseFor)
	if err := l.store.Heartbeat(ctx, l.process, until); err != nil {
		return err
	}
	l.until = until
	return nil
}

// heartbeat extends the lease if anything needs it.
func (l *lease) heartbeat(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writing == 0 {
		return nil
	}
	return l.extend(ctx)
}
