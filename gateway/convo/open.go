package convo

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	sqlite3 "modernc.org/sqlite/lib"
)

// Open opens the store that dsn names and brings its schema up to date. dsn is
// the path of an SQLite file, which is made if it is missing, or the same as
// sqlite:PATH; or the URL of a PostgreSQL database, postgres://user@host/name.
// Several processes may open the same store at the same time.
func Open(ctx context.Context, dsn string) (Store, error) {
	kind, place, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	open := openSQLite
	if kind == kindPostgres {
		open = openPostgres
	}
	d, err := open(ctx, place)
	if err != nil {
		return nil, err
	}
	if err := d.migrate(ctx); err != nil {
		_ = d.Close() // the failure to migrate is the one to tell
		if sqliteCode(err) == sqlite3.SQLITE_NOTADB {
			err = fmt.Errorf("%w: %s is a file of another kind; give another path", err, place)
		}
		return nil, err
	}
	return d, nil
}

const (
	kindSQLite   = "sqlite"
	kindPostgres = "postgres"
)

// parseDSN says which database dsn names, and where it is.
func parseDSN(dsn string) (kind, place string, err error) {
	scheme, rest, isURL := strings.Cut(dsn, ":")
	switch {
	case isURL && (scheme == "postgres" || scheme == "postgresql"):
		return kindPostgres, dsn, nil
	case isURL && scheme == "sqlite":
		// sqlite:///absolute and sqlite://relative are what other tools write.
		place, err = url.PathUnescape(strings.TrimPrefix(rest, "//"))
	case strings.Contains(dsn, "://"):
		return "", "", fmt.Errorf("the conversation store %q is of no known kind: give the path of an SQLite file, or postgres://user@host/name", scheme+"://…")
	default:
		place = dsn
	}
	if err != nil || place == "" || strings.HasPrefix(place, ":memory:") || strings.ContainsRune(place, 0) {
		return "", "", fmt.Errorf("the conversation store %q names no file: give the path of one, such as parley.db, or postgres://user@host/name", dsn)
	}
	return kindSQLite, place, nil
}
