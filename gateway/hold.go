package gateway

import "sync/atomic"

// A hold is a lock. Whoever waits for it waits for a channel, and not as for a
// [sync.Mutex], as that may take as long as a client takes to read: clocks of tests
// must be able to see it. Taking a free one touches no channel.
type hold struct {
	state atomic.Int32
	// freed has a word for one of those who wait.
	freed chan struct{}
}

const (
	holdFree = iota
	holdTaken
	holdWaited // it is taken, and somebody may wait for it
)

func newHold() hold { return hold{freed: make(chan struct{}, 1)} }

// TryLock reports whether it could be had at once.
func (h *hold) TryLock() bool { return h.state.CompareAndSwap(holdFree, holdTaken) }

// Lock waits for it.
func (h *hold) Lock() {
	if h.TryLock() {
		return
	}
	for h.state.Swap(holdWaited) != holdFree {
		<-h.freed
	}
}

// Unlock gives it to one of those who wait.
func (h *hold) Unlock() {
	if h.state.Swap(holdFree) == holdWaited {
		select {
		case h.freed <- struct{}{}:
		default:
		}
	}
}
