package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"parley"
	"parley/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const beginning = `CREATE TABLE notes (text TEXT NOT NULL)`

// begin opens a database with a table in it.
func begin(ctx context.Context, dsn string) (*DB, error) {
	d, err := Open(ctx, dsn)
	if err != nil {
		return nil, err
	}
	first := &fstest.MapFile{Data: []byte(beginning)}
	if err := d.Migrate(ctx, Schema{"versions",
		fstest.MapFS{"sqlite/0001_begin.sql": first, "postgres/0001_begin.sql": first}}); err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

func opened(t *testing.T, dsn string) *DB {
	t.Helper()
	d := must(begin(t.Context(), dsn))(t)
	t.Cleanup(func() { check(t, d.Close()) })
	return d
}

// note stores a text.
func (d *DB) note(text string) error {
	return d.Write(context.Background(), func(t *Tx) error {
		_, err := t.Exec(`INSERT INTO notes (text) VALUES ($1)`, text)
		return err
	})
}

func sqliteDSN(t testing.TB) string { return filepath.Join(t.TempDir(), "a store?.db") }

// onBoth runs test with a new SQLite and a new PostgreSQL database.
func onBoth(t *testing.T, test func(t *testing.T, dsn string)) {
	t.Run("SQLite", func(t *testing.T) { test(t, sqliteDSN(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, testkit.PostgresDSN(t)) })
}

func must[T any](v T, err error) func(t testing.TB) T {
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

// refused wants an error with the code given.
func refused(t testing.TB, err error, want parley.Code) {
	t.Helper()
	if err == nil || parley.CodeOf(err) != want {
		t.Errorf("got error %v, want one with the code %s", err, want)
	}
}

func TestParseDSN(t *testing.T) {
	for dsn, want := range map[string][2]any{
		"parley.db":                  {SQLite, "parley.db"},
		"/var/lib/parley/a b.db":     {SQLite, "/var/lib/parley/a b.db"},
		"sqlite:parley.db":           {SQLite, "parley.db"},
		"sqlite:///var/parley%20.db": {SQLite, "/var/parley .db"},
		"C:parley.db":                {SQLite, "C:parley.db"},
		"postgres://u@h/d":           {Postgres, "postgres://u@h/d"},
		"postgresql://u@h/d":         {Postgres, "postgresql://u@h/d"},
	} {
		kind, place, err := parseDSN(dsn)
		if err != nil || any(kind) != want[0] || any(place) != want[1] {
			t.Errorf("%s: %s %s %v", dsn, kind, place, err)
		}
	}
	for _, dsn := range []string{"", "sqlite:", ":memory:", "sqlite::memory:", "mysql://root:secret@h/d", "sqlite:%zz",
		"a\x00b"} {
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
		_, err := begin(t.Context(), dsn)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want it to say: %s", dsn, err, want)
		}
	}
}

func TestSQLiteFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "a?b#c%20.db")
	check(t, opened(t, path).note("here"))
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
	d := opened(t, sqliteDSN(t))
	for name, pool := range map[string]*sql.DB{"writer": d.writer, "reader": d.reader} {
		for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1",
			"busy_timeout": "10000"} {
			var got string
			check(t, pool.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
			if got != want {
				t.Errorf("%s of the %s is %s, want %s", pragma, name, got, want)
			}
		}
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		s := opened(t, dsn)
		check(t, s.Write(t.Context(), func(t *Tx) error {
			_, err := t.Exec(`INSERT INTO versions (version, name, applied) VALUES (99, 'future', 0)`)
			return err
		}))
		_, err := begin(t.Context(), dsn)
		if err == nil || !strings.Contains(err.Error(), "written by a newer parley") {
			t.Errorf("got %v", err)
		}
	})
}

func TestBrokenMigrationChangesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		d := opened(t, dsn)
		files := fstest.MapFS{}
		for _, kind := range []string{"sqlite/", "postgres/"} {
			files[kind+"0001_begin.sql"] = &fstest.MapFile{Data: []byte(beginning)}
			files[kind+"0002_more.sql"] = &fstest.MapFile{Data: []byte(`CREATE TABLE more (a TEXT)`)}
			files[kind+"0003_broken.sql"] = &fstest.MapFile{Data: []byte(
				`CREATE TABLE yet_more (a TEXT); DROP TABLE nothing_of_that_name`)}
		}
		schema := Schema{"versions", files}
		if err := d.Migrate(t.Context(), schema); err == nil || !strings.Contains(err.Error(), "0003_broken.sql") {
			t.Fatalf("got %v", err)
		}
		var version int
		check(t, d.Write(t.Context(), func(t *Tx) (err error) {
			version, err = t.schemaVersion("versions")
			return err
		}))
		if version != 1 {
			t.Errorf("the schema has number %d after a failure", version)
		}
		delete(files, string(d.kind)+"/0003_broken.sql")
		check(t, d.Migrate(t.Context(), schema))
		check(t, d.Migrate(t.Context(), schema))
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
	err := s.Write(short, func(t *Tx) error { return nil })
	refused(t, err, parley.DeadlineExceeded)
	check(t, s.Ping(t.Context())) // readers do not wait

	waited := make(chan error, 1)
	go func() { waited <- s.note("here") }()
	check(t, hold.Rollback())
	check(t, <-waited)
}

