package record

import (
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/gateway/admin"
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

// onBoth runs test with an empty store in SQLite and in PostgreSQL.
func onBoth(t *testing.T, test func(t *testing.T, s *TrendStore)) {
	for kind, dsn := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return filepath.Join(t.TempDir(), "parley.db") },
		"PostgreSQL": func(t *testing.T) string { return testkit.PostgresDSN(t) },
	} {
		t.Run(kind, func(t *testing.T) {
			d, err := db.Open(t.Context(), dsn(t))
			check(t, err)
			t.Cleanup(func() { check(t, d.Close()) })
			s, err := OpenTrend(t.Context(), d)
			check(t, err)
			test(t, s)
		})
	}
}

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func periodsOf(now time.Time, s admin.Sample) []admin.Period {
	var tr admin.Trend
	tr.Add(now, &s)
	return tr.Take()
}

var answered = admin.Sample{
	Running:  2,
	Waiting:  3,
	KV:       0.5,
	Busy:     0.25,
	Requests: 1,
	Failed:   1,
	Rejected: 2,
	Prompt:   40,
	Cached:   8,
	Output:   20,
	TTFT:     admin.Latencies{{Low: 0.1, High: 0.2, Count: 1}},
	Gap:      admin.Latencies{{High: 0.01, Count: 18}, {Low: 60, Count: 1}},
}

func TestSlotsAddUp(t *testing.T) {
	onBoth(t, func(t *testing.T, s *TrendStore) {
		check(t, s.Add(t.Context(), start, periodsOf(start, answered)))
		for _, resolution := range admin.Resolutions {
			got, err := s.Since(t.Context(), resolution, resolution.Begin(start))
			check(t, err)
			if len(got) != 1 || !reflect.DeepEqual(got[0].Sample, answered) ||
				!got[0].At.Equal(resolution.Begin(start)) {
				t.Errorf("stored in %v: %+v", resolution.Step, got)
			}
		}
		check(t, s.Add(t.Context(), start, periodsOf(start, answered)))
		got, err := s.Since(t.Context(), admin.Resolutions[0], start)
		check(t, err)
		if len(got) != 1 || got[0].Requests != 2 || got[0].Running != 2 || got[0].Gap.Count() != 38 {
			t.Errorf("after a restart within the period: %+v", got)
		}
	})
}

func TestGatewaysAddToOneRow(t *testing.T) {
	onBoth(t, func(t *testing.T, s *TrendStore) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 5 {
					if err := s.Add(t.Context(), start, periodsOf(start, answered)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		for _, resolution := range admin.Resolutions {
			got, err := s.Since(t.Context(), resolution, resolution.Begin(start))
			check(t, err)
			if len(got) != 1 || got[0].Requests != 40 {
				t.Errorf("%v: %+v", resolution.Step, got)
			}
		}
	})
}

func TestOldSlotsAreRemoved(t *testing.T) {
	onBoth(t, func(t *testing.T, s *TrendStore) {
		check(t, s.Add(t.Context(), start, periodsOf(start, answered)))
		later := start.Add(25 * time.Hour)
		check(t, s.Add(t.Context(), later, nil))
		for i, resolution := range admin.Resolutions {
			got, err := s.Since(t.Context(), resolution, time.Time{})
			check(t, err)
			if want := i > 2; (len(got) == 1) != want {
				t.Errorf("after 25 h, periods of %v: %d", resolution.Step, len(got))
			}
		}
	})
}
