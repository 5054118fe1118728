package db

import (
	"context"
	"errors"
	"fmt"

	"parley"
)

// An unknownOutcome is the failure of a commit: the work may be stored or not.
type unknownOutcome struct{ error }

// Unwrap returns the cause.
func (u unknownOutcome) Unwrap() error { return u.error }

var errFull = parley.Errorf(parley.Unavailable, "The disk of the server's store is full: nothing was stored. "+
	"Deleting still works; the operator must free space on that disk.")

// IsFull reports whether something was not stored because the disk is full.
func IsFull(err error) bool { return errors.Is(err, errFull) }

// explain turns a failure of the database into one that a caller can
// understand. An error that is one already stays as it is.
func (d *DB) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*parley.Error](err); ok {
		return err
	}
	_, unsure := errors.AsType[unknownOutcome](err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return wrap(parley.Errorf(parley.Cancelled, "The call was cancelled before the store was done."), err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return wrap(parley.Errorf(parley.DeadlineExceeded, "The store did not answer in time."), err)
	case d.dialect.full(err):
		return wrap(errFull, err)
	case unsure:
		return wrap(parley.Errorf(parley.Unavailable,
			"The store became unreachable while storing this: try again with the same idempotency key, and it will "+
				"be stored once."), err)
	case d.unavailable(err):
		return wrap(
			parley.Errorf(parley.Unavailable, "The store cannot be reached now: nothing was stored; try again."), err)
	}
	return fmt.Errorf("store: %w", err)
}

// wrap lets a caller see what is said and a log see the cause, too.
func wrap(said *parley.Error, cause error) error { return fmt.Errorf("%w (%w)", said, cause) }
