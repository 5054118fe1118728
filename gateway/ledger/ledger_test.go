package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"parley"
	"parley/gateway/db"
	"parley/limit"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// onBoth runs a test with each kind of database.
func onBoth(t *testing.T, test func(t *testing.T, dsn string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "l.db")) })
	t.Run("postgres", func(t *testing.T) {
		dsn := os.Getenv("PARLEY_TEST_POSTGRES")
		if dsn == "" {
			t.Skip(
				"PARLEY_TEST_POSTGRES is not set: the ledger is NOT tested with PostgreSQL; run test/postgres.sh " +
					"go test ./gateway/ledger")
		}
		d, err := db.Open(t.Context(), dsn)
		check(t, err)
		defer d.Close()
		name := fmt.Sprintf("ledger_%d", time.Now().UnixNano())
		check(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec("CREATE SCHEMA " + name)
			return err
		}))
		test(t, dsn+"&search_path="+name)
	})
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// opened returns a ledger and what closes it.
func opened(t testing.TB, dsn string) (*Ledger, func()) {
	t.Helper()
	d, err := db.Open(context.Background(), dsn)
	check(t, err)
	l, err := Open(context.Background(), d, quiet())
	check(t, err)
	return l, sync.OnceFunc(func() {
		check(t, l.Close())
		check(t, d.Close())
	})
}

// TestOldEntriesOfTheServerItself opens a ledger that a version without the column internal
// has written to: entries that the server made itself are told by their names, and requests are
// counted without them.
func TestOldEntriesOfTheServerItself(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		old := fstest.MapFS{}
		check(t, fs.WalkDir(migrationFiles, "migrations", func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || strings.HasPrefix(e.Name(), "0007") {
				return err
			}
			data, err := migrationFiles.ReadFile(path)
			old[strings.TrimPrefix(path, "migrations/")] = &fstest.MapFile{Data: data}
			return err
		}))
		d, err := db.Open(t.Context(), dsn)
		check(t, err)
		check(t, d.Migrate(t.Context(), db.Schema{Versions: "ledger_versions", Migrations: old}))
		check(t, d.Write(t.Context(), func(tx *db.Tx) error {
			for _, id := range []string{"req-1", "req-1-title", "req-1-guard2", "req-2", "req-2-summary"} {
				_, err := tx.Exec("INSERT INTO ledger (id, at, organization, user_id, key_id, model, tier, route, " +
					"input, cached, output, cost_micros, worker, reason, outcome, shared, batch, stages) " +
					"VALUES ('" + id + "', 1, 'acme', '', 'k', 'm', '', '', 10, 0, 5, 3, '', '', 'stop', 0, 0, '')")
				if err != nil {
					return err
				}
			}
			return nil
		}))
		check(t, d.Close())
		l, end := opened(t, dsn)
		defer end()
		sums, err := l.Sums(t.Context(), Query{From: time.Unix(0, 0), To: begin})
		check(t, err)
		if len(sums) != 1 || sums[0].Requests != 2 || sums[0].Input != 50 || sums[0].Cost != 15 {
			t.Errorf("the sums are %+v: want two requests, and the tokens and the cost of all five entries", sums)
		}
	})
}

var begin = time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)

