package testkit

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// PostgresVariable names the database that tests run against.
const PostgresVariable = "PARLEY_TEST_POSTGRES"

// PostgresDSN returns the name of a new PostgreSQL store: a schema of its own,
// which is gone after the test. Without a server the test is skipped, loudly.
func PostgresDSN(t testing.TB) string {
	t.Helper()
	base := os.Getenv(PostgresVariable)
	if base == "" {
		t.Skipf("%s is not set: this is NOT tested with PostgreSQL; run test/postgres.sh go test …", PostgresVariable)
	}
	schema := "test_" + strings.ToLower(rand.Text())
	Administer(t, base, "CREATE SCHEMA "+schema)
	t.Cleanup(func() { Administer(t, base, "DROP SCHEMA "+schema+" CASCADE") })
	address, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	query := address.Query()
	query.Set("search_path", schema)
	address.RawQuery = query.Encode()
	return address.String()
}

// Administer runs one statement beside any store.
func Administer(t testing.TB, dsn, statement string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatal(err)
	}
}
