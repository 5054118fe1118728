package accounts

import (
	"context"
	"embed"
	"errors"
	"io/fs"

	"parley/gateway/db"
)

//go:embed migrations
var migrationFiles embed.FS

// A Store keeps accounts in a database, beside what others keep there. It is safe for
// concurrent use, by several processes.
type Store struct {
	db     *db.DB
	hasher *hasher
}

// New brings the tables up to date and returns the store in them.
func New(ctx context.Context, d *db.DB) (*Store, error) {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	if err := d.Migrate(ctx, db.Schema{Versions: "schema_versions_accounts", Migrations: files}); err != nil {
		return nil, err
	}
	return &Store{db: d, hasher: newHasher()}, nil
}

// A State is what a gateway asks for again and again.
type State struct {
	// Generation grows with every change to accounts, and when sessions are closed.
	Generation int64
	// Accounts is how many there are, disabled ones included.
	Accounts int
}

// ReadState returns the present state, as a transaction sees it.
func ReadState(t *db.Tx) (now State, err error) {
	return now, t.One(`SELECT generation, (SELECT count(*) FROM accounts) FROM account_state`, nil, &now.Generation,
		&now.Accounts)
}

// change runs do and counts the generation up, in one transaction.
func (s *Store) change(ctx context.Context, do func(*db.Tx) error) error {
	return found(s.db.WriteReserved(ctx, func(t *db.Tx) error {
		if _, err := t.Exec(`UPDATE account_state SET generation = generation + 1`); err != nil {
			return err
		}
		return do(t)
	}))
}

func found(err error) error {
	if errors.Is(err, db.ErrNoRow) {
		return ErrNotFound
	}
	return err
}

// one runs a statement that must touch a row.
func one(t *db.Tx, query string, args ...any) error {
	n, err := t.Exec(query, args...)
	if err == nil && n == 0 {
		err = db.ErrNoRow
	}
	return err
}
