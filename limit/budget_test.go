package limit

import (
	"encoding/json"
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
