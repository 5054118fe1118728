package tenant

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"io/fs"
	"strings"
	"time"

	"parley"
	"parley/gateway/accounts"
	"parley/gateway/db"
	"parley/limit"
)

//go:embed migrations
var migrationFiles embed.FS

// A Store keeps tenants, users and keys in a database, beside what others
// keep there. It is safe for concurrent use, by several processes.
type Store struct {
	db       *db.DB
	accounts *accounts.Store
}

// New brings the tables up to date and returns the store in them.
func New(ctx context.Context, d *db.DB) (*Store, error) {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	if err := d.Migrate(ctx, db.Schema{Versions: "schema_versions_tenant", Migrations: files}); err != nil {
		return nil, err
	}
	people, err := accounts.New(ctx, d)
	if err != nil {
		return nil, err
	}
	return &Store{db: d, accounts: people}, nil
}

// Accounts returns the people who sign in, in the same database.
func (s *Store) Accounts() *accounts.Store { return s.accounts }

// Errors that callers may check for.
var (
	// ErrNotFound: there is nothing of that id.
	ErrNotFound = parley.Errorf(parley.NotFound, "There is no such organisation, user or key.")
	// ErrExists: the id is taken.
	ErrExists = parley.Errorf(parley.Conflict, "An organisation of this id exists.")
	// ErrInUse: a tenant that has keys or people is not deleted.
	ErrInUse = parley.Errorf(parley.Conflict, "This organisation has keys or people: delete them first, or block it.")
)

func found(err error) error {
	if errors.Is(err, db.ErrNoRow) {
		return ErrNotFound
	}
	return err
}

// A State is what a gateway asks for again and again.
type State struct {
	// Generation grows with every change to tenants, users, accounts and keys.
	Generation int64
	// Keys is how many keys there are, blocked and expired ones included; Accounts is
	// how many accounts.
	Keys, Accounts int
}

// State returns the present state.
func (s *Store) State(ctx context.Context) (now State, err error) {
	return now, s.db.Read(ctx, func(t *db.Tx) error {
		now, err = readState(t)
		return err
	})
}

// readState adds the generations of keys and of accounts up: the sum grows with either.
func readState(t *db.Tx) (now State, err error) {
	people, err := accounts.ReadState(t)
	if err != nil {
		return now, err
	}
	err = t.One(`SELECT generation, (SELECT count(*) FROM api_keys WHERE deleted = 0) FROM tenant_state`, nil, &now.Generation, &now.Keys)
	now.Generation += people.Generation
	now.Accounts = people.Accounts
	return now, err
}

func readGeneration(t *db.Tx) (int64, error) {
	now, err := readState(t)
	return now.Generation, err
}

// change runs do and counts the generation up, in one transaction.
func (s *Store) change(ctx context.Context, do func(*db.Tx) error) error {
	return found(s.db.WriteReserved(ctx, func(t *db.Tx) error {
		if _, err := t.Exec(`UPDATE tenant_state SET generation = generation + 1`); err != nil {
			return err
		}
		return do(t)
	}))
}

// A NewKey is a key to be made. Its tenant and user are made with it if
// they are missing.
type NewKey struct {
	Name, Organization, User string
	Tier                     *parley.Class
	Limits                   limit.Limits
	Models                   []string
	Admin                    bool
	Expires                  time.Time
}

// CreateKey makes a key and returns its secret, which is not stored.
func (s *Store) CreateKey(ctx context.Context, n NewKey, now time.Time) (k Key, secret string, err error) {
	if err := n.check(now); err != nil {
		return k, "", err
	}
	k = Key{
		ID:           "key_" + strings.ToLower(rand.Text()),
		Name:         n.Name,
		Organization: n.Organization,
		User:         n.User,
		Tier:         n.Tier,
		Limits:       n.Limits,
		Models:       n.Models,
		Admin:        n.Admin,
		Created:      now.UTC().Truncate(time.Microsecond),
		Expires:      n.Expires.UTC().Truncate(time.Microsecond),
	}
	secret = newSecret()
	k.Prefix = secret[:prefixLength]
	return k, secret, s.change(ctx, func(t *db.Tx) error {
		if err := ensure(t, &k); err != nil {
			return err
		}
		d := digestOf(secret)
		_, err := t.Exec(
			`INSERT INTO api_keys (id, prefix, digest, name, organization, user_id, tier, limits, models, admin, blocked, created, expires, used)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, $11, $12, 0)`,
			k.ID, k.Prefix, d[:], k.Name, k.Organization, k.User, tierText(k.Tier), limitsText(k.Limits),
			listText(k.Models), db.Flag(k.Admin), db.Stamp(k.Created), db.Stamp(k.Expires))
		return err
	})
}

