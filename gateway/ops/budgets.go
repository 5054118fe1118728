package ops

import (
	"context"
	"errors"
	"net/http"
	"time"

	"parley/gateway/exchange"
	"parley/gateway/ledger"
	"parley/gateway/tenant"
	"parley/limit"
)

// This file shows operators how keys and organisations stand with their budgets, and
// which alerts were sent.

// standingOf returns how an account with these limits stands that has spent spent
// in the month of now. Usual is the alert of accounts that have none of their own.
func standingOf(l limit.Limits, spent limit.Micros, usual limit.Share, now time.Time) limit.Standing {
	l = l.Or(limit.Limits{BudgetAlert: usual})
	return limit.Standing{Month: limit.MonthOf(now), Budget: l.MonthlyBudget, Spent: spent, Alert: l.BudgetAlert}
}

// AddBudgets says of keys that have a budget how they stand. The ledger is asked
// once for all of them, and not at all if none has. Usual is the alert of those
// that have none of their own.
func AddBudgets(ctx context.Context, from *ledger.Ledger, keys []tenant.KeyDocument, usual limit.Share,
	now time.Time) error {
	var ids []string
	for i := range keys {
		if keys[i].Limits.MonthlyBudget > 0 {
			ids = append(ids, keys[i].ID)
		}
	}
	spent, err := from.SpentBy(ctx, ledger.ByKey, ids, now)
	if err != nil {
		return err
	}
	for i := range keys {
		s := standingOf(keys[i].Limits, spent[keys[i].ID], usual, now)
		keys[i].Budget = s.Document()
	}
	return nil
}

// addOrganizationBudgets does the same for organisations. Limits are what holds for
// each of them.
func (a *API) addOrganizationBudgets(ctx context.Context, organizations []tenant.OrganizationDocument,
	limits []limit.Limits) error {
	var ids []string
	for i := range organizations {
		if limits[i].MonthlyBudget > 0 {
			ids = append(ids, organizations[i].ID)
		}
	}
	now := a.Now()
	spent, err := a.Ledger.SpentBy(ctx, ledger.ByOrganization, ids, now)
	if err != nil {
		return err
	}
	for i := range organizations {
		s := standingOf(limits[i], spent[organizations[i].ID], a.BudgetAlert, now)
		organizations[i].Budget = s.Document()
	}
	return nil
}

// addBudgets says of keys that have a budget how they stand.
func (a *API) addBudgets(ctx context.Context, keys []tenant.KeyDocument) error {
	if a.Ledger == nil {
		return nil
	}
	return AddBudgets(ctx, a.Ledger, keys, a.BudgetAlert, a.Now())
}

func (a *API) addBudget(ctx context.Context, k *tenant.KeyDocument) error {
	one := []tenant.KeyDocument{*k}
	err := a.addBudgets(ctx, one)
	*k = one[0]
	return err
}

// changedKey answers a change of a key, once this gateway goes by it.
func (a *API) changedKey(x *exchange.Exchange, d tenant.KeyDocument) error {
	if d.Value != "" {
		return a.tellSecret(x, d)
	}
	if err := a.addBudget(x.Request.Context(), &d); err != nil {
		return err
	}
	return a.changed(x, d)
}

// secretWait bounds what is done between making a secret and telling it.
const secretWait = 5 * time.Second

// tellSecret answers a change that made a secret. It cannot be asked for again, so
// it is sent even if the store went away after the change: the answer then lacks
// how the key stands with its budget, and the keyring takes the change up later.
func (a *API) tellSecret(x *exchange.Exchange, d tenant.KeyDocument) error {
	ctx, cancel := context.WithTimeout(x.Request.Context(), secretWait)
	defer cancel()
	if err := errors.Join(a.addBudget(ctx, &d), a.Keys.Refresh(ctx)); err != nil {
		a.Log.Error(
			"key rotated; store unreachable since, gateways apply it when it is back",
			"key", d.ID, "error", err)
	}
	return x.Reply(http.StatusOK, d)
}

// organizationsShown returns organisations as clients see them.
func (a *API) organizationsShown(ctx context.Context,
	all ...tenant.Organization) ([]tenant.OrganizationDocument, error) {
	shown, limits := make([]tenant.OrganizationDocument, len(all)), make([]limit.Limits, len(all))
	for i := range all {
		shown[i], limits[i] = all[i].Document(), a.Keys.LimitsOf(&all[i])
		shown[i].EffectiveLimits = &limits[i]
	}
	if a.Ledger == nil {
		return shown, nil
	}
	return shown, a.addOrganizationBudgets(ctx, shown, limits)
}

// changedOrganization answers a change of an organisation.
func (a *API) changedOrganization(x *exchange.Exchange, o tenant.Organization) error {
	shown, err := a.organizationsShown(x.Request.Context(), o)
	if err != nil {
		return err
	}
	return a.changed(x, shown[0])
}

// An alertList lists budget alerts, newest first.
type alertList struct {
	Object string                 `json:"object"`
	Data   []ledger.AlertDocument `json:"data"`
}

// alertsShown bounds how many alerts are shown.
const alertsShown = 200

// ListAlerts answers GET /admin/api/alerts: those of this month and the one
// before.
func (a *API) ListAlerts(x *exchange.Exchange) error {
	list := alertList{Object: "list", Data: []ledger.AlertDocument{}}
	if a.Ledger == nil {
		return x.Reply(http.StatusOK, list)
	}
	alerts, err := a.Ledger.Alerts(x.Request.Context(), ledger.MonthOf(a.Now()).AddDate(0, -1, 0),
		alertsShown)
	if err != nil {
		return err
	}
	for i := range alerts {
		list.Data = append(list.Data, alerts[i].Document(a.Currency))
	}
	return x.Reply(http.StatusOK, list)
}
