package limit

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestMicrosAsText(t *testing.T) {
	for text, want := range map[string]Micros{
		"0": 0, "12": 12_000_000, "12.5": 12_500_000, "0.000001": 1, "-3.25": -3_250_000, "007.10": 7_100_000,
	} {
		got, err := ParseMicros(text)
		if err != nil || got != want {
			t.Errorf("ParseMicros(%q) = %d, %v; want %d", text, got, err, want)
		}
		again, err := ParseMicros(got.String())
		if err != nil || again != got {
			t.Errorf("%q is written as %q and read as %d, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", ".", "1.", ".5", "1.0000001", "1e3", "+1", "--1", "1,5", "99999999999999999999",
		"-"} {
		if got, err := ParseMicros(text); err == nil {
			t.Errorf("ParseMicros(%q) = %d, want an error", text, got)
		}
	}
}

func FuzzParseMicros(f *testing.F) {
	f.Add("12.50")
	f.Add("-0.000001")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMicros(text)
		if err != nil {
			return
		}
		if again, err := ParseMicros(m.String()); err != nil || again != m {
			t.Fatalf("%q is %d, written %q, read again %d, %v", text, m, m, again, err)
		}
	})
}

func TestLimitsValidate(t *testing.T) {
	good := Limits{RequestsPerSecond: 1, OutputTokensPerMinute: rateMax, MonthlyBudget: budgetMax}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	bad := Limits{RequestsPerMinute: -1, InputTokensPerMinute: rateMax + 1, MonthlyBudget: math.MaxInt64}
	err := bad.Validate()
	if err == nil || strings.Count(err.Error(), "it must be") != 3 {
		t.Errorf("Validate = %v, want three complaints", err)
	}
}

func TestLimitsFallBackOneByOne(t *testing.T) {
	tier := Limits{RequestsPerSecond: 1, RequestsPerMinute: 2, InputTokensPerMinute: 3, OutputTokensPerMinute: 4,
		ConcurrentRequests: 5, MonthlyBudget: 6}
	if got := (Limits{}).Or(tier); got != tier {
		t.Errorf("nothing set: %+v", got)
	}
	want := tier
	want.OutputTokensPerMinute = 9
	if got := (Limits{OutputTokensPerMinute: 9}).Or(tier); got != want {
		t.Errorf("one set: %+v, want %+v", got, want)
	}
}

func TestLimitsAsJSON(t *testing.T) {
	l := Limits{RequestsPerMinute: 60, MonthlyBudget: 12_500_000}
	body, err := json.Marshal(l)
	if err != nil || string(body) != `{"requests_per_minute":60,"monthly_budget":"12.50"}` {
		t.Fatalf("%s, %v", body, err)
	}
	var again Limits
	if err := json.Unmarshal(body, &again); err != nil || again != l {
		t.Fatalf("%+v, %v", again, err)
	}
}