// ensure makes the tenant and the user of a key if they are missing. A new
// tenant has the tier of its first key.
func ensure(t *db.Tx, k *Key) error {
	tier := parley.Free
	if k.Tier != nil {
		tier = *k.Tier
	}
	if _, err := t.Exec(
		`INSERT INTO organizations (id, tier, limits, models, blocked, created) VALUES ($1, $2, '{}', '', 0, $3) ON CONFLICT DO NOTHING`,
		k.Organization, tier.String(), db.Stamp(k.Created)); err != nil || k.User == "" {
		return err
	}
	_, err := t.Exec(
		`INSERT INTO users (organization, id, blocked, created) VALUES ($1, $2, 0, $3) ON CONFLICT DO NOTHING`,
		k.Organization, k.User, db.Stamp(k.Created))
	return err
}

const keyColumns = `k.id, k.prefix, k.name, k.organization, k.user_id, k.tier, k.limits, k.models, k.admin, k.blocked,
	k.created, k.expires, k.used, k.deleted,
	(SELECT blocked FROM organizations WHERE id = k.organization),
	coalesce((SELECT blocked FROM users WHERE organization = k.organization AND id = k.user_id), 0)`

func scanKey(r db.Row, k *Key) error { return scanKeyAnd(r, k) }

// scanKeyAnd scans a key, and more after it.
func scanKeyAnd(r db.Row, k *Key, more ...any) error {
	var tier, limits, models string
	var admin, blocked, created, expires, used, deleted, withOrganization, withUser int64
	into := []any{&k.ID, &k.Prefix, &k.Name, &k.Organization, &k.User, &tier, &limits, &models, &admin, &blocked,
		&created, &expires, &used, &deleted, &withOrganization, &withUser}
	if err := r.Scan(append(into, more...)...); err != nil {
		return err
	}
	if class, ok := ParseClass(tier); ok {
		k.Tier = &class
	}
	k.Admin, k.Blocked = admin != 0, blocked != 0
	switch {
	case withOrganization != 0:
		k.BlockedBy = "organization"
	case withUser != 0:
		k.BlockedBy = "user"
	}
	k.Created, k.Expires = db.Unstamp(created), db.Unstamp(expires)
	k.LastUsed, k.Deleted = db.Unstamp(used), db.Unstamp(deleted)
	return errors.Join(readLimits(limits, &k.Limits), readList(models, &k.Models))
}

// Key returns one key.
func (s *Store) Key(ctx context.Context, id string) (k Key, err error) {
	return k, found(s.db.Read(ctx, func(t *db.Tx) error {
		k, err = db.Only(t, scanKey, `SELECT `+keyColumns+` FROM api_keys k WHERE k.id = $1 AND k.deleted = 0`, id)
		return err
	}))
}

// A KeyFilter says which keys are listed: all of them if it is zero.
type KeyFilter struct {
	Organization string
	// User lists only keys of a user.
	User string
	// Admins lists only keys with the admin right.
	Admins bool
	// Deleted lists deleted keys, too.
	Deleted bool
	// After is the id of the last key of the page before; Limit bounds the page,
	// 0 for all.
	After string
	Limit int
}

