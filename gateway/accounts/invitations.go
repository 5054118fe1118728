package accounts

import (
	"context"
	"errors"
	"time"

	"parley/gateway/db"
)

const invitationColumns = `i.id, i.account, i.email, i.role, i.organization, i.tier, i.models, i.invited_by, i.created, i.expires`

func scanInvitation(r db.Row, i *Invitation) error {
	var role, models string
	var created, expires int64
	if err := r.Scan(&i.ID, &i.User, &i.Email, &role, &i.Organization, &i.Tier, &models, &i.By, &created,
		&expires); err != nil {
		return err
	}
	i.Role, i.Created, i.Expires = Role(role), db.Unstamp(created), db.Unstamp(expires)
	return readList(models, &i.Models)
}

func tokenDigest(token string) Digest { return digestOf("invitation", token) }

// Invite stores an invitation and returns the token for its link, which is stored
// nowhere. Inviting an address again ends the invitation before. An address that has an
// account is refused, unless i.User is set: the invitation then lets that user choose a
// new password.
func (s *Store) Invite(ctx context.Context, i Invitation, now time.Time) (made Invitation, token string, err error) {
	fresh := NewUser{Email: i.Email, Grant: i.Grant}
	if err := fresh.check(); err != nil {
		return i, "", err
	}
	i.Email, i.Grant = fresh.Email, fresh.Grant
	i.ID, token = newID("invite_"), newSecret("pi-")
	i.Created = now.UTC().Truncate(time.Microsecond)
	i.Expires = i.Created.Add(InvitationMax)
	d := tokenDigest(token)
	return i, token, found(s.db.Write(ctx, func(t *db.Tx) error {
		switch u, err := findEmail(t, i.Email); {
		case err == nil && u.ID != i.User:
			return ErrExists
		case err != nil && (i.User != "" || !errors.Is(err, db.ErrNoRow)):
			return err
		}
		if _, err := t.Exec(`DELETE FROM invitations WHERE email = $1 OR expires <= $2`, i.Email,
			db.Stamp(now)); err != nil {
			return err
		}
		_, err := t.Exec(`INSERT INTO invitations (id, digest, account, email, role, organization, tier, models,
			invited_by, created, expires) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
			i.ID, d[:], i.User, i.Email, string(i.Role), i.Organization, i.Tier, listText(i.Models), i.By,
			db.Stamp(i.Created), db.Stamp(i.Expires))
		return err
	}))
}

// Invitations lists those of an organisation, or all if it is empty, that can be used.
func (s *Store) Invitations(ctx context.Context, organization string, now time.Time) (list []Invitation, err error) {
	return list, s.db.Read(ctx, func(t *db.Tx) error {
		list, err = db.All(t, scanInvitation, `SELECT `+invitationColumns+` FROM invitations i
			WHERE (i.organization = $1 OR $1 = '') AND i.expires > $2 ORDER BY i.created, i.id`, organization,
			db.Stamp(now))
		return err
	})
}

// InvitationOf returns the invitation of a token, or [ErrInvitation].
func (s *Store) InvitationOf(ctx context.Context, token string, now time.Time) (i Invitation, err error) {
	return i, s.db.Read(ctx, func(t *db.Tx) error {
		i, err = findInvitation(t, token, now)
		return err
	})
}

func findInvitation(t *db.Tx, token string, now time.Time) (Invitation, error) {
	d := tokenDigest(token)
	i, err := db.Only(t, scanInvitation, `SELECT `+invitationColumns+` FROM invitations i
		WHERE i.digest = $1 AND i.expires > $2`, d[:], db.Stamp(now))
	if errors.Is(err, db.ErrNoRow) {
		err = ErrInvitation
	}
	return i, err
}

// DeleteInvitation ends an invitation of an organisation, or of any if that is empty.
func (s *Store) DeleteInvitation(ctx context.Context, organization, id string) error {
	return found(s.db.WriteReserved(ctx, func(t *db.Tx) error {
		return one(t, `DELETE FROM invitations WHERE id = $1 AND (organization = $2 OR $2 = '')`, id, organization)
	}))
}

// Accept uses an invitation up: it makes the account, or sets the password of the one
// that it is for and ends its sessions.
func (s *Store) Accept(ctx context.Context, token, name, password string, now time.Time) (u User, err error) {
	i, err := s.InvitationOf(ctx, token, now)
	if err != nil {
		return u, err
	}
	fresh := NewUser{Email: i.Email, Name: name, Grant: i.Grant}
	if err := errors.Join(fresh.check(), checkPassword(password, i.Email)); err != nil {
		return u, err
	}
	hash, err := s.hashOf(ctx, password)
	if err != nil {
		return u, err
	}
	return u, s.change(ctx, func(t *db.Tx) error {
		err := one(t, `DELETE FROM invitations WHERE id = $1`, i.ID)
		switch {
		case errors.Is(err, db.ErrNoRow):
			return ErrInvitation // another request was faster
		case err != nil:
			return err
		case i.User == "":
			u, err = insert(t, &fresh, hash, now)
			return err
		}
		if err := setPassword(t, i.User, hash, ""); err != nil {
			return err
		}
		u, err = FindUser(t, i.User)
		return err
	})
}
