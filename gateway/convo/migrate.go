package convo

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

//go:embed migrations
var migrationFiles embed.FS

// migrationsOf returns one database's migrations. Their names begin with their
// numbers, from 0001 on without gaps; each is applied once, in order. One that
// was released is never changed: a change is a new file.
func migrationsOf(kind string) fs.FS {
	dir, err := fs.Sub(migrationFiles, "migrations/"+kind)
	if err != nil {
		panic(err) // the name is ours
	}
	return dir
}

// migrate brings the schema up to date: all that is missing in one
// transaction, or nothing. Processes that start together do it one by one. A
// schema newer than this program is left alone and refused.
func (d *database) migrate(ctx context.Context) error {
	names, err := fs.Glob(d.migrations, "*.sql")
	if err != nil {
		return err
	}
	return d.write(ctx, func(t *transaction) error {
		have, err := t.schemaVersion()
		if err != nil {
			return err
		}
		if have > len(names) {
			return fmt.Errorf("it was written by a newer parley: its schema is number %d, and this one knows %d; run the newer parley, or give this one a store of its own", have, len(names))
		}
		for i, name := range names[have:] {
			if err := t.apply(d.migrations, have+i+1, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// schemaVersion returns the number of the last migration that was applied.
func (t *transaction) schemaVersion() (int, error) {
	if t.dialect.lockSchema != "" {
		if _, err := t.exec(t.dialect.lockSchema); err != nil {
			return 0, err
		}
	}
	if _, err := t.exec(`CREATE TABLE IF NOT EXISTS schema_versions (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, applied BIGINT NOT NULL)`); err != nil {
		return 0, err
	}
	var version int
	return version, t.one(`SELECT coalesce(max(version), 0) FROM schema_versions`, nil, &version)
}

func (t *transaction) apply(from fs.FS, version int, name string) error {
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
	_, err = t.exec(`INSERT INTO schema_versions (version, name, applied) VALUES ($1, $2, $3)`, version, name, time.Now().UnixMicro())
	return err
}
