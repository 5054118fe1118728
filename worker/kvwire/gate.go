package kvwire

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	// Fetches is how many fetches a side takes part in at once.
	Fetches = 8
	// Waits is how many more wait for their turn.
	Waits = 256
	// stallMax is how long the taking side may read nothing.
	stallMax = 10 * time.Second
)

// errBusy says that more fetches wait than may.
var errBusy = errors.New("too many fetches wait")

// A gate bounds the fetches of a side, and counts the memory that they hold. Those that
// wait enter in the order in which they came.
type gate struct {
	mu      sync.Mutex
	running int
	held    int64 // bytes
	waiting []chan struct{}
}

// enter waits until a fetch that holds bytes may run. The error is errBusy if too many
// wait, else that of ctx.
func (g *gate) enter(ctx context.Context, bytes int) error {
	turn, err := g.queue()
	if err != nil {
		return err
	}
	select {
	case <-turn:
	case <-ctx.Done():
		if !g.quit(turn) {
			g.leave(0)
		}
		return context.Cause(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held += int64(bytes)
	return nil
}

// queue returns what is closed when it is the turn of one more fetch.
func (g *gate) queue() (turn chan struct{}, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	turn = make(chan struct{})
	switch {
	case g.running < Fetches:
		g.running++
		close(turn)
	case len(g.waiting) >= Waits:
		return nil, errBusy
	default:
		g.waiting = append(g.waiting, turn)
	}
	return turn, nil
}

// quit takes a fetch out of the queue. It reports false if its turn has come.
func (g *gate) quit(turn chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := slices.Index(g.waiting, turn)
	if at >= 0 {
		g.waiting = slices.Delete(g.waiting, at, at+1)
	}
	return at >= 0
}

// leave ends a fetch that holds bytes, and lets the next one enter.
func (g *gate) leave(bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held -= int64(bytes)
	if len(g.waiting) == 0 {
		g.running--
		return
	}
	close(g.waiting[0])
	g.waiting = g.waiting[1:]
}

// bytes returns how much memory is held.
func (g *gate) bytes() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held
}
