package gateway

import (
	"fmt"
	"sync"
	"time"

	"parley"
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
