package gateway

import (
	"context"
	"errors"
	"maps"

	"parley"
	"parley/gateway/convo"
)

// A debt tells the store how something ended that it could not hear of at
// once. It is paid as soon as the store can be reached, and what it is about
// stays claimed until then: an answer that was written is never written again
// because the store was away, and none stays in progress while nobody writes.
type debt func(context.Context) error

// debtsMax bounds what is remembered. Beyond it outcomes are lost, and taken for
// abandoned.
const debtsMax = 10_000

// settle runs f, which stores how id ended, and has it run again later if the
// store cannot be reached now.
func (k *keeper) settle(ctx context.Context, id string, f debt) error {
	err := persist(ctx, f)
	if late(err) {
		k.owe(id, f)
	}
	return err
}

// late reports whether nobody knows if the store has heard.
func late(err error) bool {
	return unreached(err) || parley.CodeOf(err) == parley.DeadlineExceeded
}

func (k *keeper) owe(id string, f debt) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.debts) < debtsMax {
		k.debts[id] = f
	}
}

// pay tells the store what it has not heard, until it cannot be reached.
func (k *keeper) pay(ctx context.Context) error {
	k.mu.Lock()
	due := maps.Clone(k.debts)
	k.mu.Unlock()
	var failed error
	for id, f := range due {
		err := f(ctx)
		if late(err) || ctx.Err() != nil {
			return errors.Join(failed, err)
		}
		if !settled(err) {
			failed = errors.Join(failed, err)
		}
		k.paid(id)
	}
	return failed
}

// settled reports whether the store has an end of it: this one, or another.
func settled(err error) bool {
	return err == nil || errors.Is(err, convo.ErrTaken) || errors.Is(err, convo.ErrNotFound)
}

func (k *keeper) paid(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.debts, id)
	k.drop(id)
}
