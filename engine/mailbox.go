package engine

import (
	"context"
	"errors"
	"sync"

	"parley"
)

// A mailbox carries deltas from the loop to one reader. Putting never blocks,
// so that no reader can hold up a step. When a reader has left mailboxFull
// deltas lying, its job pauses until it has taken them.
type mailbox struct {
	mu      sync.Mutex
	deltas  []parley.Delta
	err     error
	done    bool
	full    bool
	ready   chan struct{}
	emptied func() // called when a full mailbox was emptied
}

// mailboxFull is how many deltas, of mostly one token each, wait for a slow
// reader before its job pauses.
const mailboxFull = 256

func newMailbox() *mailbox { return &mailbox{ready: make(chan struct{}, 1)} }

// put adds a delta and reports whether the mailbox is full now.
func (m *mailbox) put(d parley.Delta, last bool) (full bool) {
	m.mu.Lock()
	m.deltas = append(m.deltas, d)
	m.done = m.done || last
	m.full = !m.done && len(m.deltas) >= mailboxFull
	full = m.full
	m.mu.Unlock()
	m.signal()
	return full
}

func (m *mailbox) fail(err error) {
	m.mu.Lock()
	m.err, m.done = err, true
	m.mu.Unlock()
	m.signal()
}

func (m *mailbox) signal() {
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// take empties the mailbox.
func (m *mailbox) take() (deltas []parley.Delta, done bool, err error) {
	m.mu.Lock()
	deltas, m.deltas = m.deltas, nil
	done, err = m.done, m.err
	resume := m.full && !done
	m.full = false
	m.mu.Unlock()
	if resume {
		m.emptied()
	}
	return deltas, done, err
}

// each yields the deltas as they come, until the last one, an error, the end
// of ctx, or a reader that has had enough.
func (m *mailbox) each(ctx context.Context, yield func(parley.Delta, error) bool) {
	for {
		deltas, done, err := m.take()
		for _, d := range deltas {
			if !yield(d, nil) {
				return
			}
		}
		if err != nil {
			yield(parley.Delta{}, err)
			return
		}
		if done {
			return
		}
		select {
		case <-m.ready:
		case <-ctx.Done():
			yield(parley.Delta{}, contextError(ctx.Err()))
			return
		}
	}
}

func errExpired() error {
	return parley.Errorf(parley.DeadlineExceeded, "the answer was not complete in the time allowed")
}

func contextError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errExpired()
	}
	return parley.Errorf(parley.Cancelled, "the client hung up before the answer was complete")
}
