package accounts

import (
	"cmp"
	"context"
	"errors"
	"time"

	"parley"
	"parley/gateway/db"
)

// Terms are on which an identity signs in. What is nil of the account stays as it is.
type Terms struct {
	// Organization is where groups place the person; empty is Home for a new account.
	Organization, Home string
	Role               *Role
	Tier               *string
	Models             *[]string
	// CreateUnknown makes an account for an identity that has none.
	CreateUnknown bool
	// Connect is the account that the identity is to sign in to from now on; empty for none.
	Connect string
	// Invitation is the token of one that the person accepts; empty for none.
	Invitation string
}

// SignInExternal returns the account of an identity that an issuer has vouched for, with
// what the terms give it by now. An unknown identity gets an account by an invitation, or
// a new one where the terms allow that. An equal email address never gives it an account
// that exists: its owner connects the identity while signed in.
func (s *Store) SignInExternal(ctx context.Context, e ExternalIdentity, terms Terms,
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
		case err == nil && terms.Connect != "" && terms.Connect != id:
			return errConnected
		case err == nil:
			u, err = terms.regrant(t, id)
		case errors.Is(err, db.ErrNoRow):
			u, err = terms.link(t, &e, now)
		}
		if err == nil && u.Disabled {
			err = errDisabled
		}
		return err
	})
}

// Why an identity is refused.
var (
	errDisabled  = parley.Errorf(parley.Forbidden, "This account is disabled. Ask an administrator of this server.")
	errConnected = parley.Errorf(parley.Conflict, "That sign-in belongs to another account.")
	errUnknown   = parley.Errorf(parley.Forbidden,
		"You have no account on this server. Ask an administrator to invite you.")
	errNoAdmin = parley.Errorf(parley.Forbidden, "This server has no administrator yet. The operator creates the "+
		"first account with the link that 'parley serve' prints.")
)

// link gives an identity that is seen for the first time its account.
func (terms *Terms) link(t *db.Tx, e *ExternalIdentity, now time.Time) (u User, err error) {
	id := terms.Connect
	if id == "" {
		if u, err = terms.create(t, e, now); err != nil {
			return u, err
		}
		id = u.ID
	}
	if _, err = t.Exec(`INSERT INTO external_identities (issuer, subject, account, created) VALUES ($1, $2, $3, $4)`,
		e.Issuer, e.Subject, id, db.Stamp(now)); err != nil {
		return u, err
	}
	return terms.regrant(t, id)
}

// create makes the account of a new identity.
func (terms *Terms) create(t *db.Tx, e *ExternalIdentity, now time.Time) (u User, err error) {
	fresh := NewUser{Email: e.Email, Name: e.Name, Grant: terms.grant()}
	if terms.Invitation != "" {
		i, err := findInvitation(t, terms.Invitation, now)
		switch {
		case err != nil:
			return u, err
		case i.User != "":
			return u, ErrInvitation // it is for a new password
		}
		if _, err := t.Exec(`DELETE FROM invitations WHERE id = $1`, i.ID); err != nil {
			return u, err
		}
		fresh.Email, fresh.Grant = i.Email, i.Grant
	} else if !terms.CreateUnknown {
		return u, errUnknown
	}
	if err := fresh.check(); err != nil {
		return u, err
	}
	state, err := ReadState(t)
	switch {
	case err != nil:
		return u, err
	case state.Accounts == 0 && terms.Invitation == "" && fresh.Role != ServerAdmin:
		return u, errNoAdmin
	}
	u, err = insert(t, &fresh, "", now)
	if errors.Is(err, ErrExists) {
		err = parley.Errorf(parley.Forbidden, "An account with the address %s exists. Sign in to it with your "+
			"password, then connect this sign-in under Settings, Account.", fresh.Email)
	}
	return u, err
}

// grant is what a new account is given.
func (terms *Terms) grant() Grant {
	g := Grant{Organization: cmp.Or(terms.Organization, terms.Home)}
	set(&g.Role, terms.Role)
	set(&g.Tier, terms.Tier)
	set(&g.Models, terms.Models)
	return g
}

// regrant gives an account what the terms name. The last server admin stays one.
func (terms *Terms) regrant(t *db.Tx, id string) (User, error) {
	u, err := FindUser(t, id)
	if err != nil {
		return u, err
	}
	if terms.Organization != "" && terms.Organization != u.Organization {
		return u, parley.Errorf(parley.Forbidden, "Your groups place you in the organisation %s, but your account "+
			"belongs to %s. Ask an administrator to delete the account; then sign in again.", terms.Organization,
			u.Organization)
	}
	before := u
	set(&u.Role, terms.Role)
	set(&u.Tier, terms.Tier)
	set(&u.Models, terms.Models)
	if u.Role != ServerAdmin {
		switch err := keepAdmin(t, &before); {
		case errors.Is(err, ErrLastAdmin):
			u.Role = ServerAdmin
		case err != nil:
			return u, err
		}
	}
	return u, save(t, &u)
}

// Disconnect takes an identity from an account, which keeps another way to sign in.
func (s *Store) Disconnect(ctx context.Context, user string, e ExternalIdentity) error {
	return s.change(ctx, func(t *db.Tx) error {
		if err := one(t, `DELETE FROM external_identities WHERE account = $1 AND issuer = $2 AND subject = $3`, user,
			e.Issuer, e.Subject); err != nil {
			return err
		}
		return keepsSignIn(t, user)
	})
}

// keepsSignIn returns an error if the account would have no sign-in method.
func keepsSignIn(t *db.Tx, user string) error {
	var ways int
	err := t.One(`SELECT (SELECT count(*) FROM accounts WHERE id = $1 AND password <> '')
		+ (SELECT count(*) FROM external_identities WHERE account = $1)
		+ (SELECT count(*) FROM passkeys WHERE account = $1)`, []any{user}, &ways)
	if err == nil && ways == 0 {
		err = errLastWay
	}
	return err
}

var errLastWay = parley.Errorf(parley.Conflict,
	"This is the only way to sign in to this account. Add a password or another one first.")

// IdentitiesOf lists what issuers call an account.
func (s *Store) IdentitiesOf(ctx context.Context, user string) (list []ExternalIdentity, err error) {
	scan := func(r db.Row, e *ExternalIdentity) error { return r.Scan(&e.Issuer, &e.Subject) }
	return list, s.db.Read(ctx, func(t *db.Tx) error {
		list, err = db.All(t, scan, `SELECT issuer, subject FROM external_identities WHERE account = $1
			ORDER BY issuer, subject`, user)
		return err
	})
}
