package signin

import (
	"context"

	"parley"
	"parley/gateway/accounts"
	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/tenant"
)

// CreateFirst answers POST /account/first: the person who runs a server without keys, and
// shows its local token, makes the account that operates it, and is signed in to it.
func (h *Handlers) CreateFirst(x *exchange.Exchange) error {
	if !h.Keys.Empty() {
		return parley.Errorf(parley.Conflict, "This server has keys or accounts already: sign in.")
	}
	var given struct {
		Email    string `json:"email"`
		Name     string `json:"name"`
		Password string `json:"password"`
	}
	if err := read(x, &given); err != nil {
		return err
	}
	if given.Password == "" {
		return parley.Invalid("password", "Choose a password.")
	}
	u, err := h.create(x.Request.Context(), accounts.NewUser{
		Email:    given.Email,
		Name:     given.Name,
		Password: given.Password,
		Grant:    accounts.Grant{Role: accounts.ServerAdmin, Organization: tenant.LocalOrganization},
	})
	if err != nil {
		return err
	}
	x.Changes(u.ID, nil, UserShown(&u))
	return h.welcome(x, &u, tenant.ScopeChat, "first account")
}

// create makes an account, which adopts what was stored before if it is the first.
func (h *Handlers) create(ctx context.Context, n accounts.NewUser) (accounts.User, error) {
	open := h.Keys.Empty()
	u, err := h.store().Create(ctx, n, h.Now())
	if err != nil {
		return u, err
	}
	return u, h.adopt(ctx, &u, open)
}

// adopt gives the first account what was stored while the server was open, which means
// without keys and accounts. Where there were keys, theirs is what they have stored.
func (h *Handlers) adopt(ctx context.Context, u *accounts.User, open bool) error {
	if !open {
		return nil
	}
	all, err := h.store().Users(ctx, "")
	if err != nil || len(all) != 1 || all[0].ID != u.ID {
		return err
	}
	before := convo.Owner{Tenant: tenant.LocalOrganization}
	if h.Batches != nil {
		if err := h.Batches.Adopt(before, ownerOf(u)); err != nil {
			return err
		}
	}
	if h.Convos == nil {
		return nil
	}
	return h.Convos.Adopt(ctx, before, ownerOf(u))
}
