package answer

import "sync/atomic"

// A chanMutex is a mutex whose waiters block on a channel: [testing/synctest] does not
// take a goroutine that waits for a [sync.Mutex] for idle, and this one may be held for
// as long as a client takes to read. Locking a free one touches no channel.
type chanMutex struct {
	state atomic.Int32
	// freed wakes one waiter.
	freed chan struct{}
}

const (
	mutexFree = iota
	mutexLocked
	mutexContended // it is locked, and a goroutine may wait for it
)

func newChanMutex() chanMutex { return chanMutex{freed: make(chan struct{}, 1)} }

// Lock waits until m is free and takes it.
func (m *chanMutex) Lock() {
	if m.state.CompareAndSwap(mutexFree, mutexLocked) {
		return
	}
	for m.state.Swap(mutexContended) != mutexFree {
		<-m.freed
	}
}

// Unlock gives m back and wakes one waiter.
func (m *chanMutex) Unlock() {
	if m.state.Swap(mutexFree) == mutexContended {
		select {
		case m.freed <- struct{}{}:
		default:
		}
	}
}
