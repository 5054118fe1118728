package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley"
	"parley/engine/grammar"
	"parley/engine/sample"
	"parley/engine/sched"
	"parley/engine/spec"
)

// A job is one request inside the engine. Only the loop touches it, but for
// its mailbox.
type job struct {
	req     *parley.Request
	mail    *mailbox
	choices []*choice
	program *grammar.Program // nil without a grammar
	open    int              // choices that are not complete

	promptLogprobs []parley.Logprob
	embedding      []float64 // the sum of the hidden states so far
	output         int       // tokens chosen, over all choices
	dropped        int       // tokens forgotten, over all choices

	arrived, started, first time.Time
	begun                   bool // the prompt was computed, and the choices decode
	done                    bool
}

// A choice is one continuation of a job's prompt.
type choice struct {
	job     *job
	index   int
	seq     sched.Seq
	sampler *sample.Sampler
	stopper *sample.Stopper
	matcher *grammar.Matcher // nil without a grammar
	finish  []parley.Token   // what completes the text in the tokens that are left
	wrote   time.Time        // the last token
	chosen  int              // tokens
	output  int              // of the step that was launched last

	lookup *spec.Lookup   // nil without speculation
	guess  []parley.Token // what the next pass checks
	forced []parley.Token // what the grammar leaves no choice about
	by     spec.Drafter   // who guesses
	turn   draftSeq       // with the draft network
	luck   spec.Luck      // with its guesses
	idle   int            // passes without any
}

// pause pauses the job's choices, or resumes them.
func (j *job) pause(held bool) {
	for _, c := range j.choices {
		c.seq.Paused = held
	}
}

// usage counts what the job cost.
func (j *job) usage(now time.Time) *parley.Usage {
	u := &parley.Usage{
		PromptTokens:  len(j.req.Prompt),
		OutputTokens:  j.output,
		DroppedTokens: j.dropped,
		CachedTokens:  j.choices[0].seq.Cached.HitTokens,
		Miss:          j.choices[0].seq.Cached.Miss.String(),
		Queued:        j.started.Sub(j.arrived),
		Prefill:       j.first.Sub(j.started),
		Decode:        now.Sub(j.first),
		SeatWait:      j.choices[0].seq.Waits[sched.ForSeat],
		MemoryWait:    j.choices[0].seq.Waits[sched.ForMemory],
	}
	for _, c := range j.choices {
		u.Preemptions += c.seq.Preempted
		u.Preempted = max(u.Preempted, c.seq.Away)
	}
	return u
}

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
