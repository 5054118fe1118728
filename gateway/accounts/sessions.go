package accounts

import (
	"context"
	"strings"
	"time"

	"parley/gateway/db"
)

// cookiePrefix begins the cookies of accounts, so that they are told from those of keys.
const cookiePrefix = "ps-"

// IsCookie reports whether a cookie is that of an account's session.
func IsCookie(cookie string) bool { return strings.HasPrefix(cookie, cookiePrefix) }

// CookieDigest is what is stored of a session's cookie.
func CookieDigest(cookie string) Digest { return digestOf("account session", cookie) }

const sessionColumns = `s.id, s.account, s.scope, s.agent, s.method, s.created, s.seen, s.expires`

func scanSession(r db.Row, s *Session) error {
	var created, seen, expires int64
	err := r.Scan(&s.ID, &s.User, &s.Scope, &s.Agent, &s.Method, &created, &seen, &expires)
	s.Created, s.Seen, s.Expires = db.Unstamp(created), db.Unstamp(seen), db.Unstamp(expires)
	return err
}

// FindSession returns the session of a cookie, as a transaction sees it.
func FindSession(t *db.Tx, cookie Digest) (Session, error) {
	return db.Only(t, scanSession, `SELECT `+sessionColumns+` FROM account_sessions s WHERE s.digest = $1`, cookie[:])
}

// OpenSession opens a session of s.User for s.Agent until s.Expires and returns its
// cookie, which is stored nowhere. A user whom this makes exceed the number of sessions
// loses the oldest.
func (s *Store) OpenSession(ctx context.Context, n Session, now time.Time) (cookie string, err error) {
	cookie = newSecret(cookiePrefix)
	d := CookieDigest(cookie)
	return cookie, found(s.db.Write(ctx, func(t *db.Tx) error {
		if _, err := t.Exec(`DELETE FROM account_sessions WHERE expires <= $1`, db.Stamp(now)); err != nil {
			return err
		}
		if _, err := t.Exec(`DELETE FROM account_sessions WHERE digest IN (SELECT digest FROM account_sessions
			WHERE account = $1 ORDER BY created DESC LIMIT 1000 OFFSET $2)`, n.User, sessionsMax-1); err != nil {
			return err
		}
		if err := one(t, `UPDATE accounts SET signed_in = $2 WHERE id = $1 AND disabled = 0`, n.User,
			db.Stamp(now)); err != nil {
			return err
		}
		_, err := t.Exec(`INSERT INTO account_sessions (digest, id, account, scope, agent, method, created, seen, expires)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8)`, d[:], newID("sess_"), n.User, n.Scope, agentText(n.Agent),
			n.Method, db.Stamp(now), db.Stamp(n.Expires))
		return err
	}))
}

// Sessions lists the sessions of an account that have not expired, last seen first.
func (s *Store) Sessions(ctx context.Context, user string, now time.Time) (list []Session, err error) {
	return list, s.db.Read(ctx, func(t *db.Tx) error {
		list, err = db.All(t, scanSession, `SELECT `+sessionColumns+` FROM account_sessions s
			WHERE s.account = $1 AND s.expires > $2 ORDER BY s.seen DESC, s.id`, user, db.Stamp(now))
		return err
	})
}

// SessionOf returns the session of a cookie.
func (s *Store) SessionOf(ctx context.Context, cookie string) (one Session, err error) {
	return one, found(s.db.Read(ctx, func(t *db.Tx) error {
		one, err = FindSession(t, CookieDigest(cookie))
		return err
	}))
}

// CloseCookie ends the session of a cookie, on every gateway of the store.
func (s *Store) CloseCookie(ctx context.Context, cookie string) error {
	d := CookieDigest(cookie)
	return s.change(ctx, func(t *db.Tx) error {
		_, err := t.Exec(`DELETE FROM account_sessions WHERE digest = $1`, d[:])
		return err
	})
}

// CloseSession ends one session of an account by its id.
func (s *Store) CloseSession(ctx context.Context, user, id string) error {
	return s.change(ctx, func(t *db.Tx) error {
		return one(t, `DELETE FROM account_sessions WHERE account = $1 AND id = $2`, user, id)
	})
}

// CloseSessions ends all sessions of an account but for that of the cookie keep, which
// may be empty.
func (s *Store) CloseSessions(ctx context.Context, user, keep string) error {
	return s.change(ctx, func(t *db.Tx) error { return closeOthers(t, user, keep) })
}

func closeOthers(t *db.Tx, user, keep string) error {
	d := CookieDigest(keep)
	_, err := t.Exec(`DELETE FROM account_sessions WHERE account = $1 AND digest <> $2`, user, d[:])
	return err
}

// Seen notes when sessions were last used. A later time that is stored stays.
func (s *Store) Seen(ctx context.Context, seen map[Digest]time.Time) error {
	return s.db.Write(ctx, func(t *db.Tx) error {
		for d, at := range seen {
			if _, err := t.Exec(`UPDATE account_sessions SET seen = $2 WHERE digest = $1 AND seen < $2`, d[:],
				db.Stamp(at)); err != nil {
				return err
			}
		}
		return nil
	})
}
