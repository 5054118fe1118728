package wire

import (
	"io"
	"sync"
)

// An outbox writes what many send to one connection. What is sent while a goroutine
// writes goes out with the next write, so that many frames cost one call of the
// system.
type outbox struct {
	to      io.Writer
	mu      sync.Mutex
	waiting []byte
	spare   []byte
	writing bool
	err     error
	// last is done when nothing waits any more.
	last func()
}

// roundsMax is how often the sender of a frame writes those of others, too.
const roundsMax = 2

// send takes a frame. It returns before the frame is written if others write; an
// error is of any frame before.
func (o *outbox) send(frame []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	o.waiting = append(o.waiting, frame...)
	if o.writing {
		return nil
	}
	o.writing = true
	if o.write(roundsMax); o.writing {
		go func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.write(0)
		}()
	}
	return o.err
}

// write writes what waits, in at most the given number of rounds if that is not 0. The lock is
// held, but not while it writes.
func (o *outbox) write(rounds int) {
	for round := 1; len(o.waiting) > 0 && o.err == nil; round++ {
		if rounds > 0 && round > rounds {
			return
		}
		batch := o.waiting
		o.waiting = o.spare[:0]
		o.mu.Unlock()
		_, err := o.to.Write(batch)
		o.mu.Lock()
		if o.err = err; cap(batch) > ioBytes {
			batch = nil // one long frame is not a reason to keep room for another
		}
		o.spare = batch
	}
	if o.writing = false; o.last != nil {
		o.last()
		o.last = nil
	}
}

// end has something done that does not wait, when all that was sent is written or
// cannot be.
func (o *outbox) end(last func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writing {
		o.last = last
		return
	}
	last()
}
