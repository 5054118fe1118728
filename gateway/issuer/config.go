package issuer

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"

	"parley"
	"parley/gateway/accounts"
	"parley/gateway/tenant"
	"parley/internal/local"
)

// A Config is what an operator says of an issuer.
type Config struct {
	// URL is the issuer's, as its ID tokens have it; empty for none.
	URL                    string
	ClientID, ClientSecret string
	// Name is on the button; empty is the host of URL.
	Name string
	// Scopes are asked for beside openid; empty is email and profile, and groups if any is named.
	Scopes []string
	// GroupsClaim names the claim that lists groups; empty is groups.
	GroupsClaim string
	// Groups say what their members are given. The store may have more.
	Groups []accounts.GroupRule
	// Domains are those of email addresses that may sign in; empty allows all.
	Domains []string
	// CreateUnknown makes an account for each person whom the issuer vouches for. Otherwise
	// people need an invitation, or a group that is named here or in the store.
	CreateUnknown bool
	// AcceptUnverified accepts addresses that the issuer does not call verified.
	AcceptUnverified bool
}

// Validate says what is wrong with a config.
func (c *Config) Validate() error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		wrong("the issuer %q is not an address such as https://accounts.example.com", c.URL)
	case u.Scheme != "https" && !(u.Scheme == "http" && local.IsName(u.Host)):
		wrong("the issuer %q must be reached by https: its answers say who signs in", c.URL)
	}
	if c.ClientID == "" {
		wrong("an issuer needs the client id that it knows this server by: --oidc-client-id")
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		if _, err := accounts.ParseRole(string(g.Role)); err != nil {
			wrong("the group %q: %w", g.Name, err)
		}
		if _, ok := tenant.ParseClass(g.Tier); !ok && g.Tier != "" {
			wrong("the group %q: %q is not a tier: use free, pro or enterprise", g.Name, g.Tier)
		}
	}
	return errors.Join(problems...)
}

// ShownName is what people know the issuer by.
func (c *Config) ShownName() string {
	if c.Name != "" {
		return c.Name
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return c.URL
	}
	return u.Host
}

// Sets reports whether the configuration names a group; what the store has of it does not count then.
func (c *Config) Sets(group string) bool {
	return slices.ContainsFunc(c.Groups, func(g accounts.GroupRule) bool { return g.Name == group })
}

// with returns all groups that count beside those of the store.
func (c *Config) with(stored []accounts.GroupRule) []accounts.GroupRule {
	all := slices.Clone(c.Groups)
	for _, g := range stored {
		if !c.Sets(g.Name) {
			all = append(all, g)
		}
	}
	return all
}

// scopes are what an issuer is asked for, with the groups of the store.
func (c *Config) scopes(stored []accounts.GroupRule) []string {
	all := c.Scopes
	if len(all) == 0 {
		all = []string{"email", "profile"}
		if len(c.Groups)+len(stored) > 0 {
			all = append(all, "groups")
		}
	}
	beside := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == oidc.ScopeOpenID })
	return append([]string{oidc.ScopeOpenID}, beside...)
}

// terms are what groups, those of the store included, give a person who is in those of names. A role, a
// tier or models that any group gives follow the groups: people in none of these have that of all others. Of
// several the strongest role, the best tier and all models count.
func (c *Config) terms(names []string, stored []accounts.GroupRule) (terms accounts.Terms, err error) {
	terms.CreateUnknown, terms.Home = c.CreateUnknown, tenant.LocalOrganization
	all := c.with(stored)
	for i := range all {
		r := &all[i]
		matches := slices.Contains(names, r.Name)
		terms.CreateUnknown = terms.CreateUnknown || matches
		if r.Role != "" {
			terms.Role = stronger(terms.Role, r.Role, matches)
		}
		if r.Tier != "" {
			terms.Tier = better(terms.Tier, r.Tier, matches)
		}
		if len(r.Models) > 0 {
			terms.Models = joined(terms.Models, r.Models, matches)
		}
		if !matches || r.Organization == "" {
			continue
		}
		if terms.Organization != "" && terms.Organization != r.Organization {
			return terms, parley.Errorf(parley.Forbidden, "Your groups place you in two organisations, %s and %s. Ask "+
				"an administrator of this server.", terms.Organization, r.Organization)
		}
		terms.Organization = r.Organization
	}
	return terms, nil
}

var roles = []accounts.Role{accounts.Member, accounts.OrgAdmin, accounts.ServerAdmin}

// stronger returns the stronger of what is given so far and of what a group gives a member.
func stronger(now *accounts.Role, role accounts.Role, member bool) *accounts.Role {
	if now == nil {
		now = new(accounts.Role)
		*now = accounts.Member
	}
	if member && slices.Index(roles, role) > slices.Index(roles, *now) {
		now = &role
	}
	return now
}

// better returns the better tier; empty is that of the organisation.
func better(now *string, tier string, member bool) *string {
	if now == nil {
		now = new(string)
	}
	if !member {
		return now
	}
	before, ok := tenant.ParseClass(*now)
	if class, _ := tenant.ParseClass(tier); !ok || class > before {
		now = &tier
	}
	return now
}

// joined adds models for a member; nil is what the organisation may use.
func joined(now *[]string, models []string, member bool) *[]string {
	if now == nil {
		now = new([]string)
	}
	if member {
		all := append(slices.Clone(*now), models...)
		slices.Sort(all)
		all = slices.Compact(all)
		now = &all
	}
	return now
}

// allows reports whether an address is of a domain that may sign in.
func (c *Config) allows(email string) bool {
	_, domain, _ := strings.Cut(email, "@")
	return len(c.Domains) == 0 || slices.ContainsFunc(c.Domains, func(d string) bool {
		return strings.EqualFold(d, domain)
	})
}
