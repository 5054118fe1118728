package gateway

import (
	"context"
	"sync"

	"parley/gateway/models"
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

// inSession answers the call as the newest of the session that gap names, if it
// names one. When a newer one comes, the call's context ends and the client
// hears why.
func (c *call) inSession(m *models.Model, gap *openai.Gap, answer func() error) error {
	if gap == nil || gap.Session == "" {
		return answer()
	}
	alone := c.Request
	who := &c.Identity
	key := sessionKey{
		model:        m.ID,
		organization: who.Organization,
		user:         who.User,
		key:          who.Key,
		name:         gap.Session,
	}
	ctx, end := c.gateway.sessions.begin(alone.Context(), key)
	defer end()
	c.Request = alone.WithContext(ctx)
	err := answer()
	c.Request = alone
	if err != nil && ctx.Err() != nil && alone.Context().Err() == nil {
		return context.Cause(ctx)
	}
	return err
}
