package signin

import (
	"strings"

	"parley"
	"parley/gateway/accounts"
	"parley/gateway/exchange"
	"parley/gateway/tenant"
)

// ShowAccount answers GET /account.
func (h *Handlers) ShowAccount(x *exchange.Exchange) error {
	u, err := h.self(x)
	if err != nil {
		return err
	}
	return reply(x, UserShown(&u))
}

// ChangeAccount answers POST /account: people name themselves.
func (h *Handlers) ChangeAccount(x *exchange.Exchange) error {
	var given struct {
		Name *string `json:"name"`
	}
	before, err := h.self(x)
	if err != nil {
		return err
	}
	if err := read(x, &given); err != nil {
		return err
	}
	u, err := h.store().Change(x.Request.Context(), before.ID, accounts.UserChange{Name: given.Name})
	if err != nil {
		return err
	}
	x.Changes(u.ID, UserShown(&before), UserShown(&u))
	return h.changed(x, UserShown(&u))
}

// ChangePassword answers POST /account/password. All other sessions end.
func (h *Handlers) ChangePassword(x *exchange.Exchange) error {
	var given struct {
		Current string `json:"current_password"`
		New     string `json:"new_password"`
	}
	u, err := h.self(x)
	if err != nil {
		return err
	}
	if err := read(x, &given); err != nil {
		return err
	}
	if err := h.confirm(x, &u, given.Current); err != nil {
		return err
	}
	if err := h.store().SetPassword(x.Request.Context(), u.ID, given.New, h.cookie(x)); err != nil {
		return err
	}
	u.HasPassword = true
	x.Changes(u.ID, nil, map[string]bool{"password": true})
	return h.changed(x, UserShown(&u))
}

// confirmed returns the account of the caller, who repeats its password in the request.
func (h *Handlers) confirmed(x *exchange.Exchange) (accounts.User, error) {
	var given struct {
		Password string `json:"current_password"`
	}
	u, err := h.self(x)
	if err != nil {
		return u, err
	}
	if err := read(x, &given); err != nil {
		return u, err
	}
	return u, h.confirm(x, &u, given.Password)
}

// confirm asks for the password of the account again, if it has one.
func (h *Handlers) confirm(x *exchange.Exchange, u *accounts.User, password string) error {
	if !u.HasPassword {
		return nil
	}
	account := strings.ToLower(u.Email)
	if err := h.take(x, account); err != nil {
		return err
	}
	if _, err := h.store().CheckPassword(x.Request.Context(), u.Email, password); err != nil {
		if parley.CodeOf(err) == parley.Unauthenticated {
			return errWrongPassword
		}
		return err
	}
	return h.giveBack(x, account)
}

// errWrongPassword has a status that does not make a page sign in again.
var errWrongPassword = parley.Invalid("current_password", "This is not your password.")

// cookie returns that of the account's session which makes a call.
func (h *Handlers) cookie(x *exchange.Exchange) string {
	for _, scope := range []tenant.Scope{tenant.ScopeChat, tenant.ScopeAdmin} {
		if cookie, ok := h.Cookies.Value(x.Request, scope); ok && accounts.IsCookie(cookie) {
			return cookie
		}
	}
	return ""
}

// ListSessions answers GET /account/sessions.
func (h *Handlers) ListSessions(x *exchange.Exchange) error {
	u, err := h.self(x)
	if err != nil {
		return err
	}
	ctx := x.Request.Context()
	current, err := h.store().SessionOf(ctx, h.cookie(x))
	if err != nil {
		return err
	}
	all, err := h.store().Sessions(ctx, u.ID, h.Now())
	if err != nil {
		return err
	}
	return reply(x, listOf(all, func(s *accounts.Session) sessionEntry { return sessionShown(s, current.ID) }))
}

// EndSession answers DELETE /account/sessions/{session}.
func (h *Handlers) EndSession(x *exchange.Exchange) error {
	u, err := h.self(x)
	if err != nil {
		return err
	}
	id := x.Values["session"]
	if err := h.store().CloseSession(x.Request.Context(), u.ID, id); err != nil {
		return err
	}
	x.Changes(id, nil, nil)
	return h.changed(x, deletion{"account.session.deleted", id, true})
}

// SignOutEverywhere answers DELETE /account/sessions: also the session that asks ends.
func (h *Handlers) SignOutEverywhere(x *exchange.Exchange) error {
	u, err := h.self(x)
	if err != nil {
		return err
	}
	if err := h.store().CloseSessions(x.Request.Context(), u.ID, ""); err != nil {
		return err
	}
	x.Changes(u.ID, nil, nil)
	h.Cookies.set(x, tenant.ScopeChat, "", -1)
	return h.changed(x, deletion{"account.sessions.deleted", u.ID, true})
}
