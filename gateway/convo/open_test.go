package convo

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"parley"
)

func TestParseDSN(t *testing.T) {
	for dsn, want := range map[string][2]string{
		"parley.db":                  {kindSQLite, "parley.db"},
		"/var/lib/parley/a b.db":     {kindSQLite, "/var/lib/parley/a b.db"},
		"sqlite:parley.db":           {kindSQLite, "parley.db"},
		"sqlite:///var/parley%20.db": {kindSQLite, "/var/parley .db"},
		"C:parley.db":                {kindSQLite, "C:parley.db"},
		"postgres://u@h/d":           {kindPostgres, "postgres://u@h/d"},
		"postgresql://u@h/d":         {kindPostgres, "postgresql://u@h/d"},
	} {
		kind, place, err := parseDSN(dsn)
		if err != nil || kind != want[0] || place != want[1] {
			t.Errorf("%s: %s %s %v", dsn, kind, place, err)
		}
	}
	for _, dsn := range []string{"", "sqlite:", ":memory:", "sqlite::memory:", "mysql://root:secret@h/d", "sqlite:%zz", "a\x00b"} {
		_, _, err := parseDSN(dsn)
		if err == nil || !strings.Contains(err.Error(), "give the path") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", dsn, err)
		}
	}
}

func TestOpenSaysWhatToDo(t *testing.T) {
	other := filepath.Join(t.TempDir(), "text")
	check(t, os.WriteFile(other, []byte(strings.Repeat("no database ", 100)), 0o600))
	for dsn, want := range map[string]string{
		other:                                         "give another path",
		filepath.Join(other, "sub.db"):                "give the path of a file",
		"postgres://u:secret@127.0.0.1:1/d":           "check that PostgreSQL runs there",
		"postgres://u:secret@127.0.0.1:x/d":           "write postgres://",
		"postgres://u:secret@h/d?pool_max_conns=none": "must be 1 or more",
	} {
		_, err := Open(t.Context(), dsn)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want it to say: %s", dsn, err, want)
		}
	}
}

func TestSQLiteFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "a?b#c%20.db")
	s := opened(t, path)
	check(t, s.Beat(t.Context(), "here", at(1)))
	entries := must(os.ReadDir(filepath.Dir(path)))(t)
	if len(entries) == 0 {
		t.Fatal("no file was made")
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), filepath.Base(path)) {
			t.Errorf("a file named %q was made", e.Name())
		}
		if mode := must(e.Info())(t).Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %o", e.Name(), mode)
		}
	}
}

// TestSQLiteSettings checks what durability rests on, on both kinds of
// connection.
func TestSQLiteSettings(t *testing.T) {
	d := opened(t, sqliteDSN(t)).(*database)
	for name, pool := range map[string]*sql.DB{"writer": d.writer, "reader": d.reader} {
		for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "10000"} {
			var got string
			check(t, pool.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
			if got != want {
				t.Errorf("%s of the %s is %s, want %s", pragma, name, got, want)
			}
		}
	}
}

// TestOpenedTogether has several processes' worth of stores open at once.
func TestOpenedTogether(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		stores := make([]Store, 8)
		var group sync.WaitGroup
		for i := range stores {
			group.Go(func() {
				s, err := Open(t.Context(), dsn)
				if err != nil {
					t.Error(err)
					return
				}
				stores[i] = s
			})
		}
		group.Wait()
		for _, s := range stores {
			if s == nil {
				continue
			}
			if _, err := s.CreateConversation(t.Context(), ann, NewConversation{}, at(0)); err != nil {
				t.Error(err)
			}
			check(t, s.Close())
		}
		list := must(opened(t, dsn).Conversations(t.Context(), ann, Filter{}, Page{}))(t)
		if len(list.Items) != len(stores) {
			t.Errorf("%d conversations, want %d", len(list.Items), len(stores))
		}
	})
}

func TestNewerSchemaIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		s := opened(t, dsn)
		check(t, s.(*database).write(t.Context(), func(t *transaction) error {
			_, err := t.exec(`INSERT INTO schema_versions (version, name, applied) VALUES (99, 'future', 0)`)
			return err
		}))
		_, err := Open(t.Context(), dsn)
		if err == nil || !strings.Contains(err.Error(), "written by a newer parley") {
			t.Errorf("got %v", err)
		}
	})
}

func TestBrokenMigrationChangesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		d := opened(t, dsn).(*database)
		first := must(migrationsOf(kindSQLite).(interface {
			ReadFile(string) ([]byte, error)
		}).ReadFile("0001_begin.sql"))(t)
		d.migrations = fstest.MapFS{
			"0001_begin.sql":  {Data: first},
			"0002_more.sql":   {Data: []byte(`CREATE TABLE more (a TEXT)`)},
			"0003_broken.sql": {Data: []byte(`CREATE TABLE yet_more (a TEXT); DROP TABLE nothing_of_that_name`)},
		}
		if err := d.migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "0003_broken.sql") {
			t.Fatalf("got %v", err)
		}
		var version int
		check(t, d.write(t.Context(), func(t *transaction) (err error) {
			version, err = t.schemaVersion()
			return err
		}))
		if version != 1 {
			t.Errorf("the schema has number %d after a failure", version)
		}
		delete(d.migrations.(fstest.MapFS), "0003_broken.sql")
		check(t, d.migrate(t.Context()))
		check(t, d.migrate(t.Context()))
	})
}

// TestSQLiteWaitsForOtherWriters has another connection hold the write lock.
func TestSQLiteWaitsForOtherWriters(t *testing.T) {
	dsn := sqliteDSN(t)
	s := opened(t, dsn)
	other := must(sql.Open("sqlite", "file:"+url.PathEscape(dsn)+"?_txlock=immediate"))(t)
	defer other.Close()
	hold := must(other.BeginTx(t.Context(), nil))(t)

	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := s.Beat(short, "here", at(1))
	refused(t, err, parley.DeadlineExceeded)
	must(s.Conversations(t.Context(), ann, Filter{}, Page{}))(t) // readers do not wait

	waited := make(chan error, 1)
	go func() { waited <- s.Beat(context.Background(), "here", at(1)) }()
	check(t, hold.Rollback())
	check(t, <-waited)
}

// TestFailedCommitIsTold ends the context between the last statement and the
// commit.
func TestFailedCommitIsTold(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		d := opened(t, dsn).(*database)
		ctx, cancel := context.WithCancel(t.Context())
		err := d.write(ctx, func(tx *transaction) error {
			defer cancel()
			_, err := tx.exec(`INSERT INTO processes (id, alive_until) VALUES ('ghost', 1)`)
			return err
		})
		refused(t, err, parley.Cancelled)
		var n int
		check(t, d.read(t.Context(), func(tx *transaction) error { return tx.one(`SELECT count(*) FROM processes`, nil, &n) }))
		if n != 0 {
			t.Errorf("%d rows were stored by a call that failed", n)
		}
	})
}

// TestLostConnectionIsTriedAgain has the server drop a connection in the middle
// of a transaction, which then runs again on another.
func TestLostConnectionIsTriedAgain(t *testing.T) {
	dsn := postgresDSN(t)
	d := opened(t, dsn).(*database)
	attempts := 0
	check(t, d.write(t.Context(), func(tx *transaction) error {
		if attempts++; attempts == 1 {
			var pid int
			check(t, tx.one(`SELECT pg_backend_pid()`, nil, &pid))
			administer(t, dsn, fmt.Sprintf(`SELECT pg_terminate_backend(%d)`, pid))
		}
		_, err := tx.exec(`INSERT INTO processes (id, alive_until) VALUES ('here', 1)`)
		return err
	}))
	if attempts != 2 {
		t.Errorf("the transaction ran %d times", attempts)
	}
}

func TestUnavailableIsTold(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		s := must(Open(t.Context(), dsn))(t)
		check(t, s.Close())
		if err := s.Ping(t.Context()); err == nil {
			t.Error("a closed store answers")
		}
	})
	d := &database{dialect: postgresDialect}
	lost := d.explain(t.Context(), uncertain{errConnectionLost})
	refused(t, lost, parley.Unavailable)
	if !strings.Contains(lost.Error(), "same idempotency key") || postgresTransient(uncertain{errConnectionLost}) {
		t.Errorf("a commit of unknown outcome: %v", lost)
	}
	refused(t, d.explain(t.Context(), errConnectionLost), parley.Unavailable)
}