// Keys lists keys in the order in which they were made.
func (s *Store) Keys(ctx context.Context, f KeyFilter) (keys []Key, err error) {
	if f.Limit <= 0 {
		f.Limit = 1 << 30
	}
	return keys, found(s.db.Read(ctx, func(t *db.Tx) error {
		var since int64 = -1
		if f.After != "" {
			if err := t.One(`SELECT created FROM api_keys WHERE id = $1`, []any{f.After}, &since); err != nil {
				return err
			}
		}
		keys, err = db.All(t, scanKey, `SELECT `+keyColumns+` FROM api_keys k
			WHERE (k.organization = $1 OR CAST($1 AS TEXT) = '') AND k.admin >= $2 AND (k.created > $3 OR k.created = $3 AND k.id > $4)
			AND (k.user_id = $6 OR CAST($6 AS TEXT) = '') AND (k.deleted = 0 OR $7 = 1)
			ORDER BY k.created, k.id LIMIT $5`, f.Organization, db.Flag(f.Admins), since, f.After, f.Limit, f.User,
			db.Flag(f.Deleted))
		return err
	}))
}

// orOf returns a key with a tier in place of none.
func (k *Key) orOf(tier *parley.Class) *Key {
	with := *k
	if with.Tier == nil {
		with.Tier = tier
	}
	return &with
}

// A KeyChange is what is changed about a key; what is nil stays.
type KeyChange struct {
	Name    *string
	Tier    **parley.Class
	Limits  *limit.Limits
	Models  *[]string
	Admin   *bool
	Blocked *bool
	Expires *time.Time
}

// ChangeKey changes a key and returns it as it is then.
func (s *Store) ChangeKey(ctx context.Context, id string, c KeyChange) (k Key, err error) {
	return k, s.change(ctx, func(t *db.Tx) error {
		if k, err = db.Only(t, scanKey, `SELECT `+keyColumns+` FROM api_keys k WHERE k.id = $1 AND k.deleted = 0`, id); err != nil {
			return err
		}
		c.apply(&k)
		if err := checkKey(k.Name, k.Organization, k.User, k.Models, &k.Limits); err != nil {
			return err
		}
		_, err = t.Exec(
			`UPDATE api_keys SET name = $2, tier = $3, limits = $4, models = $5, admin = $6, blocked = $7, expires = $8 WHERE id = $1`,
			id, k.Name, tierText(k.Tier), limitsText(k.Limits), listText(k.Models), db.Flag(k.Admin),
			db.Flag(k.Blocked), db.Stamp(k.Expires))
		return err
	})
}

func (c *KeyChange) apply(k *Key) {
	set(&k.Name, c.Name)
	set(&k.Tier, c.Tier)
	set(&k.Limits, c.Limits)
	set(&k.Models, c.Models)
	set(&k.Admin, c.Admin)
	set(&k.Blocked, c.Blocked)
	set(&k.Expires, c.Expires)
}

func set[T any](field *T, to *T) {
	if to != nil {
		*field = *to
	}
}

// GraceMax is the longest that a secret may hold after another has taken its place.
const GraceMax = 90 * 24 * time.Hour

// RotateKey gives a key a new secret. The old one holds until grace is over; with
// none, it and all before it end at once.
func (s *Store) RotateKey(ctx context.Context, id string, grace time.Duration,
	now time.Time) (k Key, secret string, err error) {
	if grace < 0 || grace > GraceMax {
		return k, "", parley.Invalid("grace_seconds",
			"The old secret can stay valid for 0 seconds to %d days, not for %v.", GraceMax/(24*time.Hour), grace)
	}
	secret = newSecret()
	return k, secret, s.change(ctx, func(t *db.Tx) error {
		if _, err := t.Exec(`DELETE FROM old_secrets WHERE key_id = $1 AND (until <= $2 OR $3 = 1)`, id, db.Stamp(now),
			db.Flag(grace == 0)); err != nil {
			return err
		}
		if grace > 0 {
			if _, err := t.Exec(
				`INSERT INTO old_secrets (prefix, key_id, digest, until) SELECT prefix, id, digest, $2 FROM api_keys WHERE id = $1`, id, db.Stamp(now.Add(grace))); err != nil {
				return err
			}
		}
		d := digestOf(secret)
		if _, err := t.Exec(`UPDATE api_keys SET prefix = $2, digest = $3 WHERE id = $1`, id, secret[:prefixLength],
			d[:]); err != nil {
			return err
		}
		k, err = db.Only(t, scanKey, `SELECT `+keyColumns+` FROM api_keys k WHERE k.id = $1 AND k.deleted = 0`, id)
		return err
	})
}

