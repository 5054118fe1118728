package convo

import (
	"context"
	"errors"
	"strings"

	"parley"
	"parley/gateway/db"
)

// A Store keeps conversations and responses. It is safe for concurrent use, by
// several processes at once.
//
// Ending ctx ends the call; what it had not committed is undone. To keep an
// answer whose client has left, give a context that outlives the client.
type Store struct {
	db *db.DB
	finder
	// pieces has room for the one piece of something large that is being written.
	pieces chan struct{}
	// quota is what the caller may store.
	quota Quota
}

// A finder is how one kind of database finds words.
type finder struct {
	// matches is the condition under which a row of documents matches $1, which
	// matchQuery makes of the words that must be there and of the beginnings of words.
	matches    string
	matchQuery func(exact, begins []string) string
}

var searches = map[db.Kind]finder{
	db.SQLite: {
		matches: `d.n IN (SELECT rowid FROM search WHERE search MATCH $1)`,
		matchQuery: func(exact, begins []string) string {
			var query strings.Builder
			query.WriteString(`"` + strings.Join(exact, `" AND "`) + `"`)
			for _, word := range begins {
				query.WriteString(` AND "` + word + `" *`)
			}
			return query.String()
		},
	},
	db.Postgres: {
		matches: `d.lexemes @@ CAST($1 AS tsquery)`,
		matchQuery: func(exact, begins []string) string {
			var query strings.Builder
			query.WriteString("'" + strings.Join(exact, "' & '") + "'")
			for _, word := range begins {
				query.WriteString(" & '" + word + "':*")
			}
			return query.String()
		},
	},
}

// A transaction is a [db.Tx] that has the steps of this package, and
// ErrNotFound for what is not there.
type transaction struct{ *db.Tx }

// Close ends all use of the database.
func (d *Store) Close() error { return d.db.Close() }

func (d *Store) write(ctx context.Context, do func(*transaction) error) error {
	return d.db.Write(ctx, func(t *db.Tx) error { return do(&transaction{t}) })
}

// writeTogether is write for a small write of which many come at once, and which may be made again.
func (d *Store) writeTogether(ctx context.Context, do func(*transaction) error) error {
	return d.db.WriteTogether(ctx, func(t *db.Tx) error { return do(&transaction{t}) })
}

// SmallWritesMax is how many calls of [Store.AppendEvents] and [Store.Checkpoint] are worth making at once:
// those that SQLite makes one transaction of, and in PostgreSQL few, so that connections are left for what
// clients wait for.
func (d *Store) SmallWritesMax() int {
	if d.db.Kind() == db.SQLite {
		return db.TogetherMax
	}
	return 4
}

// writeReserved is write for deletions, which must succeed on a full disk.
func (d *Store) writeReserved(ctx context.Context, do func(*transaction) error) error {
	return d.db.WriteReserved(ctx, func(t *db.Tx) error { return do(&transaction{t}) })
}

func (d *Store) read(ctx context.Context, do func(*transaction) error) error {
	return d.db.Read(ctx, func(t *db.Tx) error { return do(&transaction{t}) })
}

// found turns the lack of a row into ErrNotFound.
func found(err error) error {
	if errors.Is(err, db.ErrNoRow) {
		return ErrNotFound
	}
	return err
}

func (t *transaction) exec(query string, args ...any) (int64, error) {
	n, err := t.Exec(query, args...)
	return n, found(err)
}

func (t *transaction) one(query string, args []any, into ...any) error {
	return found(t.One(query, args, into...))
}

func all[T any](t *transaction, scanRow func(db.Row, *T) error, query string, args ...any) ([]T, error) {
	rows, err := db.All(t.Tx, scanRow, query, args...)
	return rows, found(err)
}

func only[T any](t *transaction, scanRow func(db.Row, *T) error, query string, args ...any) (T, error) {
	v, err := db.Only(t.Tx, scanRow, query, args...)
	return v, found(err)
}

func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// kept returns the two columns of an error.
func kept(err *parley.Error) (code, text string) {
	if err == nil {
		return "", ""
	}
	return string(err.Code), storable(err.Message)
}

// unkept is the inverse of kept.
func unkept(code, text string) *parley.Error {
	if code == "" {
		return nil
	}
	return &parley.Error{Code: parley.Code(code), Message: text}
}
