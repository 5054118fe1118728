package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"parley/gateway/ledger"
	"parley/gateway/limit"
	"parley/gateway/tenant"
)

// This file tells those who run the server how keys and organisations stand with
// their budgets, and which were told to be nearly spent.

// standingOf returns how an account with these limits stands that has spent so much
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
func (g *Gateway) addOrganizationBudgets(ctx context.Context, organizations []tenant.OrganizationDocument,
	limits []limit.Limits) error {
	var ids []string
	for i := range organizations {
		if limits[i].MonthlyBudget > 0 {
			ids = append(ids, organizations[i].ID)
		}
	}
	now := g.config.Now()
	spent, err := g.config.Ledger.SpentBy(ctx, ledger.ByOrganization, ids, now)
	if err != nil {
		return err
	}
	for i := range organizations {
		s := standingOf(limits[i], spent[organizations[i].ID], g.config.BudgetAlert, now)
		organizations[i].Budget = s.Document()
	}
	return nil
}

// addBudgets says of keys that have a budget how they stand.
func (g *Gateway) addBudgets(ctx context.Context, keys []tenant.KeyDocument) error {
	if g.config.Ledger == nil {
		return nil
	}
	return AddBudgets(ctx, g.config.Ledger, keys, g.config.BudgetAlert, g.config.Now())
}

func (g *Gateway) addBudget(ctx context.Context, k *tenant.KeyDocument) error {
	one := []tenant.KeyDocument{*k}
	err := g.addBudgets(ctx, one)
	*k = one[0]
	return err
}

// changedKey answers a change of a key, once this gateway goes by it.
func (g *Gateway) changedKey(c *call, d tenant.KeyDocument) error {
	if d.Value != "" {
		return g.tellSecret(c, d)
	}
	if err := g.addBudget(c.request.Context(), &d); err != nil {
		return err
	}
	return g.changed(c, d)
}

// secretWait bounds what is done between making a secret and telling it.
const secretWait = 5 * time.Second

// tellSecret answers a change that made a secret. Nobody can ask for it again, so
// it is told even if the store went away after the change: the answer then lacks
// how the key stands with its budget, and the keyring takes the change up later.
func (g *Gateway) tellSecret(c *call, d tenant.KeyDocument) error {
	ctx, cancel := context.WithTimeout(c.request.Context(), secretWait)
	defer cancel()
	if err := errors.Join(g.addBudget(ctx, &d), g.config.Keys.Refresh(ctx)); err != nil {
		g.config.Log.Error(
			"a key has a new secret, and the store went away after that: gateways go by it when the store is back",
			"key", d.ID, "error", err)
	}
	return c.reply(http.StatusOK, d)
}

// organizationsShown returns organisations as clients see them.
func (g *Gateway) organizationsShown(ctx context.Context,
	all ...tenant.Organization) ([]tenant.OrganizationDocument, error) {
	shown, limits := make([]tenant.OrganizationDocument, len(all)), make([]limit.Limits, len(all))
	for i := range all {
		shown[i], limits[i] = all[i].Document(), g.config.Keys.LimitsOf(&all[i])
	}
	if g.config.Ledger == nil {
		return shown, nil
	}
	return shown, g.addOrganizationBudgets(ctx, shown, limits)
}

// changedOrganization answers a change of an organisation.
func (g *Gateway) changedOrganization(c *call, o tenant.Organization) error {
	shown, err := g.organizationsShown(c.request.Context(), o)
	if err != nil {
		return err
	}
	return g.changed(c, shown[0])
}

// An alertList is what was told of budgets, newest first.
type alertList struct {
	Object string                 `json:"object"`
	Data   []ledger.AlertDocument `json:"data"`
}

// alertsShown bounds how many alerts are shown.
const alertsShown = 200

// listAlerts answers GET /admin/api/alerts: those of this month and the one
// before.
func (g *Gateway) listAlerts(c *call) error {
	list := alertList{Object: "list", Data: []ledger.AlertDocument{}}
	if g.config.Ledger == nil {
		return c.reply(http.StatusOK, list)
	}
	alerts, err := g.config.Ledger.Alerts(c.request.Context(), ledger.MonthOf(g.config.Now()).AddDate(0, -1, 0),
		alertsShown)
	if err != nil {
		return err
	}
	for i := range alerts {
		list.Data = append(list.Data, alerts[i].Document(g.config.Currency))
	}
	return c.reply(http.StatusOK, list)
}
