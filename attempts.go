package parley

import (
	"context"
	"slices"
	"sync"
	"time"
)

// An AttemptLog is what became of a request behind the gateway: an attempt for each
// worker that it was given to, in their order. It is safe for concurrent use; nil keeps
// nothing.
type AttemptLog struct {
	// Traced attempts are places of their own in the trace of the call.
	Traced bool

	mu       sync.Mutex
	attempts []Attempt
	more     int
}

// An Attempt is one try to have a worker answer a request.
type Attempt struct {
	// Worker is a name for people, Pool the one it stands in, Kind what it is. Reason
	// says why it was chosen.
	Worker, Pool, Kind, Reason string
	// Span is the attempt's place in the trace, if the call belongs to one.
	Span [8]byte
	// Terms is when a worker was looked for, Sent when this one was given the
	// request, First when its first token came and Ended when it was done with. What
	// did not happen is zero.
	Terms, Sent, First, Ended time.Time
	// Tokens is the number of tokens received.
	Tokens int
	// End is how it ended: done, told, refused, failed, lost, moved, withdrawn, outrun or
	// left; empty if it has not. Why is the error that ended it, if one did.
	End, Why string
	// Transfer is the outcome of fetching blocks from another worker, nil if none were
	// fetched.
	Transfer *Transfer
	// Timings are the worker's own measurements, nil if it reports none. Usage is nil if the
	// attempt did not complete.
	Timings *WorkerTimings
	Usage   *Usage
}

// WorkerTimings are the measurements of a request by a remote worker, by its own clock and
// from the arrival of the request there. They are sent twice: with the first token as far as
// they are known, in case the connection is lost, and complete at the end.
type WorkerTimings struct {
	// Admitted is when the request was read and admitted, First when the first token was
	// written to the connection, and Whole when the end was; 0 if that has not happened.
	Admitted time.Duration `json:",omitzero"`
	First    time.Duration `json:",omitzero"`
	Whole    time.Duration `json:",omitzero"`
	// Paused is how long tokens were ready while the gateway had not read the ones before.
	Paused time.Duration `json:",omitzero"`
	// Traced is set if the worker itself exports its spans.
	Traced bool `json:",omitzero"`
}

// attemptsMax bounds what is kept of one call, which may have thousands of prompts.
const attemptsMax = 32

// Begin adds an attempt and returns its number.
func (j *AttemptLog) Begin(l Attempt) int {
	if j == nil {
		return -1
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.attempts) == attemptsMax {
		j.more++
		return -1
	}
	j.attempts = append(j.attempts, l)
	return len(j.attempts) - 1
}

// Note replaces what is known of an attempt that was begun.
func (j *AttemptLog) Note(n int, l Attempt) {
	if j == nil || n < 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.attempts[n] = l
}

// Attempts returns the attempts so far, and how many more there were than are kept.
func (j *AttemptLog) Attempts() (attempts []Attempt, more int) {
	if j == nil {
		return nil, 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.attempts), j.more
}

type attemptLogKey struct{}

// WithAttemptLog returns a context in which what is asked of workers is noted.
func WithAttemptLog(ctx context.Context, j *AttemptLog) context.Context {
	return context.WithValue(ctx, attemptLogKey{}, j)
}

// AttemptLogOf returns the log of attempts of a context, nil if it has none.
func AttemptLogOf(ctx context.Context) *AttemptLog {
	j, _ := ctx.Value(attemptLogKey{}).(*AttemptLog)
	return j
}
