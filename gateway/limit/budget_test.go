package limit

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var november = MonthOf(time.Date(2026, 11, 30, 23, 59, 59, 0, time.UTC))

func TestStandings(t *testing.T) {
	for _, c := range []struct {
		spent, budget Micros
		alert         Share
		told          Month
		stage         Stage
		used          Share
		news          bool
	}{
		{0, 100, 800, 0, Fine, 0, false},
		{79, 100, 800, 0, Fine, 790, false},
		{80, 100, 800, 0, Nearing, 800, true},
		{80, 100, 800, november, Nearing, 800, false},
		{80, 100, 800, november - 1, Nearing, 800, true},
		{98, 100, 800, november, Nearing, 980, false},
		{99, 100, 800, november, AllGone, 990, false},
		{140, 100, 800, 0, AllGone, 1400, true},
		{99, 100, 0, 0, AllGone, 990, false},
		{98, 100, 0, 0, Fine, 980, false},
		{99, 100, 1000, 0, AllGone, 990, false},
		{100, 100, 1000, 0, AllGone, 1000, true},
		{7, 0, 800, 0, Fine, 0, false},
		// The largest amounts, compared to the last millionth.
		{budgetMax / 10 * 8, budgetMax, 800, 0, Nearing, 800, true},
		{budgetMax/10*8 - 1, budgetMax, 800, 0, Fine, 799, false},
	} {
		s := Standing{Month: november, Budget: c.budget, Spent: c.spent, Alert: c.alert}
		if s.Stage() != c.stage || s.Used() != c.used || s.IsNews(c.told) != c.news {
			t.Errorf("%+v, told %v: %s, %v used, news %v; want %s, %v, %v", s, c.told, s.Stage(), s.Used(),
				s.IsNews(c.told), c.stage, c.used, c.news)
		}
	}
}

func TestStandingAsJSON(t *testing.T) {
	s := Standing{Month: november, Budget: 10_000_000, Spent: 8_333_333, Alert: AlertDefault}
	text, err := json.Marshal(s.Document())
	if want := `{"limit":"10.00","spent":"8.333333","used":0.833,"alert":0.8,"state":"near","resets_at":1796083200}`; err != nil || string(text) != want {
		t.Errorf("%v: %s, want %s", err, text, want)
	}
	if none := (&Standing{Month: november}).Document(); none != nil {
		t.Errorf("without a budget: %+v", none)
	}
	if november.String() != "2026-11" || (november+1).String() != "2026-12" || (november+2).String() != "2027-01" {
		t.Errorf("%s, %s, %s", november, november+1, november+2)
	}
}

func TestShares(t *testing.T) {
	for text, want := range map[string]Share{"0": 0, "1": 1000, "0.8": 800, "0.85": 850, "0.999": 999, "0.001": 1,
		"1.0": 1000, "8e-1": 800} {
		if got, err := ParseShare(text); got != want || err != nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-0.1", "1.001", "80", "0.8005", "NaN", "Inf", "80%", `"0.8"`} {
		if got, err := ParseShare(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

// watched has a book tell how often it has news of which account.
func watched(b Book) (told func(account string) int) {
	var mu sync.Mutex
	heard := map[string]int{}
	w := &Watch{Tell: func(account string, s Standing) bool {
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
func conformAlert(t *testing.T, open func(*clock, Micros) Book) {
	c := newClock()
	b := open(c, 500)
	told := watched(b)
	a, own := Account{"a", Limits{MonthlyBudget: 1000, BudgetAlert: 800}}, Account{"a/k",
		Limits{MonthlyBudget: 2000, BudgetAlert: 300}}
	spend := func(id int, cost Micros) Verdict {
		h := hold(id, Use{Requests: 1, Cost: 2 * cost}, a, own)
		v := reserve(t, b, h)
		if v.Refused == "" {
			b.Settle(h, Use{Requests: 1, Cost: cost})
		}
		return v
	}
	if v := spend(1, 99); v.Budget != (Standing{november, 1000, 500, 800}) ||
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
	if v := spend(9, 500); v.Refused != Budget || v.Budget.Stage() != Nearing || told("a 2026-11") != 1 ||
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

// TestAlertOfASpentBudget meets an account that nobody was told of and that can
// spend no more.
func TestAlertOfASpentBudget(t *testing.T) {
	b := memory(t, newClock(), 1000)
	told := watched(b)
	v := reserve(t, b, hold(1, Use{Requests: 1, Cost: 1}, Account{"a", Limits{MonthlyBudget: 1000, BudgetAlert: 800}}))
	if v.Refused != Budget || v.Budget.Stage() != AllGone || told("a 2026-11") != 1 {
		t.Errorf("told %d times: %+v", told("a 2026-11"), v)
	}
}

// TestNewsThatAreNotTaken come again; those that many bring at once are told once.
func TestNewsThatAreNotTaken(t *testing.T) {
	var asked atomic.Int64
	w := &Watch{Tell: func(string, Standing) bool { return asked.Add(1) > 3 }}
	a, s := &Account{"a", Limits{MonthlyBudget: 100, BudgetAlert: 800}}, &State{Month: int64(november), Spent: 80}
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
	w := &Watch{Tell: func(string, Standing) bool { return true }}
	a := &Account{"acme/key_1", Limits{MonthlyBudget: 100, BudgetAlert: 800}}
	for name, spent := range map[string]Micros{"before": 79, "beyond": 80} {
		b.Run(name, func(b *testing.B) {
			s := &State{Month: int64(november), Spent: spent}
			for b.Loop() {
				w.look(a, s)
			}
		})
	}
}
