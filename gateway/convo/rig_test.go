package convo

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/internal/testkit"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(childVariable); dsn != "" {
		os.Exit(writeUntilKilled(dsn))
	}
	goleak.VerifyTestMain(m)
}

// sqliteDSN returns the name of a new SQLite store.
func sqliteDSN(t testing.TB) string { return filepath.Join(t.TempDir(), "a store?.db") }

// postgresDSN returns the name of a new PostgreSQL store.
func postgresDSN(t testing.TB) string { return testkit.PostgresDSN(t) }

// onBoth runs test with a new SQLite and a new PostgreSQL store.
func onBoth(t *testing.T, test func(t *testing.T, dsn string)) {
	t.Run("SQLite", func(t *testing.T) { test(t, sqliteDSN(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, postgresDSN(t)) })
}

// opened opens a store and closes it at the end.
func opened(t testing.TB, dsn string) *Store {
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
	*Store
	id string
}

func newScene(t testing.TB, s *Store) *scene {
	t.Helper()
	check(t, s.Heartbeat(t.Context(), "here", at(1000)))
	c := must(s.CreateConversation(t.Context(), ann, NewConversation{Title: "first"}, at(0)))(t)
	return &scene{s, c.ID}
}

// turn runs one whole turn.
func (s *scene) turn(t testing.TB, question, answer string, seconds int) Turn {
	t.Helper()
	turn := must(s.BeginTurn(t.Context(), ann, s.id, asked(question), at(seconds)))(t)
	turn.Answer = must(s.FinishTurn(t.Context(), ann, turn.ID(),
		Outcome{Status: Completed, Content: said(answer), Finish: "stop"}, at(seconds)))(t)
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
