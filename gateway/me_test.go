package gateway

import (
	"testing"

	"parley/gateway/tenant"
	"parley/limit"
)

// TestKeyHoldersSeeTheirLimits has a key without any right ask who it is, what
// it may use and what it has spent; what another key of the organisation spent
// is not its business.
func TestKeyHoldersSeeTheirLimits(t *testing.T) {
	s, rig := startGuarded(t, &worker{script: speak(t, "Yes<|im_end|>", 0)}, newStoreName(t), metered(t))
	ann, id := rig.key(tenant.NewKey{Name: "ann's", Organization: "acme",
		Limits: limit.Limits{RequestsPerMinute: 50, MonthlyBudget: 12_500_000}})
	bob, _ := rig.key(tenant.NewKey{Organization: "acme"})
	if r, body := s.do("POST", "/v1/chat/completions", chatBody(""), bearer(bob)...); r.StatusCode != 200 {
		t.Fatalf("%d: %s", r.StatusCode, body)
	}
	spent := func(secret string) string {
		_, o := s.call("GET", "/v1/organization/me", "", bearer(secret)...)
		return o.text("spent_this_month")
	}
	if spent(ann) != "0.00" || spent(bob) == "0.00" {
		t.Errorf("ann spent %s, bob %s", spent(ann), spent(bob))
	}
	_, o := s.call("GET", "/v1/organization/me", "", bearer(ann)...)
	if o.text("key", "id") != id || o.text("key", "limits", "monthly_budget") != "12.50" ||
		o.text("organization") != "acme" || o.text("tier") != "free" || o["admin"] != false {
		t.Errorf("ann is told %v", o)
	}
	if value := o["key"].(map[string]any)["value"]; value != nil {
		t.Errorf("the secret is shown again: %v", value)
	}
}

// TestWhoeverNeedsNoKeyIsToldSo asks where there are no keys at all.
func TestWhoeverNeedsNoKeyIsToldSo(t *testing.T) {
	s := start(t, &worker{})
	if _, o := s.call("GET", "/v1/organization/me", ""); o["admin"] != true || o["key"] != nil ||
		o["spent_this_month"] != nil || o.text("currency") != "usd" {
		t.Errorf("answer %v", o)
	}
}