// TestSumsAreExact writes random entries from many sides, some twice, and
// compares every way to sum them up with a plain addition.
func TestSumsAreExact(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l, end := opened(t, dsn)
		defer end()
		random := rand.New(rand.NewPCG(1, 2))
		entries := make([]Entry, 500)
		for i := range entries {
			entries[i] = randomEntry(random, i)
		}
		var writers sync.WaitGroup
		for part := range 10 {
			writers.Go(func() {
				for i := range entries {
					if i%10 == part || i%7 == part {
						if err := l.Append(context.Background(), &entries[i]); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		writers.Wait()
		for _, q := range []Query{
			{From: begin, To: begin.AddDate(0, 0, 3)},
			{From: begin, To: begin.AddDate(0, 0, 3), Width: 24 * time.Hour, By: []By{ByModel, ByKey}},
			{From: begin.Add(time.Hour), To: begin.AddDate(0, 0, 2), Width: time.Hour, By: []By{ByTier, ByBatch},
				Only: map[By][]string{ByOrganization: {"acme"}}},
			{From: begin, To: begin.AddDate(0, 0, 3), By: []By{ByUser, ByOrganization},
				Only: map[By][]string{ByModel: {"a", "b"}, ByBatch: {"0"}}},
			{From: begin, To: begin.AddDate(0, 0, 3), Only: map[By][]string{ByKey: {}}},
			{From: begin, To: begin.AddDate(0, 0, 3), Width: 24 * time.Hour, By: []By{ByTag("team"), ByModel}},
			{From: begin, To: begin.AddDate(0, 0, 3), By: []By{ByTag(oddKey)}, Only: map[By][]string{ByModel: {"a"}}},
		} {
			got, err := l.Sums(t.Context(), q)
			check(t, err)
			if diff := cmp.Diff(byHand(entries, q), byName(got)); diff != "" {
				t.Errorf("%+v: %s", q, diff)
			}
		}
	})
}

func randomEntry(r *rand.Rand, i int) Entry {
	input := r.Int64N(1000)
	return Entry{
		ID:           fmt.Sprint("req_", i),
		At:           begin.Add(time.Duration(r.Int64N(int64(72 * time.Hour)))).Truncate(time.Microsecond),
		Organization: []string{"acme", "local"}[r.IntN(2)], User: []string{"", "ann"}[r.IntN(2)],
		Key:   fmt.Sprint("key_", r.IntN(3)),
		Model: []string{"a", "b", "c"}[r.IntN(3)], Tier: parley.Class(r.IntN(parley.Classes)),
		Route: "/v1/chat/completions",
		Input: input, Cached: r.Int64N(input + 1), Output: r.Int64N(500), Cost: limit.Micros(r.Int64N(1_000_000)),
		Batch:  r.IntN(2) == 1,
		Tags:   []Tags{nil, {"team": "red"}, {"team": `b"l'ue`, oddKey: "x"}, {oddKey: "ü"}}[r.IntN(4)],
		Stages: Stages{Auth: 3 * time.Microsecond},
	}
}

// oddKey is the key of a tag that would be wrong as a part of a query.
const oddKey = `$."a'b`

func (e *Entry) value(by By) string {
	if key, isTag := strings.CutPrefix(string(by), "tag:"); isTag {
		return e.Tags[key]
	}
	return map[By]string{ByOrganization: e.Organization, ByUser: e.User, ByKey: e.Key, ByModel: e.Model,
		ByTier: e.Tier.String(), ByBatch: fmt.Sprint(db.Flag(e.Batch))}[by]
}

// byHand adds up as Sums should.
func byHand(entries []Entry, q Query) map[string]Sum {
	sums := map[string]Sum{}
next:
	for i := range entries {
		e := &entries[i]
		if e.At.Before(q.From) || !e.At.Before(q.To) {
			continue
		}
		for by, values := range q.Only {
			if !strings.Contains(" "+strings.Join(values, " ")+" ", " "+e.value(by)+" ") || len(values) == 0 {
				continue next
			}
		}
		s := Sum{Group: map[By]string{}}
		if q.Width > 0 {
			s.Bucket = int64(e.At.Sub(q.From) / q.Width)
		}
		for _, by := range q.By {
			s.Group[by] = e.value(by)
		}
		name := s.name()
		if before, known := sums[name]; known {
			s = before
		}
		s.Requests++
		s.Input += e.Input
		s.Cached += e.Cached
		s.Output += e.Output
		s.Cost += e.Cost
		sums[name] = s
	}
	return sums
}

func (s *Sum) name() string { return fmt.Sprint(s.Bucket, s.Group) }

func byName(sums []Sum) map[string]Sum {
	named := map[string]Sum{}
	for i := range sums {
		named[sums[i].name()] = sums[i]
	}
	return named
}

func TestSpentOfAMonth(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l, end := opened(t, dsn)
		defer end()
		for i, e := range []Entry{
			{At: begin.AddDate(0, -1, 0), Organization: "acme", Key: "k", Cost: 1},
			{At: begin, Organization: "acme", Key: "k", Cost: 10},
			{At: begin, Organization: "acme", Key: "other", Cost: 100},
			{At: begin, Organization: "else", Key: "k2", Cost: 1000},
		} {
			e.ID = fmt.Sprint(i)
			check(t, l.Append(t.Context(), &e))
		}
		for key, want := range map[string]limit.Micros{"": 110, "k": 10, "none": 0} {
			if got, err := l.Spent(t.Context(), "acme", key, begin.Add(time.Hour)); err != nil || got != want {
				t.Errorf("key %q spent %d, %v; want %d", key, got, err, want)
			}
		}
	})
}

func TestAccountsAreKept(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l, end := opened(t, dsn)
		now := begin
		fresh := limit.State{At: now.UnixMicro(), Debt: [5]int64{1, 2, 3, 1 << 50, 4}}
		check(t, l.SaveAccounts(t.Context(),
			map[string]limit.State{"a": {At: 7}, "old": {At: now.Add(-2 * time.Hour).UnixMicro()}}))
		check(t, l.SaveAccounts(t.Context(), map[string]limit.State{"a": fresh}))
		end()
		l, end = opened(t, dsn)
		defer end()
		got, err := l.LoadAccounts(t.Context(), now)
		check(t, err)
		if diff := cmp.Diff(map[string]limit.State{"a": fresh}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestEstimatesAreMarked finds in the table which entries have tokens that were estimated.
func TestEstimatesAreMarked(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l, end := opened(t, dsn)
		defer end()
		for id, estimated := range map[string]bool{"counted": false, "guessed": true} {
			check(t, l.Append(t.Context(), &Entry{ID: id, At: begin, Estimated: estimated}))
		}
		var marked []string
		check(t, l.db.Read(t.Context(), func(tx *db.Tx) (err error) {
			marked, err = db.All(tx, func(r db.Row, id *string) error { return r.Scan(id) },
				`SELECT id FROM ledger WHERE estimated = 1`)
			return err
		}))
		if diff := cmp.Diff([]string{"guessed"}, marked); diff != "" {
			t.Error(diff)
		}
		check(t, l.Append(t.Context(), &Entry{ID: "answered", At: begin, Input: 3, Output: 1, Estimated: true}))
		sums, err := l.Sums(t.Context(), Query{From: begin, To: begin.Add(time.Hour)})
		check(t, err)
		if s := sums[0]; len(sums) != 1 || s.Requests != 3 || s.Unanswered != 2 || s.Estimated != 2 {
			t.Errorf("the sums are %+v", sums)
		}
	})
}

// TestInternalGenerationsAreNotRequests counts one request where the server has asked for a title and a summary beside
// it, and the tokens of all three.
func TestInternalGenerationsAreNotRequests(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l, end := opened(t, dsn)
		defer end()
		for i, id := range []string{"req_a", "req_a-title", "req_a-summary-2"} {
			check(t, l.Append(t.Context(), &Entry{ID: id, At: begin, Input: 3, Output: 1, Internal: i > 0}))
		}
		check(t, l.Append(t.Context(), &Entry{ID: "req_b-title", At: begin, Internal: true}))
		sums, err := l.Sums(t.Context(), Query{From: begin, To: begin.Add(time.Hour)})
		check(t, err)
		if s := sums[0]; len(sums) != 1 || s.Requests != 1 || s.Unanswered != 0 || s.Input != 9 || s.Output != 3 {
			t.Errorf("the sums are %+v", sums)
		}
	})
}

