package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	// postgresConnections is the pool's default size; pool_max_conns in the URL
	// sets another.
	postgresConnections = 16
	postgresIdleMax     = 5 * time.Minute
	postgresConnectMax  = 5 * time.Second
	// abandonedMax ends a transaction whose process stopped in the middle, so
	// that it does not lock a conversation for ever.
	abandonedMax = "60s"
)

var postgresDialect = dialect{
	kind:      Postgres,
	parameter: "$",
	lockRow:   " FOR UPDATE",
	reads:     sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead},
	// Two names with one hash wait for each other, which does no harm.
	serialize: `SELECT pg_advisory_xact_lock(hashtextextended($1, 7236275002))`,
	// The number is arbitrary, and the same in every process.
	lockSchema:  `SELECT pg_advisory_xact_lock(7236275001)`,
	transient:   postgresTransient,
	unavailable: postgresAway,
	full: func(err error) bool {
		failure, ok := errors.AsType[*pgconn.PgError](err)
		return ok && failure.Code == pgerrDiskFull
	},
}

// pgerrDiskFull is PostgreSQL's code for a disk without space.
const pgerrDiskFull = "53100"

// openPostgres connects to the database that address names.
func openPostgres(ctx context.Context, address string) (*DB, error) {
	config, connections, err := postgresConfig(address)
	if err != nil {
		return nil, err
	}
	pool := stdlib.OpenDB(*config)
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	pool.SetConnMaxIdleTime(postgresIdleMax)
	place := net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
	if err := pool.PingContext(ctx); err != nil {
		return nil,
			errors.Join(
				fmt.Errorf(
					"the store at %s does not answer: %w; check that PostgreSQL runs there and that the user, "+
						"password and database name are right", place, err), pool.Close())
	}
	return &DB{dialect: postgresDialect, place: place, writer: pool, reader: pool}, nil
}

// postgresConfig reads a URL. What it does not set is set here.
func postgresConfig(address string) (*pgx.ConnConfig, int, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, 0, fmt.Errorf(
			"the address of the store cannot be read: %w; write postgres://user:password@host:5432/name", err)
	}
	connections := postgresConnections
	if text, ok := config.RuntimeParams["pool_max_conns"]; ok {
		delete(config.RuntimeParams, "pool_max_conns")
		if connections, err = strconv.Atoi(text); err != nil || connections < 1 {
			return nil, 0, fmt.Errorf("pool_max_conns of the store is %q: it must be 1 or more", text)
		}
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = postgresConnectMax
	}
	defaults := map[string]string{"application_name": "parley", "idle_in_transaction_session_timeout": abandonedMax}
	for name, value := range defaults {
		if _, set := config.RuntimeParams[name]; !set {
			config.RuntimeParams[name] = value
		}
	}
	return config, connections, nil
}

// postgresTransient reports whether running the transaction again may help. A
// commit whose outcome is not known is not run again: it may have been done.
func postgresTransient(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(e.Code, "40") && e.Code != "40003" {
		return true // rolled back for the sake of another; even a commit did nothing
	}
	if _, unsure := errors.AsType[unknownOutcome](err); unsure {
		return false
	}
	return postgresAway(err)
}

// awayCodes are the failures by which a server that stops, starts, is full or
// stands by turns a client away.
var awayCodes = []string{"57P01", "57P02", "57P03", "57P05", "53300", "53100", "25006", "25P03"}

// postgresAway reports whether err is the server's being away, not its opinion
// of a statement.
func postgresAway(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(e.Code, "08") || slices.Contains(awayCodes, e.Code)
	}
	_, connect := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	return connect || network || pgconn.SafeToRetry(err) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
