package accounts

import (
	"context"
	"errors"
	"time"

	"parley"
	"parley/gateway/db"
)

// A Passkey signs in to an account without a password.
type Passkey struct {
	// ID names it in lists. Credential is what the browser calls it.
	ID         string
	Credential []byte
	// User is the account's id.
	User string
	Name string
	// Site is the domain that it was made for, and with which alone it can be used.
	Site string
	// PublicKey is what its signatures are checked with, in the form of PKIX.
	PublicKey []byte
	// Signatures is how many it has made, by its own count; 0 if it does not count.
	Signatures uint32
	// Used is when it was last signed in with; zero is never.
	Created, Used time.Time
}

// passkeysMax is how many passkeys one account may have.
const passkeysMax = 32

// ErrPasskey is one error for all reasons for which a passkey is refused.
var ErrPasskey = parley.Errorf(parley.Unauthenticated, "This passkey is not accepted here. Sign in another way.")

const passkeyColumns = `p.id, p.credential, p.account, p.name, p.site, p.public_key, p.signatures, p.created, p.used`

func scanPasskey(r db.Row, p *Passkey) error {
	var signatures, created, used int64
	err := r.Scan(&p.ID, &p.Credential, &p.User, &p.Name, &p.Site, &p.PublicKey, &signatures, &created, &used)
	p.Signatures, p.Created, p.Used = uint32(signatures), db.Unstamp(created), db.Unstamp(used)
	return err
}

// AddPasskey gives an account a passkey, and returns it with its id.
func (s *Store) AddPasskey(ctx context.Context, p Passkey, now time.Time) (Passkey, error) {
	var err error
	if p.Name, err = checkName(p.Name); err != nil {
		return p, err
	}
	p.ID, p.Created = newID("pass_"), now.UTC().Truncate(time.Microsecond)
	return p, s.change(ctx, func(t *db.Tx) error {
		if _, err := FindUser(t, p.User); err != nil {
			return err
		}
		var n int
		if err := t.One(`SELECT count(*) FROM passkeys WHERE account = $1`, []any{p.User}, &n); err != nil {
			return err
		}
		if n >= passkeysMax {
			return parley.Errorf(parley.Conflict, "You have %d passkeys: remove one first.", n)
		}
		count, err := t.Exec(`INSERT INTO passkeys (id, credential, account, name, site, public_key, signatures, created,
			used) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0) ON CONFLICT DO NOTHING`, p.ID, p.Credential, p.User, p.Name,
			p.Site, p.PublicKey, int64(p.Signatures), db.Stamp(p.Created))
		if err == nil && count == 0 {
			err = parley.Errorf(parley.Conflict, "This passkey is registered already.")
		}
		return err
	})
}

// PasskeysOf lists the passkeys of an account, oldest first.
func (s *Store) PasskeysOf(ctx context.Context, user string) (list []Passkey, err error) {
	return list, s.db.Read(ctx, func(t *db.Tx) error {
		list, err = db.All(t, scanPasskey, `SELECT `+passkeyColumns+` FROM passkeys p
			WHERE p.account = $1 ORDER BY p.created, p.id`, user)
		return err
	})
}

// PasskeyOf returns the passkey that a browser names, or [ErrPasskey].
func (s *Store) PasskeyOf(ctx context.Context, credential []byte) (p Passkey, err error) {
	err = s.db.Read(ctx, func(t *db.Tx) error {
		p, err = db.Only(t, scanPasskey, `SELECT `+passkeyColumns+` FROM passkeys p WHERE p.credential = $1`, credential)
		return err
	})
	if errors.Is(err, db.ErrNoRow) {
		err = ErrPasskey
	}
	return p, err
}

// UsePasskey notes that a passkey has made a signature which was found right, and returns
// its account. A count that did not grow is that of a copy, and is refused.
func (s *Store) UsePasskey(ctx context.Context, id string, signatures uint32, now time.Time) (u User, err error) {
	err = s.db.Write(ctx, func(t *db.Tx) error {
		p, err := db.Only(t, scanPasskey, `SELECT `+passkeyColumns+` FROM passkeys p WHERE p.id = $1`+t.LockRow(), id)
		if err != nil {
			return err
		}
		if (signatures != 0 || p.Signatures != 0) && signatures <= p.Signatures {
			return ErrPasskey
		}
		if u, err = FindUser(t, p.User); err != nil {
			return err
		}
		if u.Disabled {
			return ErrPasskey
		}
		_, err = t.Exec(`UPDATE passkeys SET signatures = $2, used = $3 WHERE id = $1`, id, int64(signatures),
			db.Stamp(now))
		return err
	})
	if errors.Is(err, db.ErrNoRow) {
		err = ErrPasskey
	}
	return u, err
}

// RenamePasskey names a passkey of an account.
func (s *Store) RenamePasskey(ctx context.Context, user, id, name string) error {
	name, err := checkName(name)
	if err != nil {
		return err
	}
	return found(s.db.Write(ctx, func(t *db.Tx) error {
		return one(t, `UPDATE passkeys SET name = $3 WHERE account = $1 AND id = $2`, user, id, name)
	}))
}

// RemovePasskey takes a passkey from an account, which keeps another way to sign in.
func (s *Store) RemovePasskey(ctx context.Context, user, id string) error {
	return s.change(ctx, func(t *db.Tx) error {
		if err := one(t, `DELETE FROM passkeys WHERE account = $1 AND id = $2`, user, id); err != nil {
			return err
		}
		return keepsSignIn(t, user)
	})
}
