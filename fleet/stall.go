package fleet

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

var errStalled = errors.New("the worker has stalled")

// A stallTimer breaks an answer off when nothing was heard for too long. Its timer
// looks only when it could have been too long: setting one for each token would
// cost more than the token.
type stallTimer struct {
	most   time.Duration
	cancel context.CancelCauseFunc
	mu     sync.Mutex // guards timer, due and over against looks
	timer  *time.Timer
	due    time.Time // when the timer looks
	over   bool
	born   time.Time
	// since is when a reader began to wait, in nanoseconds after born; 0 while none
	// does.
	since atomic.Int64
}

// arm notes that a reader waits from now on.
func (s *stallTimer) arm() {
	if s.most <= 0 {
		return
	}
	if s.timer == nil {
		s.born = time.Now()
		s.since.Store(1)
		s.mu.Lock()
		s.due, s.timer = s.born.Add(s.most), time.AfterFunc(s.most, s.check)
		s.mu.Unlock()
		return
	}
	s.since.Store(max(1, int64(time.Since(s.born))))
}

// disarm says that something was heard.
func (s *stallTimer) disarm() { s.since.Store(0) }

// check breaks the answer off if it is time, and else looks again when it may be. A
// look that is late is one of a process that was stopped: what has come meanwhile
// must be read first.
func (s *stallTimer) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	left := s.most
	if since := s.since.Load(); since > 0 {
		left -= time.Since(s.born) - time.Duration(since)
	}
	if again := s.most / 4; left <= 0 && time.Since(s.due) > again {
		left = again
	}
	if left <= 0 {
		s.cancel(errStalled)
		return
	}
	s.due = time.Now().Add(left)
	s.timer.Reset(left)
}

func (s *stallTimer) stop() {
	s.disarm()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over = true; s.timer != nil {
		s.timer.Stop()
	}
}
