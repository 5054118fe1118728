package tenant

import (
	"context"
	"errors"
	"time"

	"parley"
	"parley/gateway/accounts"
	"parley/gateway/db"
	"parley/limit"
)

const organizationColumns = `o.id, o.tier, o.limits, o.models, o.blocked, o.created`

func scanOrganization(r db.Row, o *Organization) error {
	var tier, limits, models string
	var blocked, created int64
	if err := r.Scan(&o.ID, &tier, &limits, &models, &blocked, &created); err != nil {
		return err
	}
	return o.fill(tier, limits, models, blocked, created)
}

func (o *Organization) fill(tier, limits, models string, blocked, created int64) error {
	o.Tier, _ = ParseClass(tier)
	o.Blocked, o.Created = blocked != 0, db.Unstamp(created)
	return errors.Join(readLimits(limits, &o.Limits), readList(models, &o.Models))
}

// Organizations lists all, by id.
func (s *Store) Organizations(ctx context.Context) (list []Organization, err error) {
	return list, s.db.Read(ctx, func(t *db.Tx) error {
		list, err = db.All(t, scanOrganization, `SELECT `+organizationColumns+` FROM organizations o ORDER BY o.id`)
		return err
	})
}

// Organization returns one.
func (s *Store) Organization(ctx context.Context, id string) (o Organization, err error) {
	return o, found(s.db.Read(ctx, func(t *db.Tx) error {
		o, err = db.Only(t, scanOrganization, `SELECT `+organizationColumns+` FROM organizations o WHERE o.id = $1`, id)
		return err
	}))
}

// CreateOrganization makes one.
func (s *Store) CreateOrganization(ctx context.Context, o Organization, now time.Time) (Organization, error) {
	if err := checkKey("", o.ID, "", o.Models, &o.Limits); err != nil {
		return o, err
	}
	o.Created = now.UTC().Truncate(time.Microsecond)
	return o, s.change(ctx, func(t *db.Tx) error {
		n, err := t.Exec(
			`INSERT INTO organizations (id, tier, limits, models, blocked, created) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`,
			o.ID, o.Tier.String(), limitsText(o.Limits), listText(o.Models), db.Flag(o.Blocked), db.Stamp(o.Created))
		if err == nil && n == 0 {
			err = ErrExists
		}
		return err
	})
}

// An OrganizationChange is what is changed; what is nil stays.
type OrganizationChange struct {
	Tier    *parley.Class
	Limits  *limit.Limits
	Models  *[]string
	Blocked *bool
}

// ChangeOrganization changes one and returns it as it is then.
func (s *Store) ChangeOrganization(ctx context.Context, id string, c OrganizationChange) (o Organization, err error) {
	return o, s.change(ctx, func(t *db.Tx) error {
		if o, err = db.Only(t, scanOrganization, `SELECT `+organizationColumns+` FROM organizations o WHERE o.id = $1`,
			id); err != nil {
			return err
		}
		set(&o.Tier, c.Tier)
		set(&o.Limits, c.Limits)
		set(&o.Models, c.Models)
		set(&o.Blocked, c.Blocked)
		if err := checkKey("", o.ID, "", o.Models, &o.Limits); err != nil {
			return err
		}
		_, err = t.Exec(`UPDATE organizations SET tier = $2, limits = $3, models = $4, blocked = $5 WHERE id = $1`,
			id, o.Tier.String(), limitsText(o.Limits), listText(o.Models), db.Flag(o.Blocked))
		return err
	})
}

// DeleteOrganization removes one that has neither keys nor accounts, and its users. Its data
// is not deleted: delete its conversations first.
func (s *Store) DeleteOrganization(ctx context.Context, id string) error {
	return s.change(ctx, func(t *db.Tx) error {
		var keys int
		if err := t.One(`SELECT count(*) FROM api_keys WHERE organization = $1 AND deleted = 0`, []any{id}, &keys); err != nil {
			return err
		}
		people, err := accounts.CountOf(t, id)
		if err != nil {
			return err
		}
		if people > 0 || keys > 0 || id == LocalOrganization {
			return ErrInUse
		}
		if _, err := t.Exec(`DELETE FROM api_keys WHERE organization = $1`, id); err != nil { // those set aside
			return err
		}
		n, err := t.Exec(`DELETE FROM organizations WHERE id = $1`, id)
		if err == nil && n == 0 {
			err = ErrNotFound
		}
		return err
	})
}

