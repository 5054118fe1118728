package worker

import (
	"bytes"
	"io"
	"strconv"
	"sync"
)

// The short lines of the wire beside numbers of tokens: a client cancels its
// request, asks for a sign of life, and is given one.
const (
	cancelMark = '-'
	pingMark   = '?'
	pongMark   = '!'
)

// lineOf is a line about the request with an id; 0 is not a request.
func lineOf(id uint64, payload []byte) []byte {
	line := make([]byte, 0, len(payload)+21)
	return append(append(append(strconv.AppendUint(line, id, 10), ' '), payload...), '\n')
}

// cutID cuts a line into the id of a request and what is said about it.
func cutID(line []byte) (id uint64, rest []byte, ok bool) {
	space := bytes.IndexByte(line, ' ')
	if space < 1 || space > 19 {
		return 0, nil, false
	}
	for _, digit := range line[:space] {
		if digit < '0' || digit > '9' {
			return 0, nil, false
		}
		id = 10*id + uint64(digit-'0')
	}
	return id, line[space+1:], true
}

// cutLine cuts the first line, without its end, from the others.
func cutLine(lines []byte) (line, rest []byte) {
	before, after, ok := bytes.Cut(lines, []byte{'\n'})
	if !ok {
		return lines, nil
	}
	return before, after
}

// An outbox writes what many send to one connection. What is sent while a goroutine
// writes goes out with the next write, so that many lines cost one call of the
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

// roundsMax is how often who sends a line writes those of others, too.
const roundsMax = 2

// send takes a line. It returns before the line is written if others write; an
// error is of any line before.
func (o *outbox) send(line []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	o.waiting = append(o.waiting, line...)
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
		if o.err = err; cap(batch) > linkBuffer {
			batch = nil // one long line is not a reason to keep room for another
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
