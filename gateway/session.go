package gateway

import (
	"context"
	"sync"

	"parley/gateway/openai"
)

// A sessionKey names an editor session. It belongs to the identity that called,
// by whichever header its key came: a caller with another key cannot end it.
type sessionKey struct{ model, organization, user, key, name string }

// sessions know the newest request of each session that has one under way.
type sessions struct {
	mu     sync.Mutex
	newest map[sessionKey]*context.CancelCauseFunc
}

// begin makes a request the newest of its session and ends the one before. The
// caller must call end.
func (s *sessions) begin(ctx context.Context, key sessionKey) (within context.Context, end func()) {
	within, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.newest[key]; before != nil {
		(*before)(openai.Superseded())
	}
	if s.newest == nil {
		s.newest = make(map[sessionKey]*context.CancelCauseFunc)
	}
	s.newest[key] = &cancel
	return within, func() {
		cancel(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.newest[key] == &cancel {
			delete(s.newest, key)
		}
	}
}
