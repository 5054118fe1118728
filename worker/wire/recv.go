package wire

import (
	"encoding/binary"
	"sync"

	"parley"
)

// A recvStream is an answer as it comes in. The link puts frames in and never waits:
// how many there can be is bounded by the window, and by frameMax bytes where a worker
// does not keep to that.
type recvStream struct {
	id uint64
	// most is how many bytes may wait for the reader.
	most int
	mu   sync.Mutex
	// in are frames that the reader has not taken: length, kind, payload. spare is room
	// for the next. Both begin in room, which has space for what a reader that keeps up takes at once.
	in, spare []byte
	room      [2][32]byte
	err       error
	// more wakes the reader, which waits for frames or the end.
	more sync.Cond
	// rest are frames that were taken and not read; frame is the one that was read last.
	rest  []byte
	frame answerFrame
}

func newRecvStream(id uint64, most int) *recvStream {
	s := &recvStream{id: id, most: most}
	s.in, s.spare, s.more.L = s.room[0][:0], s.room[1][:0], &s.mu
	return s
}

// add puts a frame in, if there is room for it, and wakes the reader. A reader that is
// behind takes several frames at once.
func (s *recvStream) add(f frame) (fits bool) {
	s.mu.Lock()
	if fits = len(s.in)+len(f.payload) <= s.most; fits {
		s.in = binary.BigEndian.AppendUint32(s.in, uint32(len(f.payload)))
		s.in = append(append(s.in, f.kind), f.payload...)
	}
	s.mu.Unlock()
	s.more.Signal()
	return fits
}

// next returns the first frame that was taken and not read, without reading it.
func (s *recvStream) next() (kind byte, payload, rest []byte) {
	n := int(binary.BigEndian.Uint32(s.rest))
	const head = headBytes + 1
	return s.rest[headBytes], s.rest[head : head+n], s.rest[head+n:]
}

func (s *recvStream) end(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	s.more.Signal()
}

// take waits until there are frames, and takes all there are. Those that came before the end are taken before it.
func (s *recvStream) take() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.in) == 0 {
		if s.err != nil {
			return s.err
		}
		s.more.Wait()
	}
	s.rest, s.in, s.spare = s.in, s.spare[:0], s.in
	return nil
}

// A garbledError is a frame that makes no sense.
type garbledError struct{ err error }

func (e *garbledError) Error() string { return e.err.Error() }

// An answerFrame is a delta, or the error that ends an answer.
type answerFrame struct {
	delta parley.Delta
	fault *Fault
}

// read reads the next frame, which is the caller's until the next read. Frames of nothing
// but tokens that have come already are one delta: each delta has a cost at every step
// on its way.
func (s *recvStream) read() (f *answerFrame, err error) {
	f = &s.frame
	*f = answerFrame{}
	if len(s.rest) == 0 {
		if err := s.take(); err != nil {
			return f, err
		}
	}
	kind, payload, rest := s.next()
	switch kind {
	case kindTokens:
		f.delta.Tokens, err = s.tokens()
		rest = s.rest
	case kindDelta:
		var d *parley.Delta
		if d, err = parseDelta(payload); err == nil {
			f.delta = *d
		}
	case kindError:
		f.fault, f.delta.Timings, err = parseError(payload)
	default:
		err = errMalformed
	}
	s.rest = rest
	if err != nil {
		*f = answerFrame{} // what was read of a malformed frame is not used
		return f, &garbledError{err}
	}
	return f, nil
}

// tokens reads as many frames of nothing but tokens as have come.
func (s *recvStream) tokens() (tokens []parley.Token, err error) {
	for len(s.rest) > 0 {
		kind, payload, rest := s.next()
		if kind != kindTokens {
			break
		}
		d := decoder{rest: payload}
		more := d.appendTokens(tokens)
		if d.bad || len(payload) == 0 {
			if len(tokens) > 0 {
				break // those before it are good
			}
			return nil, errMalformed
		}
		tokens, s.rest = more, rest
	}
	return tokens, nil
}
