package accounts

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"parley"
	"parley/gateway/db"
	"parley/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onBoth runs test with a new SQLite and a new PostgreSQL store.
func onBoth(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Run("SQLite", func(t *testing.T) { test(t, opened(t, filepath.Join(t.TempDir(), "parley.db"))) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, opened(t, testkit.PostgresDSN(t))) })
}

func opened(t testing.TB, dsn string) *Store {
	t.Helper()
	d := must(db.Open(context.Background(), dsn))(t)
	t.Cleanup(func() { check(t, d.Close()) })
	return must(New(context.Background(), d))(t)
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

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

const secret = "correct horse battery"

// generation returns that of a store.
func generation(t testing.TB, s *Store) (now State) {
	t.Helper()
	check(t, s.db.Read(t.Context(), func(tx *db.Tx) (err error) {
		now, err = ReadState(tx)
		return err
	}))
	return now
}

// create makes an account in the organisation acme.
func create(t testing.TB, s *Store, email string, role Role) User {
	t.Helper()
	return must(s.Create(t.Context(), NewUser{
		Email:    email,
		Name:     "Ann",
		Password: secret,
		Grant:    Grant{Role: role, Organization: "acme"},
	}, at(0)))(t)
}
