package kvwire

import (
	"context"
	"sync"

	"parley"
)

// A merge puts the streams of a fetch together again, on the taking side. What comes in a stream before its turn
// waits in the memory of that stream, so a stream that is slower than the others slows them down.
type merge struct {
	streams []*arrivals
	blocks  int    // of all streams
	place   cursor // of the next piece that is taken
	reading sync.WaitGroup

	mu     sync.Mutex
	failed error // why a stream failed, the first one that did: it may be why others fail
}

// newMerge has room for bytes of blocks.
func newMerge(block, blocks, streams, bytes int) *merge {
	m := &merge{blocks: blocks, place: cursor{block: block}}
	for range streams {
		m.streams = append(m.streams, newArrivals(block, bytes/streams))
	}
	return m
}

// blocksOf returns how many blocks a stream has.
func (m *merge) blocksOf(stream int) int {
	return (m.blocks - stream + len(m.streams) - 1) / len(m.streams)
}

// receive has a goroutine read a stream.
func (m *merge) receive(stream int, read func() error) {
	m.reading.Go(func() {
		err := read()
		m.mu.Lock()
		if m.failed == nil {
			m.failed = err
		}
		m.mu.Unlock()
		m.streams[stream].close()
	})
}

// take verifies blocks and passes them on while the next ones are read. It returns once nothing is read any more.
func (m *merge) take(ctx context.Context, cancel context.CancelFunc, names []parley.BlockHash,
	put func(ctx context.Context, pieces ...[]byte) error) (blocks int, err error) {
	defer func() {
		cancel()
		m.reading.Wait() // it wrote to the blocks
	}()
	for {
		at := m.place
		came := m.next()
		if len(came) == 0 {
			return at.number, m.end(at.number)
		}
		sound := make([][]byte, 0, len(came))
		for _, a := range came {
			if sumOf(&names[at.number], at.at, a.piece) != a.sum {
				break
			}
			sound = append(sound, a.piece)
			at.pass()
		}
		if len(sound) > 0 {
			if err := put(ctx, sound...); err != nil {
				return blocks, &putError{err}
			}
		}
		if blocks = at.number; len(sound) < len(came) {
			return blocks, errDamaged
		}
		for _, a := range came {
			a.from.free(a.piece)
		}
	}
}

// next returns the pieces that have come and follow those before, of each stream as many as may be taken
// at once. There is at least one, unless no more come.
func (m *merge) next() (came []arrival) {
	var taken [StreamsMax]int
	for m.place.number < m.blocks {
		i := m.place.number % len(m.streams)
		n := min(m.place.pieces(), m.streams[i].most-taken[i])
		pieces := m.streams[i].take(n, len(came) == 0)
		if len(pieces) == 0 {
			break
		}
		taken[i] += len(pieces)
		for range pieces {
			m.place.pass()
		}
		came = append(came, pieces...)
	}
	return came
}

// end returns why no more blocks come after a number of them; nil if all have.
func (m *merge) end(blocks int) error {
	if blocks == m.blocks {
		m.reading.Wait()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

// A putError is one of [Fetch.Put].
type putError struct{ error }

func (e *putError) Unwrap() error { return e.error }
