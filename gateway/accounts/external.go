package accounts

import (
	"cmp"
	"context"
	"errors"
	"time"

	"parley"
	"parley/gateway/db"
)

// SignInExternal returns the account of an identity that an issuer has vouched for, with
// what its groups give it by now; what is empty in g stays as it is. An unknown identity
// gets the account of its email address if the issuer has verified that, or else a new
// one, in the organisation home if g names none.
func (s *Store) SignInExternal(ctx context.Context, e ExternalIdentity, g Grant, home string,
	now time.Time) (u User, err error) {
	if e.Issuer == "" || e.Subject == "" {
		return u, parley.Errorf(parley.Forbidden, "The issuer did not say who signed in.")
	}
	return u, s.change(ctx, func(t *db.Tx) error {
		if err := t.Serialize("parley external " + e.Issuer + " " + e.Subject); err != nil {
			return err
		}
		var id string
		err := t.One(`SELECT account FROM external_identities WHERE issuer = $1 AND subject = $2`,
			[]any{e.Issuer, e.Subject}, &id)
		switch {
		case err == nil:
			u, err = regrant(t, id, g)
		case errors.Is(err, db.ErrNoRow):
			u, err = link(t, &e, g, home, now)
		}
		if err == nil && u.Disabled {
			err = errDisabled
		}
		return err
	})
}

var errDisabled = parley.Errorf(parley.Forbidden, "This account is disabled. Ask an administrator of this server.")

// link gives an identity that is seen for the first time its account.
func link(t *db.Tx, e *ExternalIdentity, g Grant, home string, now time.Time) (u User, err error) {
	fresh := NewUser{Email: e.Email, Name: e.Name, Grant: g}
	fresh.Organization = cmp.Or(fresh.Organization, home)
	if err := fresh.check(); err != nil {
		return u, err
	}
	switch before, err := findEmail(t, fresh.Email); {
	case err == nil && !e.EmailVerified:
		return u, parley.Errorf(parley.Forbidden, "An account with the address %s exists, and the issuer has not "+
			"verified that the address is yours. Sign in with your password.", fresh.Email)
	case err == nil:
		if u, err = regrant(t, before.ID, g); err != nil {
			return u, err
		}
	case !errors.Is(err, db.ErrNoRow):
		return u, err
	default:
		if u, err = insert(t, &fresh, "", now); err != nil {
			return u, err
		}
	}
	_, err = t.Exec(`INSERT INTO external_identities (issuer, subject, account, created) VALUES ($1, $2, $3, $4)`,
		e.Issuer, e.Subject, u.ID, db.Stamp(now))
	return u, err
}

// regrant gives an account what g names. The last server admin stays one.
func regrant(t *db.Tx, id string, g Grant) (User, error) {
	u, err := FindUser(t, id)
	if err != nil {
		return u, err
	}
	if g.Organization != "" && g.Organization != u.Organization {
		return u, parley.Errorf(parley.Forbidden, "Your groups place you in the organisation %s, but your account "+
			"belongs to %s. Ask an administrator to delete the account; then sign in again.", g.Organization,
			u.Organization)
	}
	if g.Role != ServerAdmin && g.Role != "" {
		switch err := keepAdmin(t, &u); {
		case errors.Is(err, ErrLastAdmin):
			g.Role = ServerAdmin
		case err != nil:
			return u, err
		}
	}
	u.Role, u.Tier = cmp.Or(g.Role, u.Role), cmp.Or(g.Tier, u.Tier)
	if g.Models != nil {
		u.Models = g.Models
	}
	return u, save(t, &u)
}

// IdentitiesOf lists what issuers call an account.
func (s *Store) IdentitiesOf(ctx context.Context, user string) (list []ExternalIdentity, err error) {
	scan := func(r db.Row, e *ExternalIdentity) error { return r.Scan(&e.Issuer, &e.Subject) }
	return list, s.db.Read(ctx, func(t *db.Tx) error {
		list, err = db.All(t, scan, `SELECT issuer, subject FROM external_identities WHERE account = $1
			ORDER BY issuer, subject`, user)
		return err
	})
}
