package db

import (
	"context"
	"fmt"
	"net/url"
	"strings"
)

// Open opens the database that dsn names. dsn is the path of an SQLite file,
// which is made if it is missing, or the same as sqlite:PATH; or the URL of a
// PostgreSQL database, postgres://user@host/name. Several processes may open the
// same one at the same time.
func Open(ctx context.Context, dsn string) (*DB, error) {
	kind, place, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	if kind == Postgres {
		return openPostgres(ctx, place)
	}
	return openSQLite(ctx, place)
}

// parseDSN says which database dsn names, and where it is.
func parseDSN(dsn string) (kind Kind, place string, err error) {
	scheme, rest, isURL := strings.Cut(dsn, ":")
	switch {
	case isURL && (scheme == "postgres" || scheme == "postgresql"):
		return Postgres, dsn, nil
	case isURL && scheme == "sqlite":
		// sqlite:///absolute and sqlite://relative are what other tools write.
		place, err = url.PathUnescape(strings.TrimPrefix(rest, "//"))
	case strings.Contains(dsn, "://"):
		return "", "",
			fmt.Errorf(
				"the store %q is of no known kind: give the path of an SQLite file, or postgres://user@host/name",
				scheme+"://…")
	default:
		place = dsn
	}
	if err != nil || place == "" || strings.HasPrefix(place, ":memory:") || strings.ContainsRune(place, 0) {
		return "", "", fmt.Errorf(
			"the store %q names no file: give the path of one, such as parley.db, or postgres://user@host/name", dsn)
	}
	return SQLite, place, nil
}
