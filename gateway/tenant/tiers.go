package tenant

import (
	"errors"
	"fmt"

	"parley"
	"parley/limit"
)

// A Tier is what a class of tenants gets.
type Tier struct {
	// Models are the names that the class may ask for; nil allows all.
	Models []string
	// Limits are what a tenant of the class may use.
	Limits limit.Limits
	// UserLimits are what each user of such a tenant may use of that, with all
	// its keys together; EndUserLimits what each of the users may whom a caller names
	// in its requests. Neither has a budget.
	UserLimits, EndUserLimits limit.Limits
	// Quota is what a tenant of the class may store, UserQuota what each of its
	// users may of that.
	Quota, UserQuota Quota
	// KVShare is the part of a model's key/value pool that the class may keep
	// cached before it is evicted ahead of others; 0 is all of it. KVReserve is
	// the part that others use only while the class does not.
	KVShare, KVReserve float64
	// TenantKVShare is the part of the pool that each tenant of the class may keep
	// cached before it is evicted ahead of others; 0 is half of it.
	TenantKVShare float64
}

// Tiers has an entry for each class.
type Tiers [parley.Classes]Tier

// DefaultTiers keeps strangers from taking a server for themselves: free
// tenants have what one person with a coding agent needs, pro ones what a team or a
// program does, and enterprise ones are bounded by the machine alone.
func DefaultTiers() Tiers {
	return Tiers{
		parley.Free: {KVShare: 0.25, Limits: limit.Limits{
			RequestsPerSecond:      5,
			RequestsPerMinute:      60,
			LightRequestsPerMinute: 600,
			InputTokensPerMinute:   600_000,
			OutputTokensPerMinute:  60_000,
			ConcurrentRequests:     4,
		}, Quota: Quota{
			StoreBytes:    256 << 20,
			Conversations: 2000,
			FileBytes:     1e9,
			Files:         100,
			Batches:       20,
		}},
		parley.Pro: {KVShare: 0.75, Limits: limit.Limits{
			RequestsPerSecond:      20,
			RequestsPerMinute:      600,
			LightRequestsPerMinute: 6000,
			InputTokensPerMinute:   1_000_000,
			OutputTokensPerMinute:  200_000,
			ConcurrentRequests:     32,
		}, Quota: Quota{
			StoreBytes:    10 << 30,
			Conversations: 100_000,
			FileBytes:     20e9,
			Files:         10_000,
			Batches:       1000,
		}},
	}
}

// Validate says everything that is wrong with t.
func (t *Tiers) Validate() error {
	var problems []error
	var reserved float64
	for class := range t {
		tier, name := &t[class], parley.Class(class)
		for _, err := range []error{tier.Limits.Validate(), tier.UserLimits.Validate(), tier.EndUserLimits.Validate(),
			tier.Quota.validate(), tier.UserQuota.validate()} {
			if err != nil {
				problems = append(problems, fmt.Errorf("tier %s: %w", name, err))
			}
		}
		for what, share := range map[string]float64{"share": tier.KVShare, "reserve": tier.KVReserve,
			"share of an organisation": tier.TenantKVShare} {
			if !(share >= 0 && share <= 1) {
				problems = append(problems,
					fmt.Errorf("tier %s: the KV %s is %g: it must be 0 to 1", name, what, share))
			}
		}
		reserved += tier.KVReserve
	}
	if reserved > 1 {
		problems = append(problems,
			fmt.Errorf("the tiers reserve %g of the KV pool together: it must be at most 1", reserved))
	}
	return errors.Join(problems...)
}

// identity returns what a tenant is answered as, with one of its keys or
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
	i.UserLimits, i.EndUserLimits = withoutBudget(t[i.Tier].UserLimits), withoutBudget(t[i.Tier].EndUserLimits)
	i.Quota, i.UserQuota = t[i.Tier].Quota, t[i.Tier].UserQuota
	i.models = narrow(narrow(i.models, o.Models), t[i.Tier].Models)
	return i
}

// of returns the identity as that of a user.
func (i Identity) of(user string) Identity {
	i.User = user
	return i
}

// limitedTo returns the identity with models that must also be in a list, nil for any.
func (i Identity) limitedTo(models []string) Identity {
	i.models = narrow(i.models, models)
	return i
}

// managing returns the identity as one that may manage the people of its organisation,
// or not.
func (i Identity) managing(may bool) Identity {
	i.OrgAdmin = may
	return i
}

// within returns the identity as sessions of a scope have it.
func (i Identity) within(s Scope) Identity {
	i.Admin = i.Admin && s == ScopeAdmin
	return i
}

func withoutBudget(l limit.Limits) limit.Limits {
	l.MonthlyBudget, l.BudgetAlert = 0, 0
	return l
}

func narrow(lists [][]string, by []string) [][]string {
	if by == nil {
		return lists
	}
	return append(lists, by)
}
