package signin

import (
	"cmp"
	"context"

	"parley"
	"parley/gateway/accounts"
	"parley/gateway/exchange"
	"parley/gateway/tenant"
)

// The people of organisations. Server admins, and callers with the admin right, manage
// those of all; organisation admins those of their own, but for server admins, and they
// give nothing that they have not.

var errNotOrgAdmin = parley.Errorf(parley.Forbidden,
	"This needs an account that is an admin of its organisation, or of the server.")

// realm returns the organisation whose people a caller manages, empty for all.
func realm(x *exchange.Exchange) (string, error) {
	switch who := x.Identity; {
	case who.Admin:
		return "", nil
	case who.OrgAdmin:
		return who.Organization, nil
	}
	return "", errNotOrgAdmin
}

// managed returns the account that a route names, if the caller manages it.
func (h *Handlers) managed(x *exchange.Exchange) (u accounts.User, err error) {
	within, err := realm(x)
	if err != nil {
		return u, err
	}
	u, err = h.store().User(x.Request.Context(), x.Values["user"])
	switch {
	case err != nil:
		return u, err
	case within != "" && u.Organization != within:
		return u, accounts.ErrNotFound
	case within != "" && u.Role == accounts.ServerAdmin:
		return u, parley.Errorf(parley.Forbidden, "Only server admins may change server admins.")
	}
	return u, nil
}

// ListUsers answers GET /v1/organization/users.
func (h *Handlers) ListUsers(x *exchange.Exchange) error {
	within, err := realm(x)
	if err != nil {
		return err
	}
	within = cmp.Or(within, x.Request.URL.Query().Get("organization"))
	all, err := h.store().Users(x.Request.Context(), within)
	if err != nil {
		return err
	}
	return reply(x, listOf(all, UserShown))
}

// ShowUser answers GET /v1/organization/users/{user}.
func (h *Handlers) ShowUser(x *exchange.Exchange) error {
	u, err := h.managed(x)
	if err != nil {
		return err
	}
	return reply(x, UserShown(&u))
}

// A GrantRequest is what an administrator gives an account.
type GrantRequest struct {
	Role         *string   `json:"role,omitempty"`
	Organization *string   `json:"organization,omitempty"`
	Tier         *string   `json:"tier,omitempty"`
	Models       *[]string `json:"models,omitempty"`
}

// grant returns what is asked for, for an account that has before, if the caller may
// give it.
func (r *GrantRequest) grant(before accounts.Grant, within string) (g accounts.Grant, err error) {
	g = before
	if r.Role != nil {
		if g.Role, err = accounts.ParseRole(*r.Role); err != nil {
			return g, err
		}
	}
	if r.Organization != nil {
		g.Organization = *r.Organization
	}
	if r.Tier != nil {
		g.Tier = *r.Tier
	}
	if r.Models != nil {
		g.Models = *r.Models
	}
	if _, ok := tenant.ParseClass(g.Tier); !ok && g.Tier != "" {
		return g, parley.Invalid("tier", "%q is not a tier: use free, pro or enterprise.", g.Tier)
	}
	switch {
	case within == "":
		return g, nil
	case g.Role == accounts.ServerAdmin:
		return g, parley.Errorf(parley.Forbidden, "Only server admins may make server admins.")
	case g.Organization != within || r.Tier != nil || r.Models != nil:
		return g, parley.Errorf(parley.Forbidden, "Only server admins may choose the organisation, tier and models.")
	}
	return g, nil
}

// home is the organisation of people for whom none is named.
func home(x *exchange.Exchange) string {
	return cmp.Or(x.Identity.Organization, tenant.LocalOrganization)
}

// A UserRequest is an account to be made, or what is changed of one.
type UserRequest struct {
	Email    *string `json:"email,omitempty"`
	Name     *string `json:"name,omitempty"`
	Password *string `json:"password,omitempty"`
	Disabled *bool   `json:"disabled,omitempty"`
	GrantRequest
}

// CreateUser answers POST /v1/organization/users: an account with a password that the
// caller knows. Where that is not wanted, invite.
func (h *Handlers) CreateUser(x *exchange.Exchange) error {
	within, err := realm(x)
	if err != nil {
		return err
	}
	var r UserRequest
	if err := read(x, &r); err != nil {
		return err
	}
	if r.Email == nil || r.Password == nil || r.Disabled != nil {
		return parley.Invalid("email", `Send {"email": "…", "name": "…", "password": "…", "role": "…"}.`)
	}
	g, err := r.grant(accounts.Grant{Role: accounts.Member, Organization: home(x)}, within)
	if err != nil {
		return err
	}
	if err := h.ensure(x.Request.Context(), &g); err != nil {
		return err
	}
	fresh := accounts.NewUser{Email: *r.Email, Password: *r.Password, Grant: g}
	if r.Name != nil {
		fresh.Name = *r.Name
	}
	if fresh.Password == "" {
		return parley.Invalid("password", "Choose a password, or invite the person instead.")
	}
	u, err := h.create(x.Request.Context(), fresh)
	if err != nil {
		return err
	}
	x.Changes(u.ID, nil, UserShown(&u))
	return h.changed(x, UserShown(&u))
}