// Users lists those of a tenant, by id.
func (s *Store) Users(ctx context.Context, organization string) (list []User, err error) {
	scan := func(r db.Row, u *User) error {
		var blocked, created int64
		err := r.Scan(&u.Organization, &u.ID, &blocked, &created)
		u.Blocked, u.Created = blocked != 0, db.Unstamp(created)
		return err
	}
	return list, found(s.db.Read(ctx, func(t *db.Tx) error {
		list, err = db.All(t, scan,
			`SELECT organization, id, blocked, created FROM users WHERE organization = $1 ORDER BY id`, organization)
		return err
	}))
}

// BlockUser blocks a user, or ends that.
func (s *Store) BlockUser(ctx context.Context, organization, id string, blocked bool) error {
	return s.change(ctx, func(t *db.Tx) error {
		n, err := t.Exec(`UPDATE users SET blocked = $3 WHERE organization = $1 AND id = $2`, organization, id,
			db.Flag(blocked))
		if err == nil && n == 0 {
			err = ErrNotFound
		}
		return err
	})
}

// A record is all that decides what becomes of a key.
type record struct {
	key          Key
	organization Organization
	userBlocked  bool
	digest       digest
	// account is that of the key's user; nil if the user is only a name.
	account *accounts.User
}

func (r *record) blocked() bool {
	return r.key.Blocked || r.organization.Blocked || r.userBlocked || r.account != nil && r.account.Disabled
}

// addAccount reads the account of the key's user, if it has one. A key whose account is
// deleted does not exist any more.
func (r *record) addAccount(t *db.Tx) error {
	if !accounts.IsID(r.key.User) {
		return nil
	}
	u, err := accounts.FindUser(t, r.key.User)
	r.account = &u
	return err
}

// recordOthers follows the columns of a key and the digest to read a record.
const recordOthers = `, ` + organizationColumns + `, coalesce(u.blocked, 0)
	FROM api_keys k JOIN organizations o ON o.id = k.organization
	LEFT JOIN users u ON u.organization = k.organization AND u.id = k.user_id`

func scanRecord(row db.Row, r *record) error {
	var tier, limits, models string
	var kept []byte
	var blocked, created, userBlocked int64
	o := &r.organization
	if err := scanKeyAnd(row, &r.key, &kept, &o.ID, &tier, &limits, &models, &blocked, &created,
		&userBlocked); err != nil {
		return err
	}
	r.userBlocked = userBlocked != 0
	copy(r.digest[:], kept)
	return o.fill(tier, limits, models, blocked, created)
}

// findID returns the record of the key with this id.
func (s *Store) findID(ctx context.Context, id string) (r record, err error) {
	return r, found(s.db.Read(ctx, func(t *db.Tx) error {
		r, err = db.Only(t, scanRecord, `SELECT `+keyColumns+`, k.digest`+recordOthers+` WHERE k.id = $1 AND k.deleted = 0`, id)
		if err != nil {
			return err
		}
		return r.addAccount(t)
	}))
}

// find returns the record of the key with this prefix, and the generation that
// it was read in.
func (s *Store) find(ctx context.Context, prefix string) (r record, generation int64, err error) {
	return r, generation, found(s.db.Read(ctx, func(t *db.Tx) error {
		if generation, err = readGeneration(t); err != nil {
			return err
		}
		r, err = findRecord(t, prefix)
		return err
	}))
}

// findRecord returns the record of the key with this prefix, or of the one that had it
// before and whose old secret still holds.
func findRecord(t *db.Tx, prefix string) (r record, err error) {
	if r, err = findPrefix(t, prefix); err != nil {
		return r, err
	}
	return r, r.addAccount(t)
}

func findPrefix(t *db.Tx, prefix string) (r record, err error) {
	r, err = db.Only(t, scanRecord, `SELECT `+keyColumns+`, k.digest`+recordOthers+` WHERE k.prefix = $1 AND k.deleted = 0`, prefix)
	if !errors.Is(err, db.ErrNoRow) {
		return r, err
	}
	var until int64
	if err := t.One(`SELECT until FROM old_secrets WHERE prefix = $1`, []any{prefix}, &until); err != nil {
		return r, err
	}
	r, err = db.Only(t, scanRecord,
		`SELECT `+keyColumns+`, s.digest`+recordOthers+` JOIN old_secrets s ON s.key_id = k.id WHERE s.prefix = $1 AND k.deleted = 0`,
		prefix)
	if end := db.Unstamp(until); r.key.Expires.IsZero() || end.Before(r.key.Expires) {
		r.key.expireAt(end)
	}
	return r, err
}