// TestFailedCommitIsTold ends the context between the last statement and the
// commit.
func TestFailedCommitIsTold(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		d := opened(t, dsn)
		ctx, cancel := context.WithCancel(t.Context())
		err := d.Write(ctx, func(tx *Tx) error {
			defer cancel()
			_, err := tx.Exec(`INSERT INTO notes (text) VALUES ('ghost')`)
			return err
		})
		refused(t, err, parley.Cancelled)
		var n int
		check(t, d.Read(t.Context(), func(tx *Tx) error { return tx.One(`SELECT count(*) FROM notes`, nil, &n) }))
		if n != 0 {
			t.Errorf("%d rows were stored by a call that failed", n)
		}
	})
}

// TestLostConnectionIsTriedAgain has the server drop a connection in the middle
// of a transaction, which then runs again on another.
func TestLostConnectionIsTriedAgain(t *testing.T) {
	dsn := testkit.PostgresDSN(t)
	d := opened(t, dsn)
	attempts := 0
	check(t, d.Write(t.Context(), func(tx *Tx) error {
		if attempts++; attempts == 1 {
			var pid int
			check(t, tx.One(`SELECT pg_backend_pid()`, nil, &pid))
			testkit.Administer(t, dsn, fmt.Sprintf(`SELECT pg_terminate_backend(%d)`, pid))
		}
		_, err := tx.Exec(`INSERT INTO notes (text) VALUES ('here')`)
		return err
	}))
	if attempts != 2 {
		t.Errorf("the transaction ran %d times", attempts)
	}
}

func TestUnavailableIsTold(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		s := must(begin(t.Context(), dsn))(t)
		check(t, s.Close())
		if err := s.Ping(t.Context()); err == nil {
			t.Error("a closed store answers")
		}
	})
	d := &DB{dialect: postgresDialect}
	lost := d.explain(t.Context(), unknownOutcome{driver.ErrBadConn})
	refused(t, lost, parley.Unavailable)
	if !strings.Contains(lost.Error(), "same idempotency key") || postgresTransient(unknownOutcome{driver.ErrBadConn}) {
		t.Errorf("a commit of unknown outcome: %v", lost)
	}
	refused(t, d.explain(t.Context(), driver.ErrBadConn), parley.Unavailable)
}

func TestReadSeesOneState(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		d := opened(t, dsn)
		count := func(tx *Tx) (n int) {
			check(t, tx.One(`SELECT count(*) FROM notes`, nil, &n))
			return n
		}
		check(t, d.Read(t.Context(), func(tx *Tx) error {
			before := count(tx)
			check(t, d.Write(t.Context(), func(tx *Tx) error {
				_, err := tx.Exec(`INSERT INTO notes (text) VALUES ('meanwhile')`)
				return err
			}))
			if after := count(tx); after != before {
				t.Errorf("a transaction that reads saw %d rows, then %d", before, after)
			}
			return nil
		}))
	})
}

// TestWritesOfSQLiteComeInOrder begins writes while another one runs.
func TestWritesOfSQLiteComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := opened(t, sqliteDSN(t))
		var writers sync.WaitGroup
		release := make(chan struct{})
		writers.Go(func() {
			check(t, d.Write(t.Context(), func(*Tx) error {
				<-release
				return nil
			}))
		})
		synctest.Wait()
		var order []int // guarded by the one writer
		var want []int
		for i := range 20 {
			want = append(want, i)
			writers.Go(func() {
				check(t, d.Write(t.Context(), func(*Tx) error {
					order = append(order, i)
					return nil
				}))
			})
			synctest.Wait()
		}
		close(release)
		writers.Wait()
		if !slices.Equal(order, want) {
			t.Errorf("the writes came in the order %v", order)
		}
	})
}

