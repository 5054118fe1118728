package limit

import (
	"fmt"
	"strconv"
	"time"
)

// A Share is a part of a whole in thousandths, so that it is compared exactly.
// In JSON it is a number such as 0.8.
type Share int64

// Whole is all of it.
const Whole Share = 1000

// AlertDefault is the share of a budget from which on it is told that it will soon
// be spent.
const AlertDefault Share = 800

// ParseShare reads a number of 0 to 1 with at most three places.
func ParseShare(text string) (Share, error) {
	n, err := strconv.ParseFloat(text, 64)
	s := Share(float64(n*float64(Whole)) + 0.5)
	if err != nil || !(n >= 0 && n <= 1) || s.Float() != n {
		return 0, fmt.Errorf("%q is not a share: use a number from 0 to 1 with at most three decimals, such as 0.8",
			text)
	}
	return s, nil
}

// Float returns the share as a number of 0 to 1.
func (s Share) Float() float64 { return float64(s) / float64(Whole) }

// String returns the share as a number such as 0.8.
func (s Share) String() string { return strconv.FormatFloat(s.Float(), 'f', -1, 64) }

// MarshalJSON writes a number.
func (s Share) MarshalJSON() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalJSON reads what [ParseShare] reads.
func (s *Share) UnmarshalJSON(text []byte) (err error) {
	*s, err = ParseShare(string(text))
	return err
}

// A Month numbers calendar months, in UTC: year·12 + month, January being 0.
type Month int64

// MonthOf returns the month that now is in.
func MonthOf(now time.Time) Month { return Month(monthOf(now)) }

// Start returns when the month begins.
func (m Month) Start() time.Time {
	return time.Date(int(m/12), time.Month(m%12)+1, 1, 0, 0, 0, 0, time.UTC)
}

// String returns the month as 2026-11.
func (m Month) String() string { return m.Start().Format("2006-01") }

// A Standing is how an account stands with its budget of a month.
type Standing struct {
	Month Month
	// Budget is what may be spent; 0 if there is no budget.
	Budget, Spent Micros
	// Alert is the share of it from which on it is nearly spent; 0 is never.
	Alert Share
}

// A Stage is how far a budget is spent.
type Stage string

// The stages of a budget.
const (
	Fine    Stage = "ok"
	Nearing Stage = "near"
	AllGone Stage = "spent"
)

// goneFrom is when a budget is as good as spent. A request must fit into what is
// left with the longest answer it may get, so hardly any gets all of it.
const goneFrom Share = 990

// reached reports whether share of the budget is spent.
func (s *Standing) reached(share Share) bool {
	return s.Budget > 0 && share > 0 && int64(s.Spent)*int64(Whole) >= int64(s.Budget)*int64(share)
}

// Alerted reports whether the budget is nearly spent.
func (s *Standing) Alerted() bool { return s.reached(s.Alert) }

// Stage returns how far the budget is spent.
func (s *Standing) Stage() Stage {
	switch {
	case s.reached(goneFrom):
		return AllGone
	case s.Alerted():
		return Nearing
	}
	return Fine
}

// Used returns the part of the budget that is spent. It is rounded down: all of it
// is spent only when it is.
func (s *Standing) Used() Share {
	if s.Budget <= 0 {
		return 0
	}
	return Share(max(int64(s.Spent), 0) * int64(Whole) / int64(s.Budget))
}

// IsNews decides whether the standing is to be told, as one from which on the
// budget is nearly spent. told is the month in which that was last told of the
// account, 0 if it never was: it is told once a month, also when the budget is
// changed meanwhile.
func (s *Standing) IsNews(told Month) bool { return s.Alerted() && told < s.Month }

// Standing returns how an account stands. It must be seeded.
func (s *State) Standing(l *Limits) Standing {
	return Standing{Month: Month(s.Month), Budget: l.MonthlyBudget, Spent: s.Spent, Alert: l.BudgetAlert}
}

// A StandingDocument is a standing as JSON shows it.
type StandingDocument struct {
	Limit Micros `json:"limit"`
	Spent Micros `json:"spent"`
	Used  Share  `json:"used"`
	// Alert is from which share on State is "near"; 0 if it never is.
	Alert Share `json:"alert"`
	State Stage `json:"state"`
	// ResetsAt is when the next month begins, in seconds since 1970.
	ResetsAt int64 `json:"resets_at"`
}

// Document returns the standing as JSON shows it; nil if there is no budget.
func (s *Standing) Document() *StandingDocument {
	if s.Budget == 0 {
		return nil
	}
	return &StandingDocument{s.Budget, s.Spent, s.Used(), s.Alert, s.Stage(), (s.Month + 1).Start().Unix()}
}
