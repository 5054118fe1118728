package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"parley"
	"parley/gateway/book"
	"parley/gateway/infer"
	"parley/gateway/ledger"
	"parley/gateway/ops"
	"parley/gateway/tenant"
	"parley/limit"
)

// TestBudgetsNearTheirEnd spends the budget of a key, request by request: from the
// alert on its answers say so, and so do all places where budgets are shown.
func TestBudgetsNearTheirEnd(t *testing.T) {
	var teller *ledger.Teller
	s, rig := startGuarded(t, &worker{script: speak(t, "Yes<|im_end|>", 0)}, newStoreName(t), metered(t),
		func(c *Config) {
			teller = ledger.NewTeller(ledger.TellerConfig{Ledger: c.Ledger, Log: slog.New(slog.DiscardHandler),
				Key: func(ctx context.Context, id string) (string, string, error) {
					return "site", "pk-12345678", nil
				}})
			books := book.NewMemory(c.Now)
			books.Watch = teller.Watch
			c.Limits, c.BudgetAlert, c.Share = books, limit.AlertDefault, infer.Sharing{Off: true}
		})
	ask := func(secret string) (header string, cost limit.Micros) {
		before := s.used().Cost
		r, body := s.do("POST", "/v1/chat/completions", chatBody(`,"max_tokens":2`), bearer(secret)...)
		if r.StatusCode != 200 {
			t.Fatalf("%d: %s", r.StatusCode, body)
		}
		return r.Header.Get("X-Parley-Budget-Used"), s.used().Cost - before
	}
	tier := parley.Enterprise // no rates in the way
	admin, _ := rig.key(tenant.NewKey{Name: "me", Admin: true, Organization: "ops"})
	free, _ := rig.key(tenant.NewKey{Organization: "other", Tier: &tier})
	_, cost := ask(free)
	site, id := rig.key(tenant.NewKey{Name: "site", Organization: "acme", Tier: &tier,
		Limits: limit.Limits{MonthlyBudget: 10 * cost}})
	for i := range 8 {
		if header, _ := ask(site); header != "" {
			t.Errorf("with %d of 10 spent the header says %q", i, header)
		}
	}
	stands := func(o object, want string) {
		t.Helper()
		if got := fmt.Sprint(o["used"], " ", o["state"], " ", o["alert"], " ",
			o["limit"]); got != want+" "+(10*cost).String() {
			t.Errorf("it stands at %s, want %s", got, want)
		}
	}
	of := func(path string, secret string, names ...string) object {
		_, o := s.call("GET", path, "", bearer(secret)...)
		found, _ := o.at(names...).(map[string]any)
		return found
	}
	stands(of("/v1/organization/me", site, "budget"), "0.8 near 0.8")
	if header, _ := ask(site); header != "0.80" {
		t.Errorf("at the alert the header says %q", header)
	}
	stands(of("/v1/organization/me", site, "key", "budget"), "0.9 near 0.8")
	stands(of("/v1/organization/api_keys/"+id, admin, "budget"), "0.9 near 0.8")
	if r, _ := s.do("POST", "/v1/chat/completions", chatBody(`,"max_tokens":60`),
		bearer(site)...); r.StatusCode != 429 || r.Header.Get("X-Parley-Budget-Used") != "0.90" {
		t.Errorf("beyond the budget: %d, %q", r.StatusCode, r.Header.Get("X-Parley-Budget-Used"))
	}
	s.call("POST", "/v1/organization/projects/acme",
		fmt.Sprintf(`{"limits":{"monthly_budget":%q,"budget_alert":0.95}}`, 10*cost), bearer(admin)...)
	stands(of("/v1/organization/projects/acme", admin, "budget"), "0.9 ok 0.95")
	stands(of("/v1/organization/me", site, "organization_budget"), "0.9 ok 0.95")
	_ = teller.Close()
	_, o := s.call("GET", "/admin/api/alerts", "", bearer(admin)...)
	told, _ := o["data"].([]any)
	if len(told) != 1 {
		t.Fatalf("told %v", o)
	}
	alert := object(told[0].(map[string]any))
	if alert.text("key", "id") != id || alert.text("organization") != "acme" ||
		alert.text("budget", "state") != "near" {
		t.Errorf("told %v", alert)
	}
	if r, _ := s.do("GET", "/admin/api/alerts", "", bearer(site)...); r.StatusCode != 403 {
		t.Errorf("whoever has no right: %d", r.StatusCode)
	}
}

func TestStandingsOfKeys(t *testing.T) {
	config := Config{}
	metered(t)(&config)
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	for id, key := range map[string]string{"1": "k1", "2": "k1", "3": "k2"} {
		if err := config.Ledger.Append(t.Context(),
			&ledger.Entry{ID: id, At: now, Organization: "acme", Key: key, Cost: 4}); err != nil {
			t.Fatal(err)
		}
	}
	keys := []tenant.KeyDocument{{ID: "k1", Limits: limit.Limits{MonthlyBudget: 10}}, {ID: "k2"},
		{ID: "k3", Limits: limit.Limits{MonthlyBudget: 10, BudgetAlert: 500}}}
	if err := ops.AddBudgets(t.Context(), config.Ledger, keys, 900, now); err != nil {
		t.Fatal(err)
	}
	if b := keys[0].Budget; b == nil || b.Spent != 8 || b.Used != 800 || b.State != limit.Fine || b.Alert != 900 {
		t.Errorf("%+v", b)
	}
	if keys[1].Budget != nil || keys[2].Budget.Alert != 500 || keys[2].Budget.Spent != 0 {
		t.Errorf("%+v, %+v", keys[1].Budget, keys[2].Budget)
	}
}