func TestAppendAfterClose(t *testing.T) {
	l, end := opened(t, filepath.Join(t.TempDir(), "l.db"))
	end()
	if err := l.Append(t.Context(), &Entry{ID: "x"}); parley.CodeOf(err) != parley.Unavailable {
		t.Errorf("after the end: %v", err)
	}
}

func TestLeavingDoesNotLoseTheEntry(t *testing.T) {
	dsn := filepath.Join(t.TempDir(), "l.db")
	l, end := opened(t, dsn)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Append(gone, &Entry{ID: "x", At: begin, Input: 5}); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	end()
	l, end = opened(t, dsn)
	defer end()
	sums, err := l.Sums(t.Context(), Query{From: begin, To: begin.Add(time.Hour)})
	if err != nil || len(sums) != 1 || sums[0].Input != 5 {
		t.Errorf("%+v, %v", sums, err)
	}
}

func TestPrices(t *testing.T) {
	p := Prices{}
	for _, text := range []string{"polly=0.10/0.40", "polly@free=0/0/0", "a/b:c@x=1/2/3"} {
		check(t, p.Add(text))
	}
	for _, c := range []struct {
		model                 string
		tier                  parley.Class
		input, cached, output int64
		want                  limit.Micros
	}{
		{"polly", parley.Pro, 1_000_000, 0, 0, 100_000},
		{"polly", parley.Pro, 10, 10, 10, 5},     // 1 + 4
		{"polly", parley.Pro, 1, 0, 0, 1},        // 0.1, rounded up
		{"polly", parley.Pro, 0, 0, 0, 0},        // nothing
		{"polly", parley.Free, 1000, 0, 1000, 0}, // free
		{"a/b:c@x", parley.Free, 3, 2, 1, 8},     // 1 + 4 + 3
		{"unknown", parley.Pro, 1000, 0, 1000, 0},
	} {
		if got := p.Of(c.model, c.tier).Of(c.input, c.cached, c.output); got != c.want {
			t.Errorf("%+v: cost %d", c, got)
		}
	}
	for _, text := range []string{"", "polly", "polly=1", "polly=1/2/3/4", "=1/2", "polly=-1/2", "polly=1/x",
		"polly=99999999/1"} {
		if err := p.Add(text); err == nil {
			t.Errorf("%q was taken for a price", text)
		}
	}
}

func FuzzPrices(f *testing.F) {
	f.Add("polly=0.10/0.05/0.40")
	f.Fuzz(func(t *testing.T, text string) {
		p := Prices{}
		if p.Add(text) != nil {
			return
		}
		for key, price := range p {
			if price.Of(1<<20, 0, 1<<20) < 0 || key.Model == "" {
				t.Fatalf("%q is %+v at %+v", text, price, key)
			}
		}
	})
}
