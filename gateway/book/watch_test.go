package book

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/limit"
)

var november = limit.MonthOf(time.Date(2026, 11, 30, 23, 59, 59, 0, time.UTC))

// watched has a book tell how often it has news of which account.
func watched(b Book) (told func(account string) int) {
	var mu sync.Mutex
	heard := map[string]int{}
	w := &Watch{Tell: func(account string, s limit.Standing) bool {
		mu.Lock()
		defer mu.Unlock()
		heard[fmt.Sprint(account, " ", s.Month)]++
		return true
	}}
	switch b := b.(type) {
	case *Memory:
		b.Watch = w
	case *Redis:
		b.config.Watch = w
	}
	return func(account string) int {
		mu.Lock()
		defer mu.Unlock()
		return heard[account]
	}
}

// conformAlert spends a budget bit by bit, over the end of a month.
func conformAlert(t *testing.T, open func(*clock, limit.Micros) Book) {
	c := newClock()
	b := open(c, 500)
	told := watched(b)
	a := account("a", limit.Limits{MonthlyBudget: 1000, BudgetAlert: 800})
	own := account("a/k", limit.Limits{MonthlyBudget: 2000, BudgetAlert: 300})
	spend := func(id int, cost limit.Micros) limit.Verdict {
		h := hold(id, limit.Use{Requests: 1, Cost: 2 * cost}, a, own)
		v := reserve(t, b, h)
		if v.Refused == "" {
			b.Settle(h, limit.Use{Requests: 1, Cost: cost})
		}
		return v
	}
	if v := spend(1, 99); v.Budget != (limit.Standing{Month: november, Budget: 1000, Spent: 500, Alert: 800}) ||
		told("a 2026-11")+told("a/k 2026-11") != 0 {
		t.Fatalf("at half: %+v", v)
	}
	if spend(2, 1); told("a/k 2026-11") != 1 || told("a 2026-11") != 0 {
		t.Fatal("the key's alert is not told when it is reached")
	}
	if spend(3, 199); told("a 2026-11") != 0 {
		t.Fatal("it is told a millionth too early")
	}
	if spend(4, 1); told("a 2026-11") != 1 {
		t.Fatal("it is not told with the request that reaches it")
	}
	for i := range 3 {
		spend(5+i, 10)
	}
	if v := spend(9, 500); v.Refused != limit.Budget || v.Budget.Stage() != limit.Nearing || told("a 2026-11") != 1 ||
		told("a/k 2026-11") != 1 {
		t.Fatalf("told %d and %d times: %+v", told("a 2026-11"), told("a/k 2026-11"), v)
	}
	c.pass(time.Hour)
	if v := spend(10, 450); v.Budget.Spent != 0 || v.Budget.Month != november+1 {
		t.Fatalf("a new month: %+v", v)
	}
	if spend(11, 225); told("a 2026-12")+told("a/k 2026-12") != 1 { // 675: only the key's
		t.Fatalf("told %d and %d times", told("a 2026-12"), told("a/k 2026-12"))
	}
	if spend(12, 125); told("a 2026-12") != 1 || told("a/k 2026-12") != 1 || told("a 2026-11") != 1 {
		t.Fatal("the new month is not told once")
	}
}

// TestAlertOfASpentBudget checks an account whose budget is spent and for which no alert was sent.
func TestAlertOfASpentBudget(t *testing.T) {
	b := memory(t, newClock(), 1000)
	told := watched(b)
	a := account("a", limit.Limits{MonthlyBudget: 1000, BudgetAlert: 800})
	v := reserve(t, b, hold(1, limit.Use{Requests: 1, Cost: 1}, a))
	if v.Refused != limit.Budget || v.Budget.Stage() != limit.AllGone || told("a 2026-11") != 1 {
		t.Errorf("told %d times: %+v", told("a 2026-11"), v)
	}
}

// TestNewsThatAreNotTaken come again; those that many bring at once are told once.
func TestNewsThatAreNotTaken(t *testing.T) {
	var asked atomic.Int64
	w := &Watch{Tell: func(string, limit.Standing) bool { return asked.Add(1) > 3 }}
	a := &limit.Account{Name: "a", Limits: limit.Limits{MonthlyBudget: 100, BudgetAlert: 800}}
	s := &limit.State{Month: int64(november), Spent: 80}
	for i := range 6 {
		if w.look(a, s); asked.Load() != int64(min(i+1, 4)) {
			t.Fatalf("asked %d times after %d", asked.Load(), i+1)
		}
	}
	w.Again("a")
	var many sync.WaitGroup
	for range 50 {
		many.Go(func() { w.look(a, s) })
	}
	if many.Wait(); asked.Load() != 5 {
		t.Errorf("asked %d times", asked.Load())
	}
	(*Watch)(nil).look(a, s)
}

func BenchmarkWatch(b *testing.B) {
	w := &Watch{Tell: func(string, limit.Standing) bool { return true }}
	a := &limit.Account{Name: "acme/key_1", Limits: limit.Limits{MonthlyBudget: 100, BudgetAlert: 800}}
	for name, spent := range map[string]limit.Micros{"before": 79, "beyond": 80} {
		b.Run(name, func(b *testing.B) {
			s := &limit.State{Month: int64(november), Spent: spent}
			for b.Loop() {
				w.look(a, s)
			}
		})
	}
}
