package ledger

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/limit"
)

// TestAnAlertIsOneTellers has many tellers on two connections claim the same
// alert, restarts between, and next month again.
func TestAnAlertIsOneTellers(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l, end := opened(t, dsn)
		defer end()
		other, endOther := opened(t, dsn)
		a := Alert{Account: "acme/key_1", Organization: "acme", Key: "key_1", Name: "site", Prefix: "pk-12345678",
			At:       begin,
			Standing: limit.Standing{Month: limit.MonthOf(begin), Budget: 10_000_000, Spent: 8_300_000, Alert: 800}}
		var winners atomic.Int64
		var winner atomic.Value
		claim := func(l *Ledger, a Alert, teller string) {
			mine, err := l.Claim(t.Context(), &a, teller)
			if err != nil {
				t.Error(err)
			}
			if mine {
				winners.Add(1)
				winner.Store(teller)
			}
		}
		var tellers sync.WaitGroup
		for i := range 20 {
			tellers.Go(func() { claim([]*Ledger{l, other}[i%2], a, fmt.Sprint("teller ", i)) })
		}
		tellers.Wait()
		endOther()
		again, end := opened(t, dsn)
		defer end()
		claim(again, a, "after a restart")
		if winners.Load() != 1 {
			t.Fatalf("%d tell it", winners.Load())
		}
		if claim(again, a, winner.Load().(string)); winners.Load() != 2 {
			t.Error("whoever asks again does not hear the same")
		}
		later := a
		later.At, later.Standing.Month = a.At.AddDate(0, 1, 0), a.Standing.Month+1
		if claim(again, later, "next month"); winners.Load() != 3 {
			t.Error("it is not told again next month")
		}
		got, err := l.Alerts(t.Context(), a.At, 10)
		check(t, err)
		if diff := cmp.Diff([]Alert{later, a}, got, cmp.Comparer(time.Time.Equal)); diff != "" {
			t.Error(diff)
		}
		if got, err := l.Alerts(t.Context(), later.At, 10); err != nil || len(got) != 1 {
			t.Errorf("since then: %v, %v", got, err)
		}
		if got, err := l.Alerts(t.Context(), a.At, 1); err != nil || len(got) != 1 {
			t.Errorf("at most one: %v, %v", got, err)
		}
	})
}

func TestSpentByKeys(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l, end := opened(t, dsn)
		defer end()
		for i, e := range []Entry{
			{At: begin.AddDate(0, -1, 0), Organization: "acme", Key: "k", Cost: 1},
			{At: begin, Organization: "acme", Key: "k", Cost: 10},
			{At: begin, Organization: "acme", Key: "k", Cost: 5}, {At: begin, Organization: "acme", Key: "other",
				Cost: 100}, {At: begin, Organization: "else", Key: "k2", Cost: 1000},
		} {
			e.ID = fmt.Sprint(i)
			check(t, l.Append(t.Context(), &e))
		}
		keys, err := l.SpentBy(t.Context(), ByKey, []string{"k", "k2", "idle"}, begin.Add(time.Hour))
		check(t, err)
		organizations, err := l.SpentBy(t.Context(), ByOrganization, []string{"acme"}, begin.Add(time.Hour))
		check(t, err)
		if diff := cmp.Diff([]map[string]limit.Micros{{"k": 15, "k2": 1000}, {"acme": 115}},
			[]map[string]limit.Micros{keys, organizations}); diff != "" {
			t.Error(diff)
		}
	})
}
