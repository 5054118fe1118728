package worker

import (
	"sync"

	"parley"
)

// An inflow is an answer as it comes in. The link puts lines in and never waits:
// how many there can be is bounded by the window, and by lineMax where a worker
// does not keep to that.
type inflow struct {
	link *link
	id   uint64
	mu   sync.Mutex
	// in are lines that the reader has not taken, spare is room for the next.
	in, spare []byte
	err       error
	more      chan struct{}
	// rest are lines that were taken and not read.
	rest []byte
	// said and delta are those of the newest frame of nothing but tokens.
	said  frame
	delta parley.Delta
}

// add puts a line in, if there is room for it, and wakes the reader. A reader that is
// behind takes several lines at once.
func (s *inflow) add(line []byte) (fits bool) {
	s.mu.Lock()
	if fits = len(s.in)+len(line) <= s.link.most; fits {
		s.in = append(append(s.in, line...), '\n')
	}
	s.mu.Unlock()
	s.wake()
	return fits
}

// swap takes all lines there are.
func (s *inflow) swap() { s.rest, s.in, s.spare = s.in, s.spare[:0], s.in }

func (s *inflow) end(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	s.wake()
}

func (s *inflow) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// take waits until there are lines, and takes all there are.
func (s *inflow) take() error {
	for {
		s.mu.Lock()
		err, there := s.err, true
		switch {
		case len(s.in) > 0:
			s.swap()
			err = nil
		case err == nil:
			there = false
		}
		s.mu.Unlock()
		if there {
			return err
		}
		<-s.more
	}
}

// A garbledError is a line that makes no sense.
type garbledError struct{ err error }

func (e *garbledError) Error() string { return e.err.Error() }

// frame reads the next frame, which is valid until the one after it. Lines of nothing but tokens that have come already
// are one frame: each frame has a cost at every step on its way.
func (s *inflow) frame() (*frame, error) {
	if len(s.rest) == 0 {
		if err := s.take(); err != nil {
			return nil, err
		}
	}
	tokens := s.tokens(nil)
	if len(tokens) > 0 {
		s.delta = parley.Delta{Tokens: tokens}
		s.said.Delta = &s.delta
		return &s.said, nil
	}
	line, rest := cutLine(s.rest)
	s.rest = rest
	f, err := parseFrame(line)
	if err != nil {
		return nil, &garbledError{err}
	}
	return f, nil
}

// tokens reads as many lines of nothing but tokens as have come, and appends them.
func (s *inflow) tokens(tokens []parley.Token) []parley.Token {
	for len(s.rest) > 0 {
		line, rest := cutLine(s.rest)
		more, plain := plainTokens(tokens, line)
		if !plain {
			break
		}
		tokens, s.rest = more, rest
	}
	return tokens
}
