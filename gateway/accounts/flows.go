package accounts

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"parley"
	"parley/gateway/db"
)

// FlowMax is how long a sign-in that a browser has begun may take.
const FlowMax = 10 * time.Minute

// flowsMax bounds how many may be under way: an unknown visitor can begin them.
const flowsMax = 10_000

// ErrFlow says that a sign-in was not begun here, ended already, or took too long.
var ErrFlow = parley.Errorf(parley.Unauthenticated, "This sign-in has expired or was completed already. Sign in again.")

var errFlows = &parley.Error{
	Code:    parley.RateLimited,
	Message: "Too many sign-ins are under way. Try again in a minute.",
	Wait:    time.Minute,
}

// BeginFlow keeps what must be known when a sign-in ends, and returns the random state
// under which it is found, once, on every gateway of the store. Purposes are apart.
func (s *Store) BeginFlow(ctx context.Context, purpose string, document []byte,
	now time.Time) (state string, err error) {
	state = newSecret("")
	d := flowDigest(purpose, state)
	return state, s.db.Write(ctx, func(t *db.Tx) error {
		if _, err := t.Exec(`DELETE FROM sign_in_flows WHERE expires <= $1`, db.Stamp(now)); err != nil {
			return err
		}
		var under int
		if err := t.One(`SELECT count(*) FROM sign_in_flows`, nil, &under); err != nil {
			return err
		}
		if under >= flowsMax {
			return errFlows
		}
		_, err := t.Exec(`INSERT INTO sign_in_flows (digest, document, expires) VALUES ($1, $2, $3)`, d[:], document,
			db.Stamp(now.Add(FlowMax)))
		return err
	})
}

// EndFlow returns what was kept under a state and forgets it, or returns [ErrFlow].
func (s *Store) EndFlow(ctx context.Context, purpose, state string, now time.Time) (document []byte, err error) {
	d := flowDigest(purpose, state)
	err = s.db.Write(ctx, func(t *db.Tx) error {
		err := t.One(`SELECT document FROM sign_in_flows WHERE digest = $1 AND expires > $2`,
			[]any{d[:], db.Stamp(now)}, &document)
		if err != nil {
			return err
		}
		return one(t, `DELETE FROM sign_in_flows WHERE digest = $1`, d[:]) // no row: another request was faster
	})
	if errors.Is(err, db.ErrNoRow) {
		err = ErrFlow
	}
	if err != nil {
		return nil, err
	}
	return document, nil
}

func flowDigest(purpose, state string) Digest { return digestOf("flow "+purpose, state) }

// TakeAttempt counts an attempt to sign in under a name, of which there may be burst at
// once and then one in each interval, by all gateways of the store together. It returns
// after how long there may be another; 0 has counted this one.
func (s *Store) TakeAttempt(ctx context.Context, name string, burst int, interval time.Duration,
	now time.Time) (wait time.Duration, err error) {
	d := digestOf("attempts", name)
	return wait, s.db.Write(ctx, func(t *db.Tx) error {
		if err := t.Serialize("parley attempts " + hex.EncodeToString(d[:8])); err != nil {
			return err
		}
		free, err := attemptsOf(t, d)
		if err != nil {
			return err
		}
		if free.Before(now) {
			free = now
		}
		if wait = free.Sub(now) - time.Duration(burst-1)*interval; wait > 0 {
			return nil
		}
		wait = 0
		if _, err := t.Exec(`DELETE FROM sign_in_attempts WHERE free <= $1 AND name <> $2`, db.Stamp(now),
			d[:]); err != nil {
			return err
		}
		_, err = t.Exec(`INSERT INTO sign_in_attempts (name, free) VALUES ($1, $2)
			ON CONFLICT (name) DO UPDATE SET free = excluded.free`, d[:], db.Stamp(free.Add(interval)))
		return err
	})
}

func attemptsOf(t *db.Tx, name Digest) (free time.Time, err error) {
	var stamp int64
	err = t.One(`SELECT free FROM sign_in_attempts WHERE name = $1`, []any{name[:]}, &stamp)
	if errors.Is(err, db.ErrNoRow) {
		return free, nil
	}
	return db.Unstamp(stamp), err
}

// ReturnAttempt takes an attempt back that was right.
func (s *Store) ReturnAttempt(ctx context.Context, name string, interval time.Duration) error {
	d := digestOf("attempts", name)
	return s.db.Write(ctx, func(t *db.Tx) error {
		_, err := t.Exec(`UPDATE sign_in_attempts SET free = free - $2 WHERE name = $1`, d[:], interval.Microseconds())
		return err
	})
}
