package accounts

import (
	"context"
	"errors"
	"time"

	"parley"
	"parley/gateway/db"
)

const userColumns = `a.id, a.email, a.name, a.role, a.organization, a.tier, a.models, a.disabled, a.password, a.created, a.signed_in`

// A row is an account as it is stored.
type row struct {
	User
	password string
}

func scanRow(r db.Row, u *row) error {
	var role, models string
	var disabled, created, signedIn int64
	if err := r.Scan(&u.ID, &u.Email, &u.Name, &role, &u.Organization, &u.Tier, &models, &disabled, &u.password,
		&created, &signedIn); err != nil {
		return err
	}
	u.Role, u.Disabled, u.HasPassword = Role(role), disabled != 0, u.password != ""
	u.Created, u.SignedIn = db.Unstamp(created), db.Unstamp(signedIn)
	return readList(models, &u.Models)
}

func scanUser(r db.Row, u *User) error {
	var one row
	err := scanRow(r, &one)
	*u = one.User
	return err
}

// FindUser returns the account of an id, as a transaction sees it.
func FindUser(t *db.Tx, id string) (User, error) {
	return db.Only(t, scanUser, `SELECT `+userColumns+` FROM accounts a WHERE a.id = $1`, id)
}

func findEmail(t *db.Tx, email string) (row, error) {
	return db.Only(t, scanRow, `SELECT `+userColumns+` FROM accounts a WHERE a.email_key = $1`, emailKey(email))
}

// User returns the account of an id.
func (s *Store) User(ctx context.Context, id string) (u User, err error) {
	return u, found(s.db.Read(ctx, func(t *db.Tx) error {
		u, err = FindUser(t, id)
		return err
	}))
}

// UserOf returns the account of an email address.
func (s *Store) UserOf(ctx context.Context, email string) (u User, err error) {
	return u, found(s.db.Read(ctx, func(t *db.Tx) error {
		one, err := findEmail(t, email)
		u = one.User
		return err
	}))
}

// Users lists the accounts of an organisation, or all if it is empty, oldest first.
func (s *Store) Users(ctx context.Context, organization string) (list []User, err error) {
	return list, s.db.Read(ctx, func(t *db.Tx) error {
		list, err = db.All(t, scanUser, `SELECT `+userColumns+` FROM accounts a
			WHERE a.organization = $1 OR $1 = '' ORDER BY a.created, a.id`, organization)
		return err
	})
}

// CountOf returns how many accounts an organisation has, as a transaction sees it.
func CountOf(t *db.Tx, organization string) (n int, err error) {
	return n, t.One(`SELECT count(*) FROM accounts WHERE organization = $1`, []any{organization}, &n)
}

// A NewUser is an account to be made.
type NewUser struct {
	Email, Name string
	// Password is empty for an account that has none.
	Password string
	Grant
}

func (n *NewUser) check() (err error) {
	if n.Email, err = checkEmail(n.Email); err != nil {
		return err
	}
	if n.Name, err = checkName(n.Name); err != nil {
		return err
	}
	if n.Role, err = ParseRole(string(n.Role)); err != nil {
		return err
	}
	if n.Organization == "" {
		return parley.Invalid("organization", "An account belongs to an organisation: name one.")
	}
	if n.Password != "" {
		return checkPassword(n.Password, n.Email)
	}
	return nil
}

// Create makes an account.
func (s *Store) Create(ctx context.Context, n NewUser, now time.Time) (u User, err error) {
	if err := n.check(); err != nil {
		return u, err
	}
	hash, err := s.hashOf(ctx, n.Password)
	if err != nil {
		return u, err
	}
	return u, s.change(ctx, func(t *db.Tx) error {
		u, err = insert(t, &n, hash, now)
		return err
	})
}

// hashOf returns the hash of a password, or nothing for none.
func (s *Store) hashOf(ctx context.Context, password string) (string, error) {
	if password == "" {
		return "", nil
	}
	return s.hasher.hash(ctx, password)
}

// insert makes an account. The first one is a server admin: without one, only commands on
// the machine could operate the server.
func insert(t *db.Tx, n *NewUser, hash string, now time.Time) (User, error) {
	if err := t.Serialize("parley accounts admins"); err != nil {
		return User{}, err
	}
	state, err := ReadState(t)
	if err != nil {
		return User{}, err
	}
	if state.Accounts == 0 {
		n.Role = ServerAdmin
	}
	u := User{
		ID:          newID(idPrefix),
		Email:       n.Email,
		Name:        n.Name,
		Grant:       n.Grant,
		HasPassword: hash != "",
		Created:     now.UTC().Truncate(time.Microsecond),
	}
	count, err := t.Exec(`INSERT INTO accounts (id, email, email_key, name, role, organization, tier, models, disabled,
		password, created, signed_in) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, $9, $10, 0) ON CONFLICT DO NOTHING`,
		u.ID, u.Email, emailKey(u.Email), u.Name, string(u.Role), u.Organization, u.Tier, listText(u.Models), hash,
		db.Stamp(u.Created))
	if err == nil && count == 0 {
		err = ErrExists
	}
	return u, err
}

