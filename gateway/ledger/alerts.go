package ledger

import (
	"context"
	"time"

	"parley/gateway/db"
	"parley/limit"
)

// An Alert says that an account's budget of a month is nearly spent.
type Alert struct {
	// Account is what the budget is of, as the limits name it: a tenant, or
	// one and a key of it.
	Account      string
	Organization string
	// Key is the key's id, Name what its owner calls it and Prefix how its secret
	// begins; all are empty if the budget is the tenant's.
	Key, Name, Prefix string
	At                time.Time
	Standing          limit.Standing
}

// Claim records an alert and reports whether the caller must send it: for each account
// and month one teller does, however many gateways and restarts there are on one
// database. Calling it again with the same teller gives the same result.
func (l *Ledger) Claim(ctx context.Context, a *Alert, teller string) (mine bool, err error) {
	err = l.db.Write(ctx, func(t *db.Tx) error {
		s := &a.Standing
		_, err := t.Exec(
			`INSERT INTO budget_alerts (`+alertColumns+
				`, teller) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (account, month) DO NOTHING`,
			a.Account, int64(s.Month), db.Stamp(a.At), a.Organization, a.Key, a.Name, a.Prefix, int64(s.Spent),
			int64(s.Budget), int64(s.Alert), teller)
		if err != nil {
			return err
		}
		var whose string
		err = t.One(`SELECT teller FROM budget_alerts WHERE account = $1 AND month = $2`,
			[]any{a.Account, int64(s.Month)}, &whose)
		mine = whose == teller
		return err
	})
	return mine, err
}

const alertColumns = `account, month, at, organization, key_id, name, prefix, spent_micros, budget_micros, share`

// Alerts returns the alerts since a time, newest first, at most most.
func (l *Ledger) Alerts(ctx context.Context, since time.Time, most int) (alerts []Alert, err error) {
	err = l.db.Read(ctx, func(t *db.Tx) error {
		alerts, err = db.All(t, scanAlert,
			`SELECT `+alertColumns+` FROM budget_alerts WHERE at >= $1 ORDER BY at DESC, account LIMIT $2`,
			db.Stamp(since), int64(most))
		return err
	})
	return alerts, err
}

func scanAlert(r db.Row, a *Alert) error {
	var at int64
	s := &a.Standing
	err := r.Scan(&a.Account, &s.Month, &at, &a.Organization, &a.Key, &a.Name, &a.Prefix, &s.Spent, &s.Budget, &s.Alert)
	a.At = db.Unstamp(at)
	return err
}

// SpentBy returns what has been spent in the month of now by each of some keys or
// tenants. Those that spent nothing are left out.
func (l *Ledger) SpentBy(ctx context.Context, by By, names []string, now time.Time) (map[string]limit.Micros, error) {
	spent := map[string]limit.Micros{}
	if len(names) == 0 {
		return spent, nil
	}
	sums, err := l.Sums(ctx,
		Query{From: MonthOf(now), To: now.Add(time.Hour), By: []By{by}, Only: map[By][]string{by: names}})
	for i := range sums {
		spent[sums[i].Group[by]] += sums[i].Cost
	}
	return spent, err
}
