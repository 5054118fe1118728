package convo

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"parley"
)

// A database is a Store over SQL that both SQLite and PostgreSQL understand.
type database struct {
	dialect
	// writer and reader are one pool in PostgreSQL, two in SQLite, where only
	// one connection writes.
	writer, reader *sql.DB
}

// A dialect is how one kind of database differs from the other.
type dialect struct {
	migrations fs.FS
	// parameter is what a query's $ is written as: SQLite says ?1 for $1.
	parameter string
	// lockRow, at the end of a SELECT in a writing transaction, makes others
	// who do the same wait. SQLite needs none: it has one writer.
	lockRow string
	// lockSchema makes processes that start together migrate one by one.
	lockSchema string
	// matches is the condition under which a row of documents matches $1, which
	// matchQuery makes of the words that must be there.
	matches    string
	matchQuery func(exact string, begins []string) string
	// transient reports whether a transaction that failed with err may succeed
	// if it is simply run again; unavailable, whether err is the database's
	// being away or busy.
	transient, unavailable func(err error) bool
}

// waitMax is how long a call tries again while the database is away or busy.
const waitMax = 10 * time.Second

// A transaction runs SQL that is written with $1, $2 and so on.
type transaction struct {
	ctx     context.Context
	tx      *sql.Tx
	dialect *dialect
}

// write runs do in a transaction that may write, again if it must be.
func (d *database) write(ctx context.Context, do func(*transaction) error) error {
	return d.run(ctx, d.writer, nil, do)
}

// read runs do in a transaction that sees one state of the database.
func (d *database) read(ctx context.Context, do func(*transaction) error) error {
	return d.run(ctx, d.reader, &sql.TxOptions{ReadOnly: true}, do)
}

func (d *database) run(ctx context.Context, pool *sql.DB, opts *sql.TxOptions, do func(*transaction) error) error {
	giveUp := time.Now().Add(waitMax)
	for attempt := 0; ; attempt++ {
		err := d.once(ctx, pool, opts, do)
		if err == nil || ctx.Err() != nil || !d.transient(err) || time.Now().After(giveUp) {
			return d.explain(ctx, err)
		}
		pause(ctx, attempt)
	}
}

// pause waits before another attempt: from 10 ms, doubling up to half a
// second, each half by chance, so that those who failed together do not meet
// again.
func pause(ctx context.Context, attempt int) {
	longest := min(10*time.Millisecond<<min(attempt, 10), 500*time.Millisecond)
	select {
	case <-ctx.Done():
	case <-time.After(longest/2 + rand.N(longest/2)):
	}
}

// once runs do in one transaction.
func (d *database) once(ctx context.Context, pool *sql.DB, opts *sql.TxOptions, do func(*transaction) error) error {
	tx, err := pool.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := do(&transaction{ctx, tx, &d.dialect}); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return uncertain{err}
	}
	return nil
}

func (d *dialect) write(query string) string {
	if d.parameter == "$" {
		return query
	}
	return strings.ReplaceAll(query, "$", d.parameter)
}

// findable returns ErrNotFound if an argument is a text that no database
// keeps. Whatever is to be stored was checked before; so it is an id that
// somebody made up.
func findable(args []any) error {
	for _, arg := range args {
		if text, ok := arg.(string); ok && (!utf8.ValidString(text) || strings.ContainsRune(text, 0)) {
			return ErrNotFound
		}
	}
	return nil
}

// exec runs a statement and returns how many rows it touched.
func (t *transaction) exec(query string, args ...any) (int64, error) {
	if err := findable(args); err != nil {
		return 0, err
	}
	result, err := t.tx.ExecContext(t.ctx, t.dialect.write(query), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// one scans the only row of a query; no row is ErrNotFound.
func (t *transaction) one(query string, args []any, into ...any) error {
	if err := findable(args); err != nil {
		return err
	}
	err := t.tx.QueryRowContext(t.ctx, t.dialect.write(query), args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	return err
}

// all scans every row of a query with scanRow.
func all[T any](t *transaction, scanRow func(row, *T) error, query string, args ...any) ([]T, error) {
	if err := findable(args); err != nil {
		return nil, err
	}
	rows, err := t.tx.QueryContext(t.ctx, t.dialect.write(query), args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var found []T
	for rows.Next() {
		var v T
		if err := scanRow(rows, &v); err != nil {
			return nil, err
		}
		found = append(found, v)
	}
	return found, rows.Err()
}

// only scans the one row of a query with scanRow; no row is ErrNotFound.
func only[T any](t *transaction, scanRow func(row, *T) error, query string, args ...any) (v T, err error) {
	found, err := all(t, scanRow, query, args...)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return v, err
	}
	return found[0], nil
}

// A row is what can be scanned.
type row interface{ Scan(into ...any) error }

// The forms in which values are kept.

func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func unstamp(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
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

// Ping returns nil if the database answers.
func (d *database) Ping(ctx context.Context) error {
	return d.read(ctx, func(t *transaction) error {
		var one int64
		return t.one(`SELECT count(*) FROM schema_versions`, nil, &one)
	})
}

// Close ends all use of the database.
func (d *database) Close() error {
	err := d.writer.Close()
	if d.reader != d.writer {
		err = errors.Join(err, d.reader.Close())
	}
	return err
}
