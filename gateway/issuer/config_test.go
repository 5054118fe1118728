package issuer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/gateway/accounts"
)

func group(name string, g accounts.Grant) accounts.GroupRule {
	return accounts.GroupRule{Name: name, Grant: g}
}

// TestTerms: of several groups the strongest role, the best tier and all models count, and
// who is in none has what all others have.
func TestTerms(t *testing.T) {
	c := Config{Groups: []accounts.GroupRule{
		group("a", accounts.Grant{Organization: "acme", Role: accounts.OrgAdmin, Tier: "pro", Models: []string{"x"}}),
		group("c", accounts.Grant{Organization: "beta"}),
	}}
	stored := []accounts.GroupRule{
		group("a", accounts.Grant{Role: accounts.ServerAdmin}), // the configuration counts
		group("b", accounts.Grant{Role: accounts.Member, Tier: "enterprise", Models: []string{"y", "x"}}),
	}
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
		terms, err := c.terms(strings.Fields(groups), stored)
		got := given{terms.Organization, *terms.Tier, *terms.Role, *terms.Models, terms.CreateUnknown}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(given{})); err != nil || diff != "" {
			t.Errorf("%q gives %v (-want +got):\n%s", groups, err, diff)
		}
	}
	if _, err := c.terms([]string{"a", "c"}, nil); err == nil {
		t.Error("two organisations are accepted")
	}
	terms, err := (&Config{}).terms([]string{"a"}, nil)
	if err != nil || terms.Role != nil || terms.Tier != nil || terms.Models != nil {
		t.Errorf("without rules %+v", terms)
	}
}

// TestScopes: issuers are asked for groups only where some are named, because several refuse scopes that they do not
// know.
func TestScopes(t *testing.T) {
	stored := []accounts.GroupRule{group("a", accounts.Grant{Tier: "pro"})}
	for want, got := range map[string][]string{
		"openid email profile":        (&Config{}).scopes(nil),
		"openid email profile groups": (&Config{}).scopes(stored),
		"openid roles":                (&Config{Scopes: []string{"openid", "roles"}}).scopes(stored),
	} {
		if strings.Join(got, " ") != want {
			t.Errorf("asked for %q, want %q", got, want)
		}
	}
	if c := (Config{Groups: stored}); strings.Join(c.scopes(nil), " ") != "openid email profile groups" {
		t.Errorf("with a configured group %q", c.scopes(nil))
	}
}

func TestBadConfigs(t *testing.T) {
	with := func(g accounts.Grant) Config {
		return Config{ClientID: "a", URL: "http://localhost:1", Groups: []accounts.GroupRule{group("g", g)}}
	}
	for want, c := range map[string]Config{
		"is not an address": {ClientID: "a"},
		"must be reached":   {ClientID: "a", URL: "http://accounts.example.com"},
		"client id":         {URL: "https://accounts.example.com"},
		"is not a role":     with(accounts.Grant{Role: "king"}),
		"is not a tier":     with(accounts.Grant{Tier: "gold"}),
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", c, err, want)
		}
	}
}
