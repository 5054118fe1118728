package kvwire

import (
	"context"
	"sync"
)

// Arrivals are pieces of blocks that have come and were not taken, so that the next ones are read while
// those before are taken. One goroutine adds to them, and one takes. Memory that was used last
// is used first, so that it is still in the processor's cache when pieces are taken quickly, and
// no more of it is allocated than pieces wait.
type arrivals struct {
	piece int // bytes of one at most

	mu           sync.Mutex
	more         int      // pieces that may still be allocated
	unused       [][]byte // memory to read to
	came         [][]byte // and were not taken
	sums         []uint32 // that those were sent with
	most         int      // that are taken at once
	end          error    // why no more come
	ended        bool
	added, freed chan struct{} // have an element when something was
}

// newArrivals has room for bytes of blocks.
func newArrivals(block, bytes int) *arrivals {
	piece := min(block, pieceBytes)
	return &arrivals{
		piece: piece,
		more:  max(1, bytes/piece),
		most:  max(1, bytes/piece/2),
		added: make(chan struct{}, 1),
		freed: make(chan struct{}, 1),
	}
}

// room returns where the next piece is to be read to, once there is room for it.
func (a *arrivals) room(ctx context.Context) ([]byte, error) {
	for {
		if room := a.unusedRoom(); room != nil {
			return room, nil
		}
		select {
		case <-a.freed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// unusedRoom returns room for a piece, nil if all is in use.
func (a *arrivals) unusedRoom() (room []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.unused); n > 0 {
		room, a.unused = a.unused[n-1], a.unused[:n-1]
	} else if a.more > 0 {
		a.more--
		room = make([]byte, a.piece)
	}
	return room
}

// add notes that a piece has been read, and its checksum.
func (a *arrivals) add(piece []byte, sum uint32) {
	a.mu.Lock()
	a.came, a.sums = append(a.came, piece), append(a.sums, sum)
	a.mu.Unlock()
	signal(a.added)
}

// close notes that no more pieces come, and why; nil if all have.
func (a *arrivals) close(err error) {
	a.mu.Lock()
	a.end, a.ended = err, true
	a.mu.Unlock()
	signal(a.added)
}

// take waits for pieces and returns them with their checksums, at most half of what there is room
// for. It returns none when all were taken and no more come.
func (a *arrivals) take() (pieces [][]byte, sums []uint32) {
	for {
		a.mu.Lock()
		n, ended := min(len(a.came), a.most), a.ended
		pieces, a.came = a.came[:n:n], a.came[n:]
		sums, a.sums = a.sums[:n:n], a.sums[n:]
		a.mu.Unlock()
		if n > 0 || ended {
			return pieces, sums
		}
		<-a.added
	}
}

// free gives the memory of pieces back that were taken.
func (a *arrivals) free(pieces [][]byte) {
	a.mu.Lock()
	for _, p := range pieces {
		a.unused = append(a.unused, p[:a.piece])
	}
	a.mu.Unlock()
	signal(a.freed)
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
