package serve

import (
	"context"
	"sync"

	"parley/gateway"
)

// inBackground runs something beside the server. The caller must call stop, which
// returns when it has ended.
func inBackground(ctx context.Context, run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// closeNow ends background work without waiting for it to complete.
func closeNow(front *gateway.Gateway) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	front.Close(now)
}
