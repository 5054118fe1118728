package tenant

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"parley"
	"parley/gateway/accounts"
	"parley/gateway/db"
)

// The kinds of principals that sessions stand for.
const (
	kindKey   = "key"
	kindLocal = "local"
)

// sessionsMax is how many sessions one principal may have in one scope; the oldest
// ends when another is opened.
const sessionsMax = 32

// A session is what the store has of a browser that is signed in.
type session struct {
	kind, subject string
	secret        digest // of what was signed in with
	scope         Scope
	expires       time.Time
}

var errNoSession = parley.Errorf(parley.Unauthenticated, "Your session has ended. Sign in again.")

// sessionDigest is what is stored of a session's cookie. No API key has the digest of
// a session.
func sessionDigest(cookie string) digest { return digestOf("session\x00" + cookie) }

// OpenSession opens a session for a secret that [Keyring.Identify] has accepted, and
// returns the value of its cookie, which is stored nowhere, and when it ends.
func (s *Store) OpenSession(ctx context.Context, secret string, scope Scope,
	now time.Time) (cookie string, expires time.Time, err error) {
	prefix, ok := prefixOf(secret)
	if !ok {
		return "", expires, errUnknown
	}
	return s.open(ctx, &session{kind: kindKey, subject: prefix, secret: digestOf(secret), scope: scope}, now)
}

// OpenLocalSession opens a session for the person who runs a server without keys. It
// ends when the first key is made.
func (s *Store) OpenLocalSession(ctx context.Context, scope Scope,
	now time.Time) (cookie string, expires time.Time, err error) {
	return s.open(ctx, &session{kind: kindLocal, scope: scope}, now)
}

func (s *Store) open(ctx context.Context, n *session, now time.Time) (cookie string, expires time.Time, err error) {
	cookie, expires = randomLetters(hiddenLetters), now.Add(n.scope.SessionMax())
	d := sessionDigest(cookie)
	return cookie, expires, s.db.Write(ctx, func(t *db.Tx) error {
		if _, err := t.Exec(`DELETE FROM sessions WHERE expires <= $1`, db.Stamp(now)); err != nil {
			return err
		}
		if _, err := t.Exec(`DELETE FROM sessions WHERE digest IN (SELECT digest FROM sessions
			WHERE kind = $1 AND subject = $2 AND scope = $3 ORDER BY created DESC LIMIT 1000 OFFSET $4)`,
			n.kind, n.subject, string(n.scope), sessionsMax-1); err != nil {
			return err
		}
		_, err := t.Exec(
			`INSERT INTO sessions (digest, kind, subject, secret, scope, created, expires) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			d[:], n.kind, n.subject, n.secret[:], string(n.scope), db.Stamp(now), db.Stamp(expires))
		return err
	})
}

// CloseSession ends a session, on every gateway of the store.
func (s *Store) CloseSession(ctx context.Context, cookie string) error {
	d := sessionDigest(cookie)
	return s.change(ctx, func(t *db.Tx) error {
		_, err := t.Exec(`DELETE FROM sessions WHERE digest = $1`, d[:])
		return err
	})
}

func scanSession(r db.Row, s *session) error {
	var secret []byte
	var scope string
	var expires int64
	err := r.Scan(&s.kind, &s.subject, &secret, &scope, &expires)
	copy(s.secret[:], secret)
	s.scope, s.expires = Scope(scope), db.Unstamp(expires)
	return err
}

// findSession returns a session and the record of its key, and the generation that
// they were read in.
func (s *Store) findSession(ctx context.Context, d digest) (one session, r record, generation int64, err error) {
	return one, r, generation, found(s.db.Read(ctx, func(t *db.Tx) error {
		if generation, err = readGeneration(t); err != nil {
			return err
		}
		one, err = db.Only(t, scanSession,
			`SELECT kind, subject, secret, scope, expires FROM sessions WHERE digest = $1`, d[:])
		if err != nil || one.kind != kindKey {
			return err
		}
		r, err = findRecord(t, one.subject)
		return err
	}))
}

// IdentifySession returns the identity of a session cookie, or why it is rejected. A session
// ends with the key, or the secret, that it was opened with.
func (k *Keyring) IdentifySession(ctx context.Context, cookie string, scope Scope) (*Identity, error) {
	now, d := k.now(), sessionDigest(cookie)
	ask := func(ctx context.Context) (keyLookup, error) { return k.askSession(ctx, d, now) }
	if accounts.IsCookie(cookie) {
		d = digest(accounts.CookieDigest(cookie))
		ask = func(ctx context.Context) (keyLookup, error) { return k.askAccount(ctx, d, now) }
	}
	v, ok := k.recall(d, now)
	if !ok {
		var err error
		if v, err = k.asked.Find(ctx, string(d[:]), ask); err == nil && !k.isCurrent(&v) {
			v, err = k.asked.Find(ctx, string(d[:]), ask)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case v.refused == errUnknown, v.scope != scope, v.local && !k.Empty(), !now.Before(v.expires):
		return nil, errNoSession
	case v.refused != nil:
		return nil, v.refused
	}
	return new(v.identity.within(scope)), nil
}

// askSession has the store decide about a session, and remembers that.
func (k *Keyring) askSession(ctx context.Context, d digest, now time.Time) (keyLookup, error) {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	one, r, generation, err := k.store.findSession(ctx, d)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return keyLookup{}, err
	}
	v := keyLookup{digest: d, expires: one.expires, scope: one.scope, generation: generation}
	switch {
	case err != nil:
		v.refused = errUnknown
	case one.kind == kindLocal:
		v.local, v.identity = true, Local()
	case subtle.ConstantTimeCompare(r.digest[:], one.secret[:]) != 1:
		v.refused = errUnknown
	case r.blocked():
		v.refused = errBlocked
	default:
		v.identity = new(k.tiers.ofRecord(&r))
		if !r.key.Expires.IsZero() && r.key.Expires.Before(v.expires) {
			v.expires = r.key.Expires
		}
	}
	k.keep(&v, now)
	return v, nil
}
