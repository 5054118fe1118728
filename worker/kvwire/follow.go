package kvwire

import (
	"context"
	"time"

	"parley"
)

// arriveMax is how long a fetch waits for the request that computes its blocks to come.
const arriveMax = 500 * time.Millisecond

// A reader reads blocks as they are computed.
type reader struct {
	Holder
	request string // that computes them; empty if none does
	came    bool   // the request was seen
}

// next is [Holder.Read], and returns how long that took. While the next block is not there and its
// request runs, or is about to come, it waits.
func (r *reader) next(ctx context.Context, names []parley.BlockHash, at int,
	room []byte) (n int, took time.Duration, err error) {
	var late <-chan time.Time
	for {
		var changed <-chan struct{}
		running := false
		if r.request != "" && r.Follow != nil {
			changed, running = r.Follow(r.request)
		}
		began := time.Now()
		n, err = r.Read(ctx, names, at, room)
		if took = time.Since(began); n > 0 || err != nil || changed == nil || r.came && !running {
			return n, took, err
		}
		if r.came = r.came || running; r.came {
			late = nil
		} else if late == nil {
			late = time.After(arriveMax)
		}
		select {
		case <-changed:
		case <-late:
			return 0, took, nil
		case <-ctx.Done():
			return 0, took, ctx.Err()
		}
	}
}
