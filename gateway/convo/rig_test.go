package convo

import (
	"context"
	"database/sql"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(childVariable); dsn != "" {
		os.Exit(writeUntilKilled(dsn))
	}
	goleak.VerifyTestMain(m)
}

// postgresVariable names the database that tests run against.
const postgresVariable = "PARLEY_TEST_POSTGRES"

// sqliteDSN returns the name of a new SQLite store.
func sqliteDSN(t testing.TB) string { return filepath.Join(t.TempDir(), "a store?.db") }

// postgresDSN returns the name of a new PostgreSQL store: a schema of its own.
func postgresDSN(t testing.TB) string {
	t.Helper()
	base := os.Getenv(postgresVariable)
	if base == "" {
		t.Skipf("%s is not set: the PostgreSQL half of the conversation store is NOT tested; run test/postgres.sh go test ./gateway/convo", postgresVariable)
	}
	schema := newID("test")
	administer(t, base, "CREATE SCHEMA "+schema)
	t.Cleanup(func() { administer(t, base, "DROP SCHEMA "+schema+" CASCADE") })
	address, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	query := address.Query()
	query.Set("search_path", schema)
	address.RawQuery = query.Encode()
	return address.String()
}

// administer runs one statement outside any store.
func administer(t testing.TB, dsn, statement string) {
	t.Helper()
	config, _, err := postgresConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	pool := sql.OpenDB(&connector{config})
	defer pool.Close()
	if _, err := pool.ExecContext(context.WithoutCancel(t.Context()), statement); err != nil {
		t.Fatal(err)
	}
}

// onBoth runs test with a new SQLite and a new PostgreSQL store.
func onBoth(t *testing.T, test func(t *testing.T, dsn string)) {
	t.Run("SQLite", func(t *testing.T) { test(t, sqliteDSN(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, postgresDSN(t)) })
}

// opened opens a store and closes it at the end.
func opened(t testing.TB, dsn string) Store {
	t.Helper()
	s, err := Open(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var (
	// epoch is when tests begin; seconds after it are said by at.
	epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ann   = Owner{Tenant: "acme", User: "ann"}
)

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

// said is content that says text.
func said(text string) json.RawMessage {
	content, _ := json.Marshal([]map[string]string{{"type": "input_text", "text": text}})
	return content
}

// asked is a turn with a question, answered by the process "here".
func asked(text string) NewTurn {
	return NewTurn{Model: "polly", Process: "here", Question: &NewMessage{Role: "user", Content: said(text)}}
}

// must returns v, or ends the test if there is an error.
func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A scene is a store with a living process and one conversation of ann's.
type scene struct {
	Store
	id string
}

func newScene(t testing.TB, s Store) *scene {
	t.Helper()
	check(t, s.Beat(t.Context(), "here", at(1000)))
	c := must(s.CreateConversation(t.Context(), ann, NewConversation{Title: "first"}, at(0)))(t)
	return &scene{s, c.ID}
}

// turn runs one whole turn.
func (s *scene) turn(t testing.TB, question, answer string, seconds int) Turn {
	t.Helper()
	turn := must(s.BeginTurn(t.Context(), ann, s.id, asked(question), at(seconds)))(t)
	turn.Answer = must(s.FinishTurn(t.Context(), ann, turn.ID(), Outcome{Status: Completed, Content: said(answer), Finish: "stop"}, at(seconds)))(t)
	return turn
}

// path returns what is said on the path to leaf.
func (s *scene) path(t testing.TB, leaf string) (texts []string) {
	t.Helper()
	list := must(s.Messages(t.Context(), ann, s.id, leaf, Page{Limit: 100, Ascending: true}))(t)
	for _, m := range list.Items {
		texts = append(texts, m.Text)
	}
	return texts
}
