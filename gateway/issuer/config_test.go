package issuer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/gateway/accounts"
)

// TestTerms: of several groups the strongest role, the best tier and all models count, and
// who is in none has what all others have.
func TestTerms(t *testing.T) {
	c := Config{Rules: []GroupRule{
		{Group: "a", Organization: "acme", Role: accounts.OrgAdmin, Tier: "pro", Models: []string{"x"}},
		{Group: "b", Role: accounts.Member, Tier: "enterprise", Models: []string{"y", "x"}},
		{Group: "c", Organization: "beta"},
	}}
	type given struct {
		organization, tier string
		role               accounts.Role
		models             []string
		known              bool
	}
	for groups, want := range map[string]given{
		"":    {role: accounts.Member},
		"z":   {role: accounts.Member},
		"a":   {"acme", "pro", accounts.OrgAdmin, []string{"x"}, true},
		"b a": {"acme", "enterprise", accounts.OrgAdmin, []string{"x", "y"}, true},
		"b":   {"", "enterprise", accounts.Member, []string{"x", "y"}, true},
		"c":   {organization: "beta", role: accounts.Member, known: true},
	} {
		terms, err := c.terms(strings.Fields(groups))
		got := given{terms.Organization, *terms.Tier, *terms.Role, *terms.Models, terms.CreateUnknown}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(given{})); err != nil || diff != "" {
			t.Errorf("%q gives %v (-want +got):\n%s", groups, err, diff)
		}
	}
	if _, err := c.terms([]string{"a", "c"}); err == nil {
		t.Error("two organisations are accepted")
	}
	if terms, _ := (&Config{}).terms([]string{"a"}); terms.Role != nil || terms.Tier != nil || terms.Models != nil {
		t.Errorf("without rules %+v", terms)
	}
}

func TestBadConfigs(t *testing.T) {
	for want, c := range map[string]Config{
		"is not an address": {ClientID: "a"},
		"must be reached":   {ClientID: "a", URL: "http://accounts.example.com"},
		"client id":         {URL: "https://accounts.example.com"},
		"is not a role":     {ClientID: "a", URL: "http://localhost:1", Rules: []GroupRule{{Group: "g", Role: "king"}}},
		"is not a tier":     {ClientID: "a", URL: "http://127.0.0.1:1", Rules: []GroupRule{{Group: "g", Tier: "gold"}}},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", c, err, want)
		}
	}
}
