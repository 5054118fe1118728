package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/gateway/db"
	"parley/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// onBoth runs test with an empty log in SQLite and in PostgreSQL.
func onBoth(t *testing.T, test func(t *testing.T, l *Log, lines *bytes.Buffer)) {
	for kind, dsn := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return filepath.Join(t.TempDir(), "parley.db") },
		"PostgreSQL": func(t *testing.T) string { return testkit.PostgresDSN(t) },
	} {
		t.Run(kind, func(t *testing.T) {
			d, err := db.Open(t.Context(), dsn(t))
			check(t, err)
			t.Cleanup(func() { check(t, d.Close()) })
			var lines bytes.Buffer
			l, err := Open(t.Context(), d, 9*time.Minute, slog.New(slog.NewTextHandler(&lines, nil)))
			check(t, err)
			test(t, l, &lines)
		})
	}
}

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func TestEntriesAreListedAsWritten(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Log, lines *bytes.Buffer) {
		want := Entry{
			At:      start,
			Action:  "api_key.updated",
			Target:  "key_1",
			Actor:   Actor{Kind: APIKey, Organization: "acme", User: "ann", Key: "key_2"},
			Remote:  "192.0.2.7",
			Request: "req_1",
			Status:  200,
			Before:  json.RawMessage(`{"blocked":false}`),
			After:   json.RawMessage(`{"blocked":true}`),
		}
		check(t, l.Append(t.Context(), want))
		list, err := l.List(t.Context(), Filter{Limit: 10})
		check(t, err)
		if len(list) != 1 || list[0].ID == "" {
			t.Fatalf("listed: %v", list)
		}
		want.ID = list[0].ID
		if got, want := fmt.Sprintf("%+v", list[0]), fmt.Sprintf("%+v", want); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		for _, part := range []string{"action=api_key.updated", "organization=acme", "key=key_2", "remote=192.0.2.7",
			`after="{\"blocked\":true}"`} {
			if !strings.Contains(lines.String(), part) {
				t.Errorf("the log line has no %s: %s", part, lines)
			}
		}
	})
}

func TestFiltersAndPages(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Log, _ *bytes.Buffer) {
		for i := range 10 {
			e := Entry{At: start.Add(time.Duration(i) * time.Minute), Action: "api_key.created",
				Target: fmt.Sprintf("key_%d", i)}
			if i%2 == 1 {
				e.Action, e.Actor.Key = "worker.drained", "key_0"
			}
			check(t, l.Append(t.Context(), e))
		}
		targets := func(f Filter) string {
			t.Helper()
			if f.Limit == 0 {
				f.Limit = 100
			}
			list, err := l.List(t.Context(), f)
			check(t, err)
			var all []string
			for _, e := range list {
				all = append(all, e.Target[len("key_"):])
			}
			return strings.Join(all, " ")
		}
		page, err := l.List(t.Context(), Filter{Limit: 3})
		check(t, err)
		for _, c := range []struct {
			filter Filter
			want   string
		}{
			{Filter{}, "9 8 7 6 5 4 3 2 1 0"},
			{Filter{Limit: 3}, "9 8 7"},
			{Filter{Limit: 3, After: page[2].ID}, "6 5 4"},
			{Filter{Action: "api_key."}, "8 6 4 2 0"},
			{Filter{Action: "api_key"}, ""},
			{Filter{Action: "worker.drained", Since: start.Add(5 * time.Minute)}, "9 7 5"},
			{Filter{Until: start.Add(2 * time.Minute)}, "1 0"},
			{Filter{Actor: "key_0"}, "9 7 5 3 1"},
			{Filter{Target: "key_4"}, "4"},
			{Filter{After: "audit_log-unknown"}, ""},
		} {
			if got := targets(c.filter); got != c.want {
				t.Errorf("%+v: %q, want %q", c.filter, got, c.want)
			}
		}
		check(t, l.Append(t.Context(), Entry{At: start.Add(purgeEvery), Target: "key_A"}))
		if got := targets(Filter{}); got != "A" {
			t.Errorf("after the retention time: %s", got)
		}
	})
}

// TestHostileTargets stores what no database takes as it is.
func TestHostileTargets(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Log, _ *bytes.Buffer) {
		for _, target := range []string{"a\x00b", "a\xffb", strings.Repeat("ü", 1000)} {
			check(t, l.Append(context.Background(), Entry{At: start, Action: "x", Target: target}))
		}
		list, err := l.List(t.Context(), Filter{Limit: 10})
		if err != nil || len(list) != 3 {
			t.Fatalf("%d entries: %v", len(list), err)
		}
	})
}
