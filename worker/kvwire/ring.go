package kvwire

import (
	"context"
	"sync"
)

// A ring has blocks that have come and were not taken, so that the next ones are read while
// those before are taken. One goroutine adds to it, and one takes.
type ring struct {
	block int // bytes of one
	room  []byte
	sums  []uint32 // that the blocks in room were sent with

	mu           sync.Mutex
	came, taken  int   // blocks so far
	end          error // why no more come
	ended        bool
	added, freed chan struct{} // have an element when something was
}

func newRing(block, blocks int) *ring {
	return &ring{
		block: block,
		room:  make([]byte, block*blocks),
		sums:  make([]uint32, blocks),
		added: make(chan struct{}, 1),
		freed: make(chan struct{}, 1),
	}
}

// next returns where the next block is to be read to, once that is free.
func (r *ring) next(ctx context.Context) ([]byte, error) {
	blocks := len(r.sums)
	for {
		r.mu.Lock()
		at, full := r.came%blocks, r.came-r.taken == blocks
		r.mu.Unlock()
		if !full {
			return r.room[at*r.block:][:r.block], nil
		}
		select {
		case <-r.freed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// add notes that the block of next has been read, and its checksum.
func (r *ring) add(sum uint32) {
	r.mu.Lock()
	r.sums[r.came%len(r.sums)] = sum
	r.came++
	r.mu.Unlock()
	signal(r.added)
}

// close notes that no more blocks come, and why; nil if all have.
func (r *ring) close(err error) {
	r.mu.Lock()
	r.end, r.ended = err, true
	r.mu.Unlock()
	signal(r.added)
}

// take waits for blocks and returns them with their checksums, at most half of the ring at once.
// It returns none when all were taken and no more come.
func (r *ring) take() (data []byte, sums []uint32) {
	blocks := len(r.sums)
	for {
		r.mu.Lock()
		at, n, ended := r.taken%blocks, r.came-r.taken, r.ended
		r.mu.Unlock()
		if n > 0 || ended {
			n = min(n, blocks-at, max(1, blocks/2))
			return r.room[at*r.block:][:n*r.block], r.sums[at:][:n]
		}
		<-r.added
	}
}

// free gives the room of blocks back that were taken.
func (r *ring) free(data []byte) {
	r.mu.Lock()
	r.taken += len(data) / r.block
	r.mu.Unlock()
	signal(r.freed)
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
