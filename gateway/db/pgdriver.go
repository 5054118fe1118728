package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
)

// This file lets database/sql pool connections of pgx. It knows what our
// SQL needs: transactions, statements in them, and columns that are
// integers, texts, bytes and truth values. (pgx has an adapter of its own,
// which brings a second pool and that pool's dependencies.)

// errConnectionLost says that the server closed the connection in the middle.
var errConnectionLost = errors.New("the connection to PostgreSQL was lost")

// pingAfter is how long a connection may lie idle before it is tried out.
const pingAfter = time.Second

type connector struct{ config *pgx.ConnConfig }

// Connect opens a connection.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, c.config.Copy())
	if err != nil {
		return nil, err
	}
	return &pgConn{conn: conn, used: time.Now()}, nil
}

// Driver is asked for by database/sql and never used.
func (c *connector) Driver() driver.Driver { return noDriver{} }

type noDriver struct{}

func (noDriver) Open(string) (driver.Conn, error) {
	return nil, errors.New("connections are opened by a connector")
}

// A pgConn is a connection as database/sql sees it.
type pgConn struct {
	conn *pgx.Conn
	used time.Time
}

func (c *pgConn) Prepare(string) (driver.Stmt, error) { return nil, driver.ErrSkip }
func (c *pgConn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}
func (c *pgConn) IsValid() bool { return !c.conn.IsClosed() }

// closeWaitMax bounds how long a server that does not answer is told goodbye.
const closeWaitMax = time.Second

func (c *pgConn) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWaitMax)
	defer cancel()
	return c.conn.Close(ctx)
}

// ResetSession has the pool throw away a connection that broke, that a
// transaction was left open on, or that does not answer after a rest.
func (c *pgConn) ResetSession(ctx context.Context) error {
	if c.conn.IsClosed() || c.conn.PgConn().TxStatus() != 'I' {
		return driver.ErrBadConn
	}
	if time.Since(c.used) > pingAfter && c.conn.Ping(ctx) != nil {
		return driver.ErrBadConn
	}
	c.used = time.Now()
	return nil
}

func (c *pgConn) Ping(ctx context.Context) error { return c.conn.Ping(ctx) }

// BeginTx begins a transaction. Nothing has happened if that fails, so the
// pool may try another connection.
func (c *pgConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	options := pgx.TxOptions{}
	if opts.ReadOnly {
		options = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	}
	tx, err := c.conn.BeginTx(ctx, options)
	if err != nil && c.conn.IsClosed() && ctx.Err() == nil {
		return nil, driver.ErrBadConn
	}
	if err != nil {
		return nil, err
	}
	return &pgTx{ctx, c, tx}, nil
}

type pgTx struct {
	ctx  context.Context
	conn *pgConn
	tx   pgx.Tx
}

func (t *pgTx) Commit() error { return t.conn.lost(t.tx.Commit(t.ctx)) }

// Rollback does not heed the context, whose end is often the reason for it.
func (t *pgTx) Rollback() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWaitMax)
	defer cancel()
	return t.tx.Rollback(ctx)
}

// lost marks an error after which there is no connection any more.
func (c *pgConn) lost(err error) error {
	if err != nil && c.conn.IsClosed() {
		return errors.Join(errConnectionLost, err)
	}
	return err
}

func values(args []driver.NamedValue) []any {
	list := make([]any, len(args))
	for i, arg := range args {
		list[i] = arg.Value
	}
	return list
}

func (c *pgConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	tag, err := c.conn.Exec(ctx, query, values(args)...)
	if err != nil {
		return nil, c.lost(err)
	}
	return driver.RowsAffected(tag.RowsAffected()), nil
}

// QueryContext reads one row ahead: database/sql wants to know the columns
// before it asks for a row, and the server sends them with the first.
func (c *pgConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.conn.Query(ctx, query, values(args)...)
	if err != nil {
		return nil, c.lost(err)
	}
	r := &pgRows{conn: c, rows: rows}
	r.ahead = rows.Next()
	if err := rows.Err(); err != nil {
		return nil, c.lost(err)
	}
	return r, nil
}

type pgRows struct {
	conn  *pgConn
	rows  pgx.Rows
	ahead bool // a row was read that Next has not given yet
}

func (r *pgRows) Close() error {
	r.rows.Close()
	return r.conn.lost(r.rows.Err())
}

func (r *pgRows) Columns() []string {
	fields := r.rows.FieldDescriptions()
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	return names
}

func (r *pgRows) Next(into []driver.Value) error {
	if !r.ahead && !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return r.conn.lost(err)
		}
		return io.EOF
	}
	r.ahead = false
	row, err := r.rows.Values()
	if err != nil {
		return err
	}
	for i, v := range row {
		if small, ok := v.(int32); ok {
			v = int64(small)
		}
		into[i] = v
	}
	return nil
}
