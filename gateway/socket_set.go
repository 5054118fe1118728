package gateway

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"parley"
	"parley/gateway/exchange"
	"parley/gateway/hijack"
)

// A socketSet counts the WebSockets of each key, and knows the connections that were
// taken from the HTTP server.
type socketSet struct {
	connections *hijack.Connections
	mu          sync.Mutex
	of          map[string]int
}

func newSocketSet() *socketSet {
	return &socketSet{connections: hijack.NewConnections(), of: map[string]int{}}
}

// enterFor counts a WebSocket of a key, which may have most, until leaveFor.
func (s *socketSet) enterFor(key string, most int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[key] >= most {
		return &parley.Error{Code: parley.RateLimited, Wait: time.Second,
			Message: fmt.Sprintf(
				"Your key has %d WebSocket connections open, and may have no more. Close one, or send more "+
					"requests over each.", most)}
	}
	if !s.connections.Enter() {
		return errShuttingDown
	}
	s.of[key]++
	return nil
}

// leaveFor ends what enterFor began.
func (s *socketSet) leaveFor(key string) {
	s.mu.Lock()
	if s.of[key]--; s.of[key] == 0 {
		delete(s.of, key)
	}
	s.mu.Unlock()
	s.connections.Leave()
}

var errShuttingDown = parley.Errorf(parley.Unavailable, "The server is shutting down. Try again later.")

// A frame is a request that came over a WebSocket, with the bytes it holds.
type frame struct {
	body []byte
	held *exchange.BodyBytes
}

// framesWaiting is how many requests may wait on one connection while another
// is answered.
const framesWaiting = 8

// A frameQueue has the frames of one WebSocket that wait for their answers.
type frameQueue struct {
	mu      sync.Mutex
	waiting []frame
	// answering is true while a frame is answered; once ended, none is answered any more.
	answering, ended bool
}

// add takes a frame; ok is false if too many wait. After end it drops the frame. If first is true, the caller must have
// frames answered until next returns false.
func (q *frameQueue) add(f frame) (first, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended || len(q.waiting) == framesWaiting {
		f.held.Release()
		return false, q.ended
	}
	q.waiting = append(q.waiting, f)
	first, q.answering = !q.answering, true
	return first, true
}

// next returns the frame to answer now, if there is one.
func (q *frameQueue) next() (f frame, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.answering = len(q.waiting) > 0 && !q.ended; !q.answering {
		return f, false
	}
	f = q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1) // which lets go of its body
	return f, true
}

// end has no more frames answered, and reports whether none is being answered.
func (q *frameQueue) end() (idle bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	return !q.answering
}

// isEnded reports whether end was called.
func (q *frameQueue) isEnded() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended
}

// forget lets go of frames that nothing will answer any more.
func (q *frameQueue) forget() {
	for _, f := range q.waiting {
		f.held.Release()
	}
}
