package bill

import (
	"slices"
	"testing"

	"parley"
	"parley/gateway/tenant"
	"parley/limit"
)

// TestWhoseLimit names each account of a caller with limits of every kind.
func TestWhoseLimit(t *testing.T) {
	most := func(n int64) limit.Limits { return limit.Limits{InputTokensPerMinute: n} }
	who := &tenant.Identity{
		Organization: "acme",
		User:         "ann",
		Key:          "k1",
		Tier:         parley.Pro,
		Limits:       limit.Limits{InputTokensPerMinute: 3, RequestsPerMinute: 4},
		TierLimits:   most(3),
		KeyLimits:    most(2),
		UserLimits:   most(1),
	}
	h := limit.Hold{Accounts: (&Billing{}).AccountsOf(who)}
	h.Accounts = append(h.Accounts, limit.Account{Name: "acme//end-user:0123"})
	var whose []string
	for i := range h.Accounts {
		whose = append(whose, whoseLimit(who, &h, &limit.Refusal{Account: i}))
	}
	if want := []string{"your organisation", "your organisation", "your key", "your user",
		"the user that the request names"}; !slices.Equal(whose, want) {
		t.Errorf("%q, want %q", whose, want)
	}
}
