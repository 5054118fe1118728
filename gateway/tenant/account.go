package tenant

import (
	"context"
	"errors"
	"time"

	"parley"
	"parley/gateway/accounts"
	"parley/gateway/db"
)

// Why an account is refused.
var (
	errAccountDisabled = parley.Errorf(parley.Unauthenticated,
		"This account is disabled. Ask an administrator of this server.")
	errAccountDeleted = parley.Errorf(parley.Unauthenticated, "The account of this request was deleted.")
)

// A person is an account with its organisation.
type person struct {
	user         accounts.User
	organization Organization
}

func (p *person) blocked() bool { return p.user.Disabled || p.organization.Blocked }

func findPerson(t *db.Tx, id string) (p person, err error) {
	if p.user, err = accounts.FindUser(t, id); err != nil {
		return p, err
	}
	p.organization, err = db.Only(t, scanOrganization,
		`SELECT `+organizationColumns+` FROM organizations o WHERE o.id = $1`, p.user.Organization)
	return p, err
}

// ofPerson returns what an account is answered as.
func (t *Tiers) ofPerson(p *person) Identity {
	u := &p.user
	key := Key{
		ID:     u.ID,
		User:   u.ID,
		Tier:   tierOf(u),
		Models: u.Models,
		Admin:  u.Role == accounts.ServerAdmin,
	}
	return t.identity(&p.organization, &key).managing(u.Role != accounts.Member)
}

// ofRecord returns what a key is answered as. It may use no more than its account.
func (t *Tiers) ofRecord(r *record) Identity {
	if r.account == nil {
		return t.identity(&r.organization, &r.key)
	}
	return t.identity(&r.organization, r.key.orOf(tierOf(r.account))).limitedTo(r.account.Models)
}

// tierOf returns the tier that an account has of its own; nil is that of its
// organisation.
func tierOf(u *accounts.User) *parley.Class {
	class, ok := ParseClass(u.Tier)
	if !ok {
		return nil
	}
	return &class
}

// ofAccount returns the identity of an account.
func (k *Keyring) ofAccount(ctx context.Context, id string) (*Identity, error) {
	var p person
	err := k.store.db.Read(ctx, func(t *db.Tx) (err error) {
		p, err = findPerson(t, id)
		return err
	})
	switch {
	case errors.Is(err, db.ErrNoRow):
		return nil, errAccountDeleted
	case err != nil:
		return nil, err
	case p.blocked():
		return nil, errAccountDisabled
	}
	return new(k.tiers.ofPerson(&p)), nil
}

// askAccount has the store decide about a session of an account, and remembers that.
func (k *Keyring) askAccount(ctx context.Context, d digest, now time.Time) (v keyLookup, err error) {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	var p person
	var s accounts.Session
	v.digest = d
	err = k.store.db.Read(ctx, func(t *db.Tx) (err error) {
		if v.generation, err = readGeneration(t); err != nil {
			return err
		}
		if s, err = accounts.FindSession(t, accounts.Digest(d)); err != nil {
			return err
		}
		p, err = findPerson(t, s.User)
		return err
	})
	v.scope, v.expires = Scope(s.Scope), s.Expires
	switch {
	case errors.Is(err, db.ErrNoRow):
		v.refused = errUnknown
	case err != nil:
		return v, err
	case p.blocked():
		v.refused = errAccountDisabled
	default:
		v.identity = new(k.tiers.ofPerson(&p))
	}
	k.keep(&v, now)
	return v, nil
}

// EnsureOrganization makes an organisation of the free tier if it is missing.
func (s *Store) EnsureOrganization(ctx context.Context, id string, now time.Time) error {
	_, err := s.CreateOrganization(ctx, Organization{ID: id, Tier: parley.Free}, now)
	if errors.Is(err, ErrExists) {
		return nil
	}
	return err
}