// TestSmallWritesShareTransactions has many writes come while another one is under way.
func TestSmallWritesShareTransactions(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		d := opened(t, dsn)
		const many = 3*TogetherMax + 1
		wrong := errors.New("wrong")
		failed := make([]error, many)
		transactions := map[*Tx]bool{}
		var mu sync.Mutex
		var all sync.WaitGroup
		blocked, unblock := make(chan struct{}), make(chan struct{})
		all.Go(func() {
			check(t, d.WriteTogether(t.Context(), func(*Tx) error {
				close(blocked)
				<-unblock
				return nil
			}))
		})
		<-blocked
		for i := range many {
			all.Go(func() {
				failed[i] = d.WriteTogether(t.Context(), func(tx *Tx) error {
					mu.Lock()
					transactions[tx] = true
					mu.Unlock()
					if _, err := tx.Exec(`INSERT INTO notes (text) VALUES ($1)`, fmt.Sprint(i)); err != nil {
						return err
					}
					if i == many/2 {
						return wrong
					}
					return nil
				})
			})
		}
		for d.kind == SQLite && d.smallWrites() < many {
			runtime.Gosched()
		}
		close(unblock)
		all.Wait()
		for i, err := range failed {
			if want := i == many/2; errors.Is(err, wrong) != want || err != nil != want {
				t.Errorf("write %d: %v", i, err)
			}
		}
		var rows int
		check(t, d.Read(t.Context(), func(tx *Tx) error { return tx.One(`SELECT count(*) FROM notes`, nil, &rows) }))
		if rows != many-1 {
			t.Errorf("%d rows, not %d", rows, many-1)
		}
		// There are four batches. One is made again without the write that fails.
		if n := len(transactions); d.kind == SQLite && n != 5 {
			t.Errorf("%d transactions", n)
		}
	})
}

// TestSmallWritesAreCancelledAlone has callers leave while their writes wait for a transaction that they would share:
// they are not written, and the others still share one.
func TestSmallWritesAreCancelledAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		d := opened(t, dsn)
		const many = 9
		leaving, leave := context.WithCancel(t.Context())
		transactions := map[*Tx]bool{}
		var mu sync.Mutex
		var all sync.WaitGroup
		blocked, unblock := make(chan struct{}), make(chan struct{})
		all.Go(func() {
			check(t, d.WriteTogether(t.Context(), func(*Tx) error {
				close(blocked)
				<-unblock
				return nil
			}))
		})
		<-blocked
		var failed [many]error
		for i := range many {
			ctx := t.Context()
			if i%3 == 1 {
				ctx = leaving
			}
			all.Go(func() {
				failed[i] = d.WriteTogether(ctx, func(tx *Tx) error {
					mu.Lock()
					defer mu.Unlock()
					transactions[tx] = true
					if i%3 == 1 && d.kind == SQLite {
						t.Errorf("write %d is made for a caller that left", i)
					}
					return nil
				})
			})
		}
		for d.kind == SQLite && d.smallWrites() < many {
			runtime.Gosched()
		}
		leave()
		close(unblock)
		all.Wait()
		for i, err := range failed {
			if d.kind == SQLite && i%3 == 1 {
				refused(t, err, parley.Cancelled)
			} else if i%3 != 1 {
				check(t, err)
			}
		}
		if n := len(transactions); d.kind == SQLite && n != 1 {
			t.Errorf("%d transactions", n)
		}
		refused(t, d.WriteTogether(leaving, func(*Tx) error { return nil }), parley.Cancelled)
	})
}

// TestSmallWritesSurviveAPanic has one of the writes that share a transaction panic, and one end its goroutine: the
// others are written, and so is what comes later.
func TestSmallWritesSurviveAPanic(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		d := opened(t, dsn)
		insert := func(tx *Tx) error {
			_, err := tx.Exec(`INSERT INTO notes (text) VALUES ('x')`)
			return err
		}
		const many = 9
		for _, ill := range []func(){func() { panic("ill") }, runtime.Goexit} {
			var all sync.WaitGroup
			blocked, unblock := make(chan struct{}), make(chan struct{})
			all.Go(func() {
				defer func() { _ = recover() }()
				_ = d.WriteTogether(t.Context(), func(*Tx) error {
					close(blocked)
					<-unblock
					ill()
					return nil
				})
			})
			<-blocked
			var panicked [many]any
			for i := range many {
				all.Go(func() {
					defer func() { panicked[i] = recover() }()
					check(t, d.WriteTogether(t.Context(), func(tx *Tx) error {
						if i == many/2 {
							panic("ill")
						}
						return insert(tx)
					}))
				})
			}
			for d.kind == SQLite && d.smallWrites() < many {
				runtime.Gosched()
			}
			close(unblock)
			all.Wait()
			for i, p := range panicked {
				if (p == "ill") != (i == many/2) || (p == nil) == (i == many/2) {
					t.Errorf("write %d panicked with %v", i, p)
				}
			}
		}
		check(t, d.WriteTogether(t.Context(), insert))
		var rows int
		check(t, d.Read(t.Context(), func(tx *Tx) error { return tx.One(`SELECT count(*) FROM notes`, nil, &rows) }))
		if want := 2*(many-1) + 1; rows != want {
			t.Errorf("%d rows, not %d", rows, want)
		}
	})
}

// smallWrites is how many wait.
func (d *DB) smallWrites() int {
	d.group.mu.Lock()
	defer d.group.mu.Unlock()
	return len(d.group.waiting)
}
