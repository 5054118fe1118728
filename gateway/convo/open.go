package convo

import (
	"context"
	"embed"
	"io/fs"

	"parley/gateway/db"
)

//go:embed migrations
var migrationFiles embed.FS

// schema returns the tables of this package.
func schema() db.Schema {
	dir, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the name is ours
	}
	return db.Schema{Versions: "schema_versions", Migrations: dir}
}

// Open opens the store that dsn names, which is as [db.Open] has it, and brings
// its schema up to date.
func Open(ctx context.Context, dsn string) (*Store, error) {
	d, err := db.Open(ctx, dsn)
	if err != nil {
		return nil, err
	}
	s, err := New(ctx, d)
	if err != nil {
		_ = d.Close() // the failure to migrate is the one to tell
	}
	return s, err
}

// New keeps conversations in d, beside what others keep there. Closing the
// store closes d.
func New(ctx context.Context, d *db.DB) (*Store, error) {
	if err := d.Migrate(ctx, schema()); err != nil {
		return nil, err
	}
	return &Store{db: d, finder: searches[d.Kind()], pieces: make(chan struct{}, 1)}, nil
}
