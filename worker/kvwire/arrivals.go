package kvwire

import (
	"context"
	"sync"
)

// Arrivals are pieces of blocks that have come and were not taken, so that the next ones are read while
// those before are taken. One goroutine adds to them, and one takes, which may be the same. Memory that was used last
// is used first, so that it is still in the processor's cache when pieces are taken quickly, and
// no more of it is allocated than pieces wait.
type arrivals struct {
	piece int // bytes of one at most

	mu           sync.Mutex
	more         int           // pieces that may still be allocated
	unused       [][]byte      // memory to read to
	came         []arrival     // and were not taken
	most         int           // that are taken at once
	ended        bool          // no more come
	added, freed chan struct{} // have an element when something was

	// pull reads the next piece when one is wanted and none has come; nil if a goroutine reads them.
	pull func() bool
}

// An arrival is a piece of a block.
type arrival struct {
	piece []byte
	from  *arrivals
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

// add notes that a piece has been read.
func (a *arrivals) add(piece []byte) {
	a.mu.Lock()
	a.came = append(a.came, arrival{piece, a})
	a.mu.Unlock()
	signal(a.added)
}

// close notes that no more pieces come.
func (a *arrivals) close() {
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	signal(a.added)
}

// take returns the next pieces, at most n. If there are none, it waits for some on request; it then returns none only
// when all were taken and no more come.
func (a *arrivals) take(n int, wait bool) (pieces []arrival) {
	for {
		a.mu.Lock()
		n, ended := min(len(a.came), n), a.ended
		pieces, a.came = a.came[:n:n], a.came[n:]
		a.mu.Unlock()
		if n > 0 || ended || !wait {
			return pieces
		}
		if a.pull == nil {
			<-a.added
		} else {
			a.pull()
		}
	}
}

// free gives the memory of a piece back that was taken.
func (a *arrivals) free(piece []byte) {
	a.mu.Lock()
	a.unused = append(a.unused, piece[:a.piece])
	a.mu.Unlock()
	signal(a.freed)
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
