package ledger

import (
	"fmt"

	"parley/limit"
)

// An AlertDocument is an alert as JSON shows it: to the operator's page, and to a
// webhook. It never has a key's secret.
type AlertDocument struct {
	Object string `json:"object"`
	// ID is the same for every delivery of an alert, from any gateway.
	ID           string    `json:"id"`
	CreatedAt    int64     `json:"created_at"`
	Organization string    `json:"organization"`
	Key          *AlertKey `json:"key"`
	Month        string    `json:"month"`
	// Budget is how the account stood when it was told.
	Budget   *limit.StandingDocument `json:"budget"`
	Currency string                  `json:"currency"`
	// Text says it for people. Chat programs that take webhooks show it.
	Text string `json:"text"`
}

// An AlertKey is the key whose budget it is.
type AlertKey struct {
	ID            string `json:"id"`
	Name          string `json:"name"`
	RedactedValue string `json:"redacted_value"`
}

// Document returns an alert as JSON shows it.
func (a *Alert) Document(currency string) AlertDocument {
	s := &a.Standing
	d := AlertDocument{
		Object:       "budget.alert",
		ID:           a.Account + "@" + s.Month.String(),
		CreatedAt:    a.At.Unix(),
		Organization: a.Organization,
		Month:        s.Month.String(),
		Budget:       s.Document(),
		Currency:     currency,
		Text:         sentence(a, currency),
	}
	if a.Key != "" {
		d.Key = &AlertKey{a.Key, a.Name, a.Prefix + "…"}
	}
	return d
}

func sentence(a *Alert, currency string) string {
	s := &a.Standing
	who := "The organisation " + a.Organization
	if a.Key != "" {
		who = "The key " + shownKey(a) + " of " + a.Organization
	}
	return fmt.Sprintf(
		"%s has spent %s of its budget of %s %s for %s (%d %%). Once it is spent, requests are refused until %s.",
		who, s.Spent, s.Budget, currency, s.Month, s.Used()*100/limit.Whole, (s.Month + 1).Start().Format("2006-01-02"))
}

// shownKey is how people recognise the key: by its name and how its secret begins.
func shownKey(a *Alert) string {
	if a.Name == "" {
		return a.Prefix + "…"
	}
	return a.Name + " (" + a.Prefix + "…)"
}