// ensure makes the organisation of a grant.
func (h *Handlers) ensure(ctx context.Context, g *accounts.Grant) error {
	return h.Keys.Store().EnsureOrganization(ctx, g.Organization, h.Now())
}

// ChangeUser answers POST /v1/organization/users/{user}.
func (h *Handlers) ChangeUser(x *exchange.Exchange) error {
	before, err := h.managed(x)
	if err != nil {
		return err
	}
	within, err := realm(x)
	if err != nil {
		return err
	}
	var r UserRequest
	if err := read(x, &r); err != nil {
		return err
	}
	if r.Email != nil || r.Password != nil {
		return parley.Invalid("email",
			"Email addresses and passwords cannot be changed here: create a link with …/reset.")
	}
	if r.Organization != nil && *r.Organization != before.Organization {
		return parley.Invalid("organization", "An account stays in its organisation, which owns what it has stored. "+
			"Delete it and invite the person to %s.", *r.Organization)
	}
	g, err := r.grant(before.Grant, within)
	if err != nil {
		return err
	}
	if before.ID == x.Identity.User && (r.Disabled != nil && *r.Disabled || g.Role != before.Role) {
		return parley.Errorf(parley.Conflict, "You cannot disable your own account or change your own role. Ask "+
			"another admin to do it.")
	}
	u, err := h.store().Change(x.Request.Context(), before.ID, accounts.UserChange{
		Name:     r.Name,
		Role:     &g.Role,
		Tier:     &g.Tier,
		Models:   &g.Models,
		Disabled: r.Disabled,
	})
	if err != nil {
		return err
	}
	x.Changes(u.ID, UserShown(&before), UserShown(&u))
	return h.changed(x, UserShown(&u))
}

// DeleteUser answers DELETE /v1/organization/users/{user}: the account goes with all that
// it has stored.
func (h *Handlers) DeleteUser(x *exchange.Exchange) error {
	u, err := h.managed(x)
	if err != nil {
		return err
	}
	if u.ID == x.Identity.User {
		return parley.Errorf(parley.Conflict, "You cannot remove your own account here. Delete it under Settings, "+
			"Account.")
	}
	if err := h.erase(x.Request.Context(), &u); err != nil {
		return err
	}
	x.Changes(u.ID, UserShown(&u), nil)
	return h.changed(x, deletion{"organization.user.deleted", u.ID, true})
}

// SignOutUser answers POST /v1/organization/users/{user}/sign_out.
func (h *Handlers) SignOutUser(x *exchange.Exchange) error {
	u, err := h.managed(x)
	if err != nil {
		return err
	}
	if err := h.store().CloseSessions(x.Request.Context(), u.ID, ""); err != nil {
		return err
	}
	x.Changes(u.ID, nil, nil)
	return h.changed(x, UserShown(&u))
}

// ResetPassword answers POST /v1/organization/users/{user}/reset: a link with which the
// person chooses a new password.
func (h *Handlers) ResetPassword(x *exchange.Exchange) error {
	u, err := h.managed(x)
	if err != nil {
		return err
	}
	return h.invite(x, accounts.Invitation{User: u.ID, Email: u.Email, Grant: u.Grant})
}

// CreateInvite answers POST /v1/organization/invites.
func (h *Handlers) CreateInvite(x *exchange.Exchange) error {
	within, err := realm(x)
	if err != nil {
		return err
	}
	var r struct {
		Email string `json:"email"`
		GrantRequest
	}
	if err := read(x, &r); err != nil {
		return err
	}
	g, err := r.grant(accounts.Grant{Role: accounts.Member, Organization: home(x)}, within)
	if err != nil {
		return err
	}
	if err := h.ensure(x.Request.Context(), &g); err != nil {
		return err
	}
	return h.invite(x, accounts.Invitation{Email: r.Email, Grant: g})
}

func (h *Handlers) invite(x *exchange.Exchange, i accounts.Invitation) error {
	if x.Identity.SignedIn() {
		i.By = x.Identity.User
	}
	i, token, err := h.store().Invite(x.Request.Context(), i, h.Now())
	if err != nil {
		return err
	}
	x.Changes(i.ID, nil, InviteShown(&i, ""))
	return reply(x, InviteShown(&i, token))
}

// ListInvites answers GET /v1/organization/invites.
func (h *Handlers) ListInvites(x *exchange.Exchange) error {
	within, err := realm(x)
	if err != nil {
		return err
	}
	all, err := h.store().Invitations(x.Request.Context(), within, h.Now())
	if err != nil {
		return err
	}
	return reply(x, listOf(all, func(i *accounts.Invitation) *InviteDocument { return InviteShown(i, "") }))
}

// DeleteInvite answers DELETE /v1/organization/invites/{invite}.
func (h *Handlers) DeleteInvite(x *exchange.Exchange) error {
	within, err := realm(x)
	if err != nil {
		return err
	}
	id := x.Values["invite"]
	if err := h.store().DeleteInvitation(x.Request.Context(), within, id); err != nil {
		return err
	}
	x.Changes(id, nil, nil)
	return reply(x, deletion{"organization.invite.deleted", id, true})
}