// A UserChange is what is changed of an account; what is nil stays. An account stays in
// its organisation, which owns what it has stored.
type UserChange struct {
	Name     *string
	Role     *Role
	Tier     *string
	Models   *[]string
	Disabled *bool
}

// Change changes an account and returns it as it is then. Disabling ends its sessions.
func (s *Store) Change(ctx context.Context, id string, c UserChange) (u User, err error) {
	return u, s.change(ctx, func(t *db.Tx) error {
		if u, err = FindUser(t, id); err != nil {
			return err
		}
		before := u
		if err := u.apply(&c); err != nil {
			return err
		}
		if u.Disabled || u.Role != ServerAdmin {
			if err := keepAdmin(t, &before); err != nil {
				return err
			}
		}
		return save(t, &u)
	})
}

func (u *User) apply(c *UserChange) (err error) {
	set(&u.Name, c.Name)
	set(&u.Role, c.Role)
	set(&u.Tier, c.Tier)
	set(&u.Models, c.Models)
	set(&u.Disabled, c.Disabled)
	if u.Name, err = checkName(u.Name); err != nil {
		return err
	}
	u.Role, err = ParseRole(string(u.Role))
	return err
}

func set[T any](field, to *T) {
	if to != nil {
		*field = *to
	}
}

func save(t *db.Tx, u *User) error {
	if u.Disabled {
		if _, err := t.Exec(`DELETE FROM account_sessions WHERE account = $1`, u.ID); err != nil {
			return err
		}
	}
	return one(t, `UPDATE accounts SET name = $2, role = $3, tier = $4, models = $5, disabled = $6
		WHERE id = $1`, u.ID, u.Name, string(u.Role), u.Tier, listText(u.Models), db.Flag(u.Disabled))
}

// keepAdmin returns [ErrLastAdmin] if u is the last server admin who can sign in.
func keepAdmin(t *db.Tx, u *User) error {
	if u.Role != ServerAdmin || u.Disabled {
		return nil
	}
	if err := t.Serialize("parley accounts admins"); err != nil {
		return err
	}
	var others int
	err := t.One(`SELECT count(*) FROM accounts WHERE role = $1 AND disabled = 0 AND id <> $2`,
		[]any{string(ServerAdmin), u.ID}, &others)
	if err == nil && others == 0 {
		err = ErrLastAdmin
	}
	return err
}

// Delete removes an account, its sessions, identities, passkeys and invitations. What it has
// stored elsewhere is to be deleted before.
func (s *Store) Delete(ctx context.Context, id string) error {
	return s.change(ctx, func(t *db.Tx) error {
		u, err := FindUser(t, id)
		if err != nil {
			return err
		}
		if err := keepAdmin(t, &u); err != nil {
			return err
		}
		for _, query := range []string{`DELETE FROM invitations WHERE account = $1`,
			`DELETE FROM account_sessions WHERE account = $1`, `DELETE FROM external_identities WHERE account = $1`,
			`DELETE FROM passkeys WHERE account = $1`,
			`DELETE FROM accounts WHERE id = $1`} {
			if _, err := t.Exec(query, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// CheckPassword returns the account that an address and a password sign in to, or
// [ErrSignIn]. It takes as long for an address that has no account.
func (s *Store) CheckPassword(ctx context.Context, email, password string) (User, error) {
	var u row
	err := s.db.Read(ctx, func(t *db.Tx) (err error) {
		u, err = findEmail(t, email)
		return err
	})
	if err != nil && !errors.Is(err, db.ErrNoRow) {
		return User{}, err
	}
	ok, err := s.hasher.matches(ctx, u.password, password)
	switch {
	case err != nil:
		return User{}, err
	case !ok || u.Disabled:
		return User{}, ErrSignIn
	}
	return u.User, nil
}

// SetPassword gives an account a new password and ends its sessions but for the one of
// a cookie, which may be empty.
func (s *Store) SetPassword(ctx context.Context, id, password, keep string) error {
	u, err := s.User(ctx, id)
	if err != nil {
		return err
	}
	if err := checkPassword(password, u.Email); err != nil {
		return err
	}
	hash, err := s.hashOf(ctx, password)
	if err != nil {
		return err
	}
	return s.change(ctx, func(t *db.Tx) error { return setPassword(t, id, hash, keep) })
}

func setPassword(t *db.Tx, id, hash, keep string) error {
	if err := closeOthers(t, id, keep); err != nil {
		return err
	}
	return one(t, `UPDATE accounts SET password = $2 WHERE id = $1`, id, hash)
}
