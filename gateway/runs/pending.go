package runs

import (
	"context"
	"errors"
	"time"

	"parley"
	"parley/gateway/convo"
)

const (
	// StoreWait is how long a request waits for the store.
	StoreWait = 10 * time.Second
	// RetryEvery is how long a store that cannot be reached is left alone.
	RetryEvery = 250 * time.Millisecond
)

// Persist runs write, which must arrive whether the client of ctx is still there or
// not, until the store can be reached or StoreWait is over.
func Persist(ctx context.Context, write Write) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StoreWait)
	defer cancel()
	var away error
	for {
		err := write(ctx)
		if away != nil && parley.CodeOf(err) == parley.DeadlineExceeded {
			return away // says more than that the time is over
		}
		if !unreached(err) {
			return err
		}
		away = err
		select {
		case <-ctx.Done():
			return err
		case <-time.After(RetryEvery):
		}
	}
}

// unreached reports whether err says that the store could not be reached.
func unreached(err error) bool {
	return parley.CodeOf(err) == parley.Unavailable && !errors.Is(err, convo.ErrTaken) && !errors.Is(err,
		convo.ErrNotAlive)
}

// Unsure reports whether a write may or may not have reached the store.
func Unsure(err error) bool {
	return unreached(err) || parley.CodeOf(err) == parley.DeadlineExceeded
}

// Settled reports whether the store has an end of a run: this one, or another.
func Settled(err error) bool {
	return err == nil || errors.Is(err, convo.ErrTaken) || errors.Is(err, convo.ErrNotFound)
}

// Settle stores how a run ended, and does so later if the store cannot be reached now.
func (r *registry) Settle(ctx context.Context, id string, outcome Write) error {
	err := Persist(ctx, outcome)
	if Unsure(err) {
		r.Enqueue(id, outcome)
	}
	return err
}

// flush stores the outcomes that are due, until the store cannot be reached.
func (r *registry) flush(ctx context.Context) error {
	var failed error
	for id, outcome := range r.outcomes() {
		err := outcome(ctx)
		if Unsure(err) || ctx.Err() != nil {
			return errors.Join(failed, err)
		}
		if !Settled(err) {
			failed = errors.Join(failed, err)
		}
		r.stored(id)
	}
	return failed
}
