package hijack

import (
	"context"
	"sync"
)

// Connections counts the connections that were taken from an HTTP server, which does
// not know of them any more, and ends them when the program stops.
type Connections struct {
	mu     sync.Mutex
	open   sync.WaitGroup
	closed bool
	// ending ends when connections are to end after the response they are sending.
	ending context.Context
	end    context.CancelFunc
	// ctx ends when they are to end at once.
	ctx     context.Context
	stop    context.CancelCauseFunc
	hangups hangupWatcher
}

// NewConnections returns an empty set.
func NewConnections() *Connections {
	c := &Connections{}
	c.ending, c.end = context.WithCancel(context.Background())
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	return c
}

// Enter counts a connection until Leave. It reports false if no more are taken.
func (c *Connections) Enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.open.Add(1)
	}
	return !c.closed
}

// Leave ends what Enter began.
func (c *Connections) Leave() { c.open.Done() }

// OnEnding calls drain when connections are to end after what they are sending. It
// returns a function that prevents that.
func (c *Connections) OnEnding(drain func()) (prevent func() bool) {
	return context.AfterFunc(c.ending, drain)
}

// OnStop calls cancel, with the cause that Close was given, when connections are to end
// at once. It returns a function that prevents that.
func (c *Connections) OnStop(cancel context.CancelCauseFunc) (prevent func() bool) {
	return context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })
}

// Watched returns how many streams are watched for hang-ups now, and how many ever were.
func (c *Connections) Watched() (now int, ever uint64) { return c.hangups.watched() }

// Close takes no more connections, and returns when all have left. When ctx ends before
// that, those that are left end with cause.
func (c *Connections) Close(ctx context.Context, cause error) {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.end()
	prevent := context.AfterFunc(ctx, func() { c.stop(cause) })
	c.open.Wait()
	prevent()
	c.stop(cause)
	c.hangups.close()
}
