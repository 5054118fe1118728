package convo

import (
	"context"
	"errors"
	"fmt"

	"parley"
)

// What a caller may want to tell apart. All are returned as they are, so
// errors.Is finds them.
var (
	// ErrNotFound: there is nothing of that id, or it is not the owner's.
	ErrNotFound = parley.Errorf(parley.NotFound, "There is no such conversation, message or response, or it is not yours.")
	// ErrRunning: what was to be continued is still being written.
	ErrRunning = parley.Errorf(parley.Conflict, "An answer is still being written here: wait until it is complete, or stop it first.")
	// ErrKeyReused: the key came before with another question.
	ErrKeyReused = parley.Errorf(parley.Conflict, "This idempotency key was used before for another request: use a new key.")
	// ErrTaken: the answer or response belongs to another process now, or has
	// ended in another way.
	ErrTaken = parley.Errorf(parley.Unavailable, "This answer was taken over or ended elsewhere.")
	// ErrFull: the conversation or response holds as much as it may.
	ErrFull = parley.Errorf(parley.InvalidRequest, "This conversation or response is full: go on in a new one.")
	// ErrNotAlive: the process that should do the work has not said that it is
	// alive, so its work would be taken for abandoned.
	ErrNotAlive = parley.Errorf(parley.Unavailable, "This server could not renew its registration with the conversation store: try again.")
)

// An uncertain is the failure of a commit: the work may be stored or not.
type uncertain struct{ error }

// Unwrap returns the cause.
func (u uncertain) Unwrap() error { return u.error }

// explain turns a failure of the database into one that a caller can
// understand. An error that is one already stays as it is.
func (d *database) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*parley.Error](err); ok {
		return err
	}
	_, unsure := errors.AsType[uncertain](err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return wrap(parley.Errorf(parley.Cancelled, "The call was cancelled before the conversation store was done."), err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return wrap(parley.Errorf(parley.DeadlineExceeded, "The conversation store did not answer in time."), err)
	case unsure:
		return wrap(parley.Errorf(parley.Unavailable, "The conversation store went away while it was storing this: try again with the same idempotency key, and it will be stored once."), err)
	case d.unavailable(err):
		return wrap(parley.Errorf(parley.Unavailable, "The conversation store cannot be reached now: nothing was stored; try again."), err)
	}
	return fmt.Errorf("conversation store: %w", err)
}

// wrap lets a caller see what is said and a log see the cause, too.
func wrap(said *parley.Error, cause error) error { return fmt.Errorf("%w (%w)", said, cause) }
