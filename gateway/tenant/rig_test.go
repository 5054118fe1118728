package tenant

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley"
	"parley/gateway/db"
	"parley/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func sqliteDSN(t testing.TB) string { return filepath.Join(t.TempDir(), "parley.db") }

// onBoth runs test with a new SQLite and a new PostgreSQL store.
func onBoth(t *testing.T, test func(t *testing.T, dsn string)) {
	t.Run("SQLite", func(t *testing.T) { test(t, sqliteDSN(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, testkit.PostgresDSN(t)) })
}

func opened(t testing.TB, dsn string) *Store {
	t.Helper()
	d := must(db.Open(context.Background(), dsn))(t)
	t.Cleanup(func() { check(t, d.Close()) })
	return must(New(context.Background(), d))(t)
}

// ringOf makes a keyring of a store's own connection.
func ringOf(t testing.TB, dsn string) *Keyring {
	t.Helper()
	k := must(NewKeyring(context.Background(), opened(t, dsn), DefaultTiers(), slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(k.Close)
	return k
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func fails(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

func refused(t testing.TB, err error, want parley.Code) {
	t.Helper()
	if err == nil || parley.CodeOf(err) != want {
		t.Errorf("got error %v, want one with the code %s", err, want)
	}
}

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

// create makes a key and returns it and its secret.
func create(t testing.TB, s *Store, n NewKey, now time.Time) (Key, string) {
	t.Helper()
	k, secret, err := s.CreateKey(t.Context(), n, now)
	check(t, err)
	return k, secret
}
