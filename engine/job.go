package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley"
	"parley/engine/sample"
	"parley/engine/sched"
)

// A job is one request inside the engine. Only the loop touches it, but for
// its mailbox.
type job struct {
	req     *parley.Request
	mail    *mailbox
	choices []*choice
	open    int // choices that are not complete

	promptLogprobs []parley.Logprob
	output         int // tokens chosen, over all choices

	arrived, started, first time.Time
	done                    bool
}

// A choice is one continuation of a job's prompt.
type choice struct {
	job     *job
	index   int
	tokens  []parley.Token // prompt and answer
	seq     sched.Seq
	sampler *sample.Sampler
	stopper *sample.Stopper
}

// usage counts what the job cost.
func (j *job) usage(now time.Time) *parley.Usage {
	return &parley.Usage{
		PromptTokens: len(j.req.Prompt), OutputTokens: j.output,
		Queued: j.started.Sub(j.arrived), Prefill: j.first.Sub(j.started), Decode: now.Sub(j.first),
	}
}

// A mailbox carries deltas from the loop to one reader. Putting never blocks,
// so that no reader can hold up a step; what is kept is bounded by the
// request's own length.
type mailbox struct {
	mu     sync.Mutex
	deltas []parley.Delta
	err    error
	done   bool
	ready  chan struct{}
}

func newMailbox() *mailbox { return &mailbox{ready: make(chan struct{}, 1)} }

func (m *mailbox) put(d parley.Delta, last bool) {
	m.mu.Lock()
	m.deltas = append(m.deltas, d)
	m.done = m.done || last
	m.mu.Unlock()
	m.signal()
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
	defer m.mu.Unlock()
	deltas, m.deltas = m.deltas, nil
	return deltas, m.done, m.err
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
	return parley.Errorf(parley.Cancelled, "the caller left before the answer was complete")
}
