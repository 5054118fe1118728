package db

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"
)

// A DB runs SQL that both SQLite and PostgreSQL understand. It is safe for
// concurrent use.
type DB struct {
	dialect
	// place is the file's path or the server's address, without a password.
	place string
	// writer and reader are one pool in PostgreSQL, two in SQLite, where only
	// one connection writes.
	writer, reader *sql.DB
	// writes makes transactions of SQLite's one writer begin in the order they came: a pool of database/sql
	// serves those that wait in random order, so that of many some would wait for too long. It is nil in
	// PostgreSQL.
	writes *semaphore.Weighted
	// group has the small writes that share SQLite's transactions.
	group writeGroup
	// reserve is nil in PostgreSQL, whose disk is not ours.
	reserve *reserve
	// full is set from a write that found the disk full until one succeeds.
	full atomic.Bool
}

// A Kind is a kind of database.
type Kind string

// The kinds there are.
const (
	SQLite   Kind = "sqlite"
	Postgres Kind = "postgres"
)

// Kind returns which kind it is.
func (d *DB) Kind() Kind { return d.kind }

// A dialect is how one kind of database differs from the other.
type dialect struct {
	kind Kind
	// parameter is what a query's $ is written as: SQLite says ?1 for $1.
	parameter string
	// lockRow, at the end of a SELECT in a writing transaction, makes others
	// who do the same wait. SQLite needs none: it has one writer.
	lockRow string
	// serialize makes transactions that name the same text one after the other; empty
	// in SQLite, which has one writer.
	serialize string
	// lockSchema makes processes that start together migrate one by one.
	lockSchema string
	// reads are the options of transactions that only read.
	reads sql.TxOptions
	// transient reports whether a transaction that failed with err may succeed
	// if it is simply run again; unavailable, whether err is the database's
	// being away or busy.
	transient, unavailable func(err error) bool
	// full reports whether err says that the disk has no space left. The
	// transaction has then changed nothing, even if err came from its commit.
	full func(err error) bool
}

// waitMax is how long a call tries again while the database is away or busy.
const waitMax = 10 * time.Second

// A Tx runs SQL that is written with $1, $2 and so on.
type Tx struct {
	ctx     context.Context
	tx      *sql.Tx
	dialect *dialect
}

// Write runs do in a transaction that may write, again if it must be.
func (d *DB) Write(ctx context.Context, do func(*Tx) error) error {
	err := d.run(ctx, d.writer, nil, do)
	switch {
	case err == nil:
		d.full.Store(false)
		d.reserve.keep(time.Now())
	case IsFull(err):
		d.full.Store(true)
	}
	return err
}

// WriteReserved is Write for what must also succeed on a full disk: deletions,
// and changes of who may do what.
func (d *DB) WriteReserved(ctx context.Context, do func(*Tx) error) error {
	err := d.Write(ctx, do)
	if IsFull(err) && d.reserve.release() {
		err = d.Write(ctx, do)
	}
	return err
}

// Full reports whether the disk was full when something was last written.
func (d *DB) Full() bool { return d.full.Load() }

// Read runs do in a transaction that sees one state of the database.
func (d *DB) Read(ctx context.Context, do func(*Tx) error) error {
	return d.run(ctx, d.reader, &d.reads, do)
}

func (d *DB) run(ctx context.Context, pool *sql.DB, opts *sql.TxOptions, do func(*Tx) error) error {
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
// second, each half by chance, so that transactions that failed together do not
// collide again.
func pause(ctx context.Context, attempt int) {
	longest := min(10*time.Millisecond<<min(attempt, 10), 500*time.Millisecond)
	select {
	case <-ctx.Done():
	case <-time.After(longest/2 + rand.N(longest/2)):
	}
}

// once runs do in one transaction.
func (d *DB) once(ctx context.Context, pool *sql.DB, opts *sql.TxOptions, do func(*Tx) error) error {
	if pool == d.writer && d.writes != nil {
		if err := d.writes.Acquire(ctx, 1); err != nil {
			return err
		}
		defer d.writes.Release(1)
	}
	tx, err := pool.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := do(&Tx{ctx, tx, &d.dialect}); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return unknownOutcome{err}
	}
	return nil
}

func (d *dialect) rewrite(query string) string {
	if d.parameter == "$" {
		return query
	}
	return strings.ReplaceAll(query, "$", d.parameter)
}

// ErrNoRow says that a query which must have a row has none.
var ErrNoRow = errors.New("no row")

// LockRow, at the end of a SELECT in a writing transaction, makes others who do
// the same wait until its end.
func (t *Tx) LockRow() string { return t.dialect.lockRow }

// Serialize makes other writing transactions that call it with the same name wait
// until the end of this one. They then see what this one has written.
func (t *Tx) Serialize(name string) error {
	if t.dialect.serialize == "" {
		return nil
	}
	_, err := t.Exec(t.dialect.serialize, name)
	return err
}

// findable returns ErrNoRow if an argument is a text that no database
// keeps. Whatever is to be stored was checked before; so it is an id that
// a client made up.
func findable(args []any) error {
	for _, arg := range args {
		if text, ok := arg.(string); ok && (!utf8.ValidString(text) || strings.ContainsRune(text, 0)) {
			return ErrNoRow
		}
	}
	return nil
}

// Exec runs a statement and returns how many rows it touched.
func (t *Tx) Exec(query string, args ...any) (int64, error) {
	if err := findable(args); err != nil {
		return 0, err
	}
	result, err := t.tx.ExecContext(t.ctx, t.dialect.rewrite(query), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// One scans the only row of a query; no row is ErrNoRow.
func (t *Tx) One(query string, args []any, into ...any) error {
	if err := findable(args); err != nil {
		return err
	}
	err := t.tx.QueryRowContext(t.ctx, t.dialect.rewrite(query), args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNoRow
	}
	return err
}

// All scans every row of a query with scanRow.
func All[T any](t *Tx, scanRow func(Row, *T) error, query string, args ...any) ([]T, error) {
	if err := findable(args); err != nil {
		return nil, err
	}
	rows, err := t.tx.QueryContext(t.ctx, t.dialect.rewrite(query), args...)
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

// Only scans the one row of a query with scanRow; no row is ErrNoRow.
func Only[T any](t *Tx, scanRow func(Row, *T) error, query string, args ...any) (v T, err error) {
	found, err := All(t, scanRow, query, args...)
	if err == nil && len(found) == 0 {
		err = ErrNoRow
	}
	if err != nil {
		return v, err
	}
	return found[0], nil
}

// A Row is what can be scanned.
type Row interface{ Scan(into ...any) error }

// Stamp and Unstamp turn a time into what is kept of it, and back:
// microseconds since 1970, 0 for none.
func Stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Unstamp is the inverse of [Stamp].
func Unstamp(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// Flag is what is kept of a truth value: 0 or 1.
func Flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Ping returns nil if the database answers.
func (d *DB) Ping(ctx context.Context) error {
	return d.Read(ctx, func(t *Tx) error {
		var one int64
		return t.One(`SELECT 1`, nil, &one)
	})
}

// Close ends all use of the database. Closing it again does nothing.
func (d *DB) Close() error {
	err := d.writer.Close()
	if d.reader != d.writer {
		err = errors.Join(err, d.reader.Close())
	}
	return err
}
