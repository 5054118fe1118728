package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteReaders is how many connections read an SQLite file at once.
const sqliteReaders = 8

// sqliteSettings are given to every connection. The log is written ahead, so
// that readers and the writer do not wait for each other, and every commit is
// on the disk before it is acknowledged (synchronous FULL). Waiting for another
// process that writes is bounded by waitMax.
var sqliteSettings = url.Values{
	"_busy_timeout": {fmt.Sprint(waitMax.Milliseconds())},
	"_journal_mode": {"WAL"},
	"_synchronous":  {"FULL"},
	"_foreign_keys": {"on"},
	"_dqs":          {"0"},
	"_pragma":       {"journal_size_limit(67108864)", "secure_delete(fast)"},
}

var sqliteDialect = dialect{
	kind:        SQLite,
	parameter:   "?",
	reads:       sql.TxOptions{ReadOnly: true},
	transient:   sqliteBusy,
	unavailable: sqliteBusy,
	full:        func(err error) bool { return sqliteCode(err) == sqlite3.SQLITE_FULL },
}

// openSQLite opens the file at path and makes it if it is missing, readable
// for this account alone.
func openSQLite(_ context.Context, path string) (*DB, error) {
	if err := makeFile(path); err != nil {
		return nil,
			fmt.Errorf("the store cannot be made: %w; give the path of a file in a directory that can be written", err)
	}
	writer, err := openSQLitePool(path, url.Values{"_txlock": {"immediate"}}, 1)
	if err != nil {
		return nil, err
	}
	reader, err := openSQLitePool(path, url.Values{"_query_only": {"on"}}, sqliteReaders)
	if err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	d := &DB{
		dialect: sqliteDialect,
		place:   path,
		writer:  writer,
		reader:  reader,
		writes:  semaphore.NewWeighted(1),
		reserve: &reserve{path: path + ".reserve"},
	}
	d.reserve.keep(time.Now())
	return d, nil
}

func makeFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

func openSQLitePool(path string, more url.Values, connections int) (*sql.DB, error) {
	query := sqliteSettings.Encode() + "&" + more.Encode()
	name := (&url.URL{Scheme: "file", Opaque: strings.ReplaceAll(url.PathEscape(path), "%2F", "/"),
		RawQuery: query}).String()
	pool, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return pool, nil
}

// sqliteCode returns the primary result code of err, or 0.
func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// sqliteBusy reports whether another process held the file. Even a commit
// that meets this has done nothing.
func sqliteBusy(err error) bool {
	code := sqliteCode(err)
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED
}
