package kvstore

import (
	"sync"
	"time"

	"parley"
)

// knownMost bounds how many names are remembered.
const knownMost = 1 << 18

// names are blocks that the store is known to have: for a time, since it may lose them, and at
// most some, so that memory is bounded. The zero value with a life is empty.
type names struct {
	life time.Duration

	mu       sync.Mutex
	now, old map[uint64]struct{} // by the key of their names; old ones were added in the life before
	since    time.Time
}

// keyed returns what stands for a name: if two are taken for one, a block is not written.
func keyed(name *parley.BlockHash) uint64 { return uint64(name.Key()) }

func (k *names) has(name *parley.BlockHash) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.turn()
	key := keyed(name)
	_, now := k.now[key]
	_, old := k.old[key]
	return now || old
}

func (k *names) add(list []parley.BlockHash) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.turn()
	for i := range list {
		k.now[keyed(&list[i])] = struct{}{}
	}
}

func (k *names) drop(name *parley.BlockHash) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.now, keyed(name))
	delete(k.old, keyed(name))
}

// turn forgets the older half when it has lived, or there are too many.
func (k *names) turn() {
	now := time.Now()
	if k.now != nil && len(k.now) < knownMost && now.Sub(k.since) < k.life/2 {
		return
	}
	if now.Sub(k.since) >= k.life {
		k.now = nil
	}
	k.old, k.now, k.since = k.now, map[uint64]struct{}{}, now
}