// RestoreMax is how long a deleted key can be restored.
const RestoreMax = 7 * 24 * time.Hour

// noDigest replaces the digest of a secret that can no longer be restored.
var noDigest = []byte{}

// SetAsideKey deletes a key such that it can be restored within [RestoreMax]. The secrets of
// keys that were deleted before that are forgotten; their names stay, because the ledger names
// them by their ids.
func (s *Store) SetAsideKey(ctx context.Context, id string, now time.Time) error {
	return s.change(ctx, func(t *db.Tx) error {
		over := db.Stamp(now.Add(-RestoreMax))
		if _, err := t.Exec(`DELETE FROM old_secrets WHERE key_id IN
			(SELECT id FROM api_keys WHERE deleted > 0 AND deleted <= $1)`, over); err != nil {
			return err
		}
		if _, err := t.Exec(`UPDATE api_keys SET digest = $2 WHERE deleted > 0 AND deleted <= $1 AND digest <> $2`,
			over, noDigest); err != nil {
			return err
		}
		n, err := t.Exec(`UPDATE api_keys SET deleted = $2 WHERE id = $1 AND deleted = 0`, id, db.Stamp(now))
		if err == nil && n == 0 {
			err = ErrNotFound
		}
		return err
	})
}

// RestoreKey undoes the deletion of a key by [Store.SetAsideKey].
func (s *Store) RestoreKey(ctx context.Context, id string, now time.Time) (k Key, err error) {
	return k, s.change(ctx, func(t *db.Tx) error {
		n, err := t.Exec(`UPDATE api_keys SET deleted = 0 WHERE id = $1 AND deleted > $2 AND digest <> $3`, id,
			db.Stamp(now.Add(-RestoreMax)), noDigest)
		if err == nil && n == 0 {
			err = ErrNotFound
		}
		if err != nil {
			return err
		}
		k, err = db.Only(t, scanKey, `SELECT `+keyColumns+` FROM api_keys k WHERE k.id = $1 AND k.deleted = 0`, id)
		return err
	})
}

// DeleteKey removes a key for good, its name included. The data of its organisation stays.
func (s *Store) DeleteKey(ctx context.Context, id string) error {
	return s.change(ctx, func(t *db.Tx) error {
		n, err := t.Exec(`DELETE FROM api_keys WHERE id = $1`, id)
		if err == nil && n == 0 {
			err = ErrNotFound
		}
		return err
	})
}

// Used notes when keys were used last.
func (s *Store) Used(ctx context.Context, at map[string]time.Time) error {
	return s.db.Write(ctx, func(t *db.Tx) error {
		for id, when := range at {
			if _, err := t.Exec(`UPDATE api_keys SET used = $2 WHERE id = $1 AND used < $2`, id,
				db.Stamp(when)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Secret returns 32 bytes of chance that are the same for every gateway on the
// store, made when they are first asked for.
func (s *Store) Secret(ctx context.Context, name string) (secret []byte, err error) {
	fresh := make([]byte, 32)
	rand.Read(fresh) // never fails: crypto/rand ends the process instead
	return secret, s.db.Write(ctx, func(t *db.Tx) error {
		if _, err := t.Exec(`INSERT INTO server_secrets (name, secret) VALUES ($1, $2) ON CONFLICT DO NOTHING`, name,
			fresh); err != nil {
			return err
		}
		return t.One(`SELECT secret FROM server_secrets WHERE name = $1`, []any{name}, &secret)
	})
}

// expireAt ends a key that was found by a secret which was rotated.
func (k *Key) expireAt(end time.Time) { k.Expires = end }
