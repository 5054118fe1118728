package db

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// A Schema is the tables of one package. The packages that share a database
// bring theirs up to date independently of each other.
type Schema struct {
	// Versions is the table of applied migrations; each
	// schema has its own.
	Versions string
	// Migrations has a directory of SQL files for each kind of database. Their
	// names begin with their numbers, from 0001 on without gaps; each is applied
	// once, in order. One that was released is never changed: a change is a new file.
	Migrations fs.FS
}

// Migrate brings the schema up to date: all that is missing in one
// transaction, or nothing. Processes that start together do it one by one. A
// schema newer than this program is left alone and refused.
func (d *DB) Migrate(ctx context.Context, s Schema) error {
	files, err := fs.Sub(s.Migrations, string(d.kind))
	if err != nil {
		return err
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return err
	}
	err = d.Write(ctx, func(t *Tx) error {
		have, err := t.schemaVersion(s.Versions)
		if err != nil {
			return err
		}
		if have > len(names) {
			return fmt.Errorf(
				"it was written by a newer parley: its schema is number %d, and this one knows %d; run the newer "+
					"parley, or give this one a store of its own", have, len(names))
		}
		for i, name := range names[have:] {
			if err := t.apply(s.Versions, files, have+i+1, name); err != nil {
				return err
			}
		}
		return nil
	})
	if sqliteCode(err) == sqlite3.SQLITE_NOTADB {
		err = fmt.Errorf("%w: %s is a file of another kind; give another path", err, d.place)
	}
	return err
}

// schemaVersion returns the number of the last migration that was applied.
func (t *Tx) schemaVersion(versions string) (int, error) {
	if t.dialect.lockSchema != "" {
		if _, err := t.Exec(t.dialect.lockSchema); err != nil {
			return 0, err
		}
	}
	if _, err := t.Exec(
		`CREATE TABLE IF NOT EXISTS ` + versions +
			` (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, applied BIGINT NOT NULL)`); err != nil {
		return 0, err
	}
	var version int
	return version, t.One(`SELECT coalesce(max(version), 0) FROM `+versions, nil, &version)
}

func (t *Tx) apply(versions string, from fs.FS, version int, name string) error {
	if !strings.HasPrefix(name, fmt.Sprintf("%04d_", version)) {
		return fmt.Errorf("migration %s should be number %d", name, version)
	}
	text, err := fs.ReadFile(from, name)
	if err != nil {
		return err
	}
	if _, err := t.tx.ExecContext(t.ctx, string(text)); err != nil {
		return fmt.Errorf("migration %s: %w", name, err)
	}
	_, err = t.Exec(`INSERT INTO `+versions+` (version, name, applied) VALUES ($1, $2, $3)`, version, name,
		time.Now().UnixMicro())
	return err
}
