package kvwire

import (
	"cmp"
	"context"
	"io"
	"runtime"

	"parley"
)

// A receiver reads the blocks of a stream, on the taking side. It verifies each piece while the processor's cache
// has it.
type receiver struct {
	from  source
	to    *arrivals
	names []parley.BlockHash
	place cursor // of the next piece
}

// next reads the next piece, once there is room for it. The error is io.EOF after the end of a whole stream.
func (r *receiver) next(ctx context.Context) error {
	if r.place.number == len(r.names) {
		return cmp.Or(readEnd(r.from), io.EOF)
	}
	room, err := r.to.room(ctx)
	if err != nil {
		return err
	}
	room = room[:r.place.piece()]
	sum, err := r.from.readBlock(room)
	if err != nil {
		return err
	}
	if sumOf(&r.names[r.place.number], r.place.at, room) != sum {
		return errDamaged
	}
	r.to.add(room)
	r.place.pass()
	return nil
}

// readsAhead reports whether a side of a fetch reads the next blocks in a goroutine of its own. It does not where both
// sides may share two processors: there four goroutines wait for each other.
func readsAhead() bool { return runtime.GOMAXPROCS(0) > 2 }
