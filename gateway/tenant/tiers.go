package tenant

import (
	"errors"
	"fmt"

	"parley"
	"parley/gateway/limit"
)

// A Tier is what a class of tenants gets.
type Tier struct {
	// Models are the names that the class may ask for; nil allows all.
	Models []string
	// Limits are what an organisation of the class may use.
	Limits limit.Limits
	// KVShare is the part of a model's key/value pool that the class may keep
	// cached before it is evicted ahead of others; 0 is all of it. KVReserve is
	// the part that others use only while the class does not.
	KVShare, KVReserve float64
}

// Tiers has an entry for each class.
type Tiers [parley.Classes]Tier

// DefaultTiers keeps strangers from taking a server for themselves: free
// organisations have what one person who chats needs, pro ones what a team or a
// program does, and enterprise ones are bounded by the machine alone.
func DefaultTiers() Tiers {
	return Tiers{
		parley.Free: {KVShare: 0.25, Limits: limit.Limits{
			RequestsPerSecond:      2,
			RequestsPerMinute:      20,
			LightRequestsPerMinute: 600,
			InputTokensPerMinute:   40_000,
			OutputTokensPerMinute:  10_000,
			ConcurrentRequests:     2,
		}},
		parley.Pro: {KVShare: 0.75, Limits: limit.Limits{
			RequestsPerSecond:      20,
			RequestsPerMinute:      600,
			LightRequestsPerMinute: 6000,
			InputTokensPerMinute:   1_000_000,
			OutputTokensPerMinute:  200_000,
			ConcurrentRequests:     32,
		}},
	}
}

// Validate says everything that is wrong with t.
func (t *Tiers) Validate() error {
	var problems []error
	var reserved float64
	for class := range t {
		tier, name := &t[class], parley.Class(class)
		if err := tier.Limits.Validate(); err != nil {
			problems = append(problems, fmt.Errorf("tier %s: %w", name, err))
		}
		for what, share := range map[string]float64{"share": tier.KVShare, "reserve": tier.KVReserve} {
			if !(share >= 0 && share <= 1) {
				problems = append(problems, fmt.Errorf("tier %s: the KV %s is %g: it must be 0 to 1", name, what, share))
			}
		}
		reserved += tier.KVReserve
	}
	if reserved > 1 {
		problems = append(problems, fmt.Errorf("the tiers reserve %g of the KV pool together: it must be at most 1", reserved))
	}
	return errors.Join(problems...)
}

// identity returns what an organisation is answered as, with one of its keys or
// with none.
func (t *Tiers) identity(o *Organization, k *Key) Identity {
	i := Identity{Organization: o.ID, Tier: o.Tier}
	if k != nil {
		i.User, i.Key, i.Admin, i.KeyLimits = k.User, k.ID, k.Admin, k.Limits
		if k.Tier != nil {
			i.Tier = *k.Tier
		}
		i.models = narrow(i.models, k.Models)
	}
	i.Limits, i.TierLimits = o.Limits.Or(t[i.Tier].Limits), t[i.Tier].Limits.Without(o.Limits)
	i.TierLimits.MonthlyBudget, i.TierLimits.BudgetAlert = 0, 0
	i.models = narrow(narrow(i.models, o.Models), t[i.Tier].Models)
	return i
}

func narrow(lists [][]string, by []string) [][]string {
	if by == nil {
		return lists
	}
	return append(lists, by)
}
