package kvwire

import (
	"context"
	"io"
	"sync"
	"time"
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

// begin reads the first stream, whose next piece comes with each call of next until that returns an error. If it does
// not read ahead, pieces are read when they are wanted.
func (m *merge) begin(next func() error, ahead bool) {
	m.streams[0].pull = func() bool { return m.step(0, next) }
	if ahead {
		m.readAhead()
	}
}

// readAhead has a goroutine read the first stream from now on.
func (m *merge) readAhead() {
	pull := m.streams[0].pull
	if pull == nil {
		return
	}
	m.streams[0].pull = nil
	m.reading.Go(func() {
		for pull() {
		}
	})
}

// receive has a goroutine read another stream to its end.
func (m *merge) receive(stream int, read func() error) {
	m.reading.Go(func() { m.step(stream, read) })
}

// step reads from a stream. It reports false after its end, and then no more comes of it.
func (m *merge) step(stream int, read func() error) (more bool) {
	err := read()
	if err == nil {
		return true
	}
	m.mu.Lock()
	if m.failed == nil && err != io.EOF {
		m.failed = err
	}
	m.mu.Unlock()
	m.streams[stream].close()
	return false
}

// slowPut is a time that only an engine takes which is busy with other work. Blocks are read meanwhile.
const slowPut = time.Millisecond

// take passes blocks on until no more come. It returns once nothing is read any more.
func (m *merge) take(ctx context.Context, cancel context.CancelFunc,
	put func(ctx context.Context, pieces ...[]byte) error) (blocks int, err error) {
	defer func() {
		cancel()
		m.reading.Wait() // it wrote to the blocks
	}()
	for {
		blocks = m.place.number
		came := m.next()
		if len(came) == 0 {
			return blocks, m.end(blocks)
		}
		pieces := make([][]byte, len(came))
		for i, a := range came {
			pieces[i] = a.piece
		}
		began := time.Now()
		if err := put(ctx, pieces...); err != nil {
			return blocks, &putError{err}
		}
		if time.Since(began) > slowPut {
			m.readAhead()
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
		m.readAhead() // to the end of the stream
		m.reading.Wait()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

// A putError is one of [Fetch.Put].
type putError struct{ error }

func (e *putError) Unwrap() error { return e.error }
