package ops

import (
	"context"
	"net/http"

	"parley/gateway/exchange"
	"parley/gateway/ledger"
	"parley/gateway/tenant"
	"parley/limit"
)

// A meDocument is what a caller may know of itself without any right: as whom it
// is served, what it may use, and what its key has spent.
type meDocument struct {
	Object       string `json:"object"`
	Organization string `json:"organization"`
	Tier         string `json:"tier"`
	Admin        bool   `json:"admin"`
	// Key is the key that was shown, with its own limits; null for callers without one.
	Key *tenant.KeyDocument `json:"key"`
	// Limits are those of the organisation. They hold besides the key's.
	Limits limit.Limits `json:"limits"`
	// UserLimits are those of the user that the key names, for all its keys; null
	// without any.
	UserLimits *limit.Limits `json:"user_limits"`
	// Quota is what the organisation stores and may store, UserQuota the same of the
	// user.
	Quota     QuotaDocument `json:"quota"`
	UserQuota QuotaDocument `json:"user_quota"`
	// Spent is what the key has cost since MonthStart, in Currency; null if no
	// ledger is kept.
	Spent      *limit.Micros `json:"spent_this_month"`
	MonthStart int64         `json:"month_start"`
	Currency   string        `json:"currency"`
	// Budget is how the key stands with its own budget, OrganizationBudget how its
	// organisation does with the budget of all its keys; null where there is none, or
	// no ledger is kept.
	Budget             *limit.StandingDocument `json:"budget"`
	OrganizationBudget *limit.StandingDocument `json:"organization_budget"`
}

// ShowMe answers GET /v1/organization/me.
func (a *API) ShowMe(x *exchange.Exchange) error {
	who, ctx := x.Identity, x.Request.Context()
	month := ledger.MonthOf(a.Now())
	me := meDocument{
		Object:       "organization.me",
		Organization: who.Organization,
		Tier:         who.Tier.String(),
		Admin:        who.Admin,
		Limits:       who.Limits,
		MonthStart:   month.Unix(),
		Currency:     a.Currency,
	}
	if who.Key != "" && !who.SignedIn() {
		k, err := a.Keys.Store().Key(ctx, who.Key)
		if err != nil {
			return err
		}
		shown := k.Document("")
		me.Key = &shown
	}
	var err error
	if me.Quota, me.UserQuota, err = a.Quotas(ctx, x); err != nil {
		return err
	}
	if l := who.LimitsOfUser(); l != (limit.Limits{}) {
		me.UserLimits = &l
	}
	if a.Ledger != nil {
		spent, err := a.Ledger.Spent(ctx, who.Organization, who.Key, a.Now())
		if err != nil {
			return err
		}
		me.Spent = &spent
		if err := a.tellBudgets(ctx, who, spent, &me); err != nil {
			return err
		}
	}
	x.Header().Set("Cache-Control", "no-store")
	return x.Reply(http.StatusOK, me)
}

// tellBudgets says how a caller's key, which has spent spent, and its
// organisation stand with their budgets.
func (a *API) tellBudgets(ctx context.Context, who *tenant.Identity, spent limit.Micros, me *meDocument) error {
	now, usual := a.Now(), a.BudgetAlert
	own := standingOf(who.KeyLimits, spent, usual, now)
	if me.Budget = own.Document(); me.Key != nil {
		me.Key.Budget = me.Budget
	}
	if who.Limits.MonthlyBudget == 0 {
		return nil
	}
	all, err := a.Ledger.Spent(ctx, who.Organization, "", now)
	together := standingOf(who.Limits, all, usual, now)
	me.OrganizationBudget = together.Document()
	return err
}
