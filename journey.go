package parley

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A Journey is the way of a call behind the gateway, kept to be told to people: a
// leg for each worker that was given a request of it, in the order in which they
// were. It is safe for concurrent use; nil keeps nothing.
type Journey struct {
	// Traced legs are places of their own in the trace of the call.
	Traced bool

	mu   sync.Mutex
	legs []Leg
	more int
}

// A Leg is the part of a journey with one worker.
type Leg struct {
	// Worker is a name for people, Pool the one it stands in, Kind what it is. Reason
	// says why it was chosen.
	Worker, Pool, Kind, Reason string
	// Span is the leg's place in the trace, if the call belongs to one.
	Span [8]byte
	// Terms is when a worker was looked for, Sent when this one was given the
	// request, First when its first token came and Ended when it was done with. What
	// did not happen is zero.
	Terms, Sent, First, Ended time.Time
	// Tokens is how many came.
	Tokens int
	// End is how it ended: done, told, refused, failed, lost, moved, withdrawn, outrun or
	// left; empty if it has not. Why is the error that ended it, if one did.
	End, Why string
	// Stay is what the worker measured itself, nil if it did not tell; Usage what
	// its answer cost, nil if it did not come to that.
	Stay  *Stay
	Usage *Usage
}

// A Stay is what a worker in another process measured of a request, by its own
// clock and from the moment when it had come in. It is told twice: as far as it is
// known with the first token, in case the rest never comes, and whole at the end.
type Stay struct {
	// Admitted is when it was read and let in, First when the first token and Whole
	// when the end was given to the wire; 0 if that has not come.
	Admitted time.Duration `json:",omitzero"`
	First    time.Duration `json:",omitzero"`
	Whole    time.Duration `json:",omitzero"`
	// Paused is how long tokens lay ready because those before were not taken.
	Paused time.Duration `json:",omitzero"`
	// Traced stays are in the trace by the worker's own doing.
	Traced bool `json:",omitzero"`
}

// legsMax bounds what is kept of one call, which may have thousands of prompts.
const legsMax = 32

// Begin adds a leg and returns its number.
func (j *Journey) Begin(l Leg) int {
	if j == nil {
		return -1
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.legs) == legsMax {
		j.more++
		return -1
	}
	j.legs = append(j.legs, l)
	return len(j.legs) - 1
}

// Note replaces what is known of a leg that was begun.
func (j *Journey) Note(n int, l Leg) {
	if j == nil || n < 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.legs[n] = l
}

// Legs returns the legs so far, and how many more there were than are kept.
func (j *Journey) Legs() (legs []Leg, more int) {
	if j == nil {
		return nil, 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.legs), j.more
}

type journeyKey struct{}

// WithJourney returns a context in which what is asked of workers is noted.
func WithJourney(ctx context.Context, j *Journey) context.Context {
	return context.WithValue(ctx, journeyKey{}, j)
}

// JourneyOf returns the journey of a context, nil if it has none.
func JourneyOf(ctx context.Context) *Journey {
	j, _ := ctx.Value(journeyKey{}).(*Journey)
	return j
}
