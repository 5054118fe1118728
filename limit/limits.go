package limit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Limits are what one account may use. Zero means no limit.
type Limits struct {
	RequestsPerSecond int64 `json:"requests_per_second,omitzero"`
	RequestsPerMinute int64 `json:"requests_per_minute,omitzero"`
	// LightRequestsPerMinute bounds requests that only read or delete what is
	// stored. They are not counted as requests, and not as concurrent ones.
	LightRequestsPerMinute int64 `json:"light_requests_per_minute,omitzero"`
	InputTokensPerMinute   int64 `json:"input_tokens_per_minute,omitzero"`
	OutputTokensPerMinute  int64 `json:"output_tokens_per_minute,omitzero"`
	// ConcurrentRequests bounds how many are answered at the same time.
	ConcurrentRequests int64 `json:"concurrent_requests,omitzero"`
	// MonthlyBudget is how much may be spent in a calendar month.
	MonthlyBudget Micros `json:"monthly_budget,omitzero"`
	// BudgetAlert is the share of the budget from which on it is told that it will
	// soon be spent; 0 is what the server has for all. It limits nothing.
	BudgetAlert Share `json:"budget_alert,omitzero"`
}

// rateMax is the largest rate. It keeps the arithmetic exact in the 53 bits that
// a Lua number has.
const rateMax = 100_000_000

// Validate says everything that is wrong with l.
func (l *Limits) Validate() error {
	var problems []error
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"requests per second", l.RequestsPerSecond}, {"requests per minute", l.RequestsPerMinute},
		{"light requests per minute", l.LightRequestsPerMinute},
		{"input tokens per minute", l.InputTokensPerMinute}, {"output tokens per minute", l.OutputTokensPerMinute},
		{"concurrent requests", l.ConcurrentRequests},
	} {
		if n.value < 0 || n.value > rateMax {
			problems = append(problems,
				fmt.Errorf("the limit of %s is %d: it must be 0 (none) to %d", n.name, n.value, rateMax))
		}
	}
	if l.MonthlyBudget < 0 || l.MonthlyBudget > budgetMax {
		problems = append(problems,
			fmt.Errorf("the monthly budget is %s: it must be 0 (none) to %s", l.MonthlyBudget, Micros(budgetMax)))
	}
	if l.BudgetAlert < 0 || l.BudgetAlert > Whole {
		problems = append(problems,
			fmt.Errorf("the budget alert is %s: it must be a share of 0 (the server's) to 1", l.BudgetAlert))
	}
	return errors.Join(problems...)
}

// Or returns l with every limit that it does not set taken from fallback.
func (l Limits) Or(fallback Limits) Limits {
	l.each(&fallback, func(own *int64, other int64) {
		if *own == 0 {
			*own = other
		}
	})
	return l
}

// Without returns l without the limits that other sets.
func (l Limits) Without(other Limits) Limits {
	l.each(&other, func(own *int64, other int64) {
		if other != 0 {
			*own = 0
		}
	})
	return l
}

// each hands every limit to do, beside the same one of others.
func (l *Limits) each(others *Limits, do func(own *int64, other int64)) {
	do(&l.RequestsPerSecond, others.RequestsPerSecond)
	do(&l.RequestsPerMinute, others.RequestsPerMinute)
	do(&l.LightRequestsPerMinute, others.LightRequestsPerMinute)
	do(&l.InputTokensPerMinute, others.InputTokensPerMinute)
	do(&l.OutputTokensPerMinute, others.OutputTokensPerMinute)
	do(&l.ConcurrentRequests, others.ConcurrentRequests)
	do((*int64)(&l.MonthlyBudget), int64(others.MonthlyBudget))
	do((*int64)(&l.BudgetAlert), int64(others.BudgetAlert))
}

// Micros is an amount of money in millionths of the unit that prices are in.
// Amounts are whole numbers, so that sums are exact. In JSON they are decimal
// texts such as "12.50".
type Micros int64

const microsPerUnit = 1_000_000

// budgetMax leaves room for sums in 53 bits.
const budgetMax = 1_000_000_000 * microsPerUnit

// String returns the amount as a decimal number with at least two places.
func (m Micros) String() string {
	sign, n := "", uint64(m)
	if m < 0 {
		sign, n = "-", -n
	}
	fraction := strings.TrimRight(fmt.Sprintf("%06d", n%microsPerUnit), "0")
	return fmt.Sprintf("%s%d.%s", sign, n/microsPerUnit, fraction+strings.Repeat("0", max(0, 2-len(fraction))))
}

// ParseMicros reads an amount such as 12, 0.5 or 3.000001.
func ParseMicros(text string) (Micros, error) {
	digits, negative := strings.CutPrefix(text, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	malformed := fmt.Errorf("%q is not an amount of money: use a form like 12.50, with at most six decimals", text)
	if len(fraction) > 6 || whole == "" || strings.HasSuffix(text, ".") ||
		strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, malformed
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", 6-len(fraction)), 10, 64)
	if err != nil {
		return 0, malformed
	}
	if negative {
		n = -n
	}
	return Micros(n), nil
}

// MarshalText writes the amount as [Micros.String] does.
func (m Micros) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what [ParseMicros] reads.
func (m *Micros) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMicros(string(text))
	return err
}
