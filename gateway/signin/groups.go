package signin

import (
	"slices"

	"parley"
	"parley/gateway/accounts"
	"parley/gateway/exchange"
)

// Groups of the issuer: what their members are given at each sign-in. Those of the
// configuration are listed beside those of the store, and changed in the configuration.

// A GroupDocument is a group as administrators see it. What is null it leaves open.
type GroupDocument struct {
	Object       string   `json:"object"`
	Name         string   `json:"name"`
	Organization *string  `json:"organization"`
	Role         *string  `json:"role"`
	Tier         *string  `json:"tier"`
	Models       []string `json:"models"`
	// Configured groups are those of --oidc-groups, which are not changed here.
	Configured bool `json:"configured"`
}

func groupShown(g *accounts.GroupRule, configured bool) *GroupDocument {
	named := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	return &GroupDocument{
		Object:       "organization.group",
		Name:         g.Name,
		Organization: named(g.Organization),
		Role:         named(string(g.Role)),
		Tier:         named(g.Tier),
		Models:       g.Models,
		Configured:   configured,
	}
}

// configured returns the groups of the configuration.
func (h *Handlers) configured() []accounts.GroupRule {
	if h.Issuer == nil {
		return nil
	}
	return h.Issuer.Groups
}

// ListGroups answers GET /v1/organization/groups. Organisation admins see those that place
// people in their organisation.
func (h *Handlers) ListGroups(x *exchange.Exchange) error {
	within, err := realm(x)
	if err != nil {
		return err
	}
	stored, err := h.store().Groups(x.Request.Context())
	if err != nil {
		return err
	}
	configured := h.configured()
	all := append(slices.Clone(configured), slices.DeleteFunc(stored, func(g accounts.GroupRule) bool {
		return h.sets(g.Name)
	})...)
	all = slices.DeleteFunc(all, func(g accounts.GroupRule) bool { return within != "" && g.Organization != within })
	return reply(x, listOf(all, func(g *accounts.GroupRule) *GroupDocument { return groupShown(g, h.sets(g.Name)) }))
}

// sets reports whether the configuration has a group.
func (h *Handlers) sets(name string) bool { return h.Issuer != nil && h.Issuer.Sets(name) }

// A GroupRequest is a group to be stored.
type GroupRequest struct {
	Name string `json:"name"`
	GrantRequest
}

// readGroup reads the group that a server admin changes.
func (h *Handlers) readGroup(x *exchange.Exchange) (g accounts.GroupRule, err error) {
	if within, err := realm(x); err != nil || within != "" {
		return g, parley.Errorf(parley.Forbidden, "Only server admins may change groups.")
	}
	var r GroupRequest
	if err := read(x, &r); err != nil {
		return g, err
	}
	if h.sets(r.Name) {
		return g, parley.Errorf(parley.Conflict, "The group %q is set in the configuration of this server: "+
			"change --oidc-groups there.", r.Name)
	}
	g.Name = r.Name
	g.Grant, err = r.grant(accounts.Grant{}, "")
	return g, err
}

// SaveGroup answers POST /v1/organization/groups: a new group, or another grant of one.
func (h *Handlers) SaveGroup(x *exchange.Exchange) error {
	g, err := h.readGroup(x)
	if err != nil {
		return err
	}
	ctx := x.Request.Context()
	if g.Role == "" && g.Organization == "" && g.Tier == "" && len(g.Models) == 0 {
		return parley.Invalid("role", "Give the group an organisation, a role, a tier or models.")
	}
	if g.Organization != "" {
		if err := h.ensure(ctx, &g.Grant); err != nil {
			return err
		}
	}
	before, err := h.store().SaveGroup(ctx, g)
	if err != nil {
		return err
	}
	if before.Name == "" {
		x.Changes(g.Name, nil, groupShown(&g, false))
	} else {
		x.Changes(g.Name, groupShown(&before, false), groupShown(&g, false))
	}
	return reply(x, groupShown(&g, false))
}

// DeleteGroup answers DELETE /v1/organization/groups, whose body names the group: names of
// groups have slashes at several issuers.
func (h *Handlers) DeleteGroup(x *exchange.Exchange) error {
	g, err := h.readGroup(x)
	if err != nil {
		return err
	}
	before, err := h.store().DeleteGroup(x.Request.Context(), g.Name)
	if err != nil {
		return err
	}
	x.Changes(g.Name, groupShown(&before, false), nil)
	return reply(x, deletion{"organization.group.deleted", g.Name, true})
}
