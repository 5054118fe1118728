package signin

import (
	"context"
	"strings"
	"time"

	"parley"
	"parley/gateway/accounts"
	"parley/gateway/exchange"
	"parley/gateway/tenant"
)

// A credential is what a page signs in with: a key, the local token, an account's address
// and password, or a passkey.
type credential struct {
	Key      string         `json:"key"`
	Email    string         `json:"email"`
	Password string         `json:"password"`
	Passkey  *passkeyAnswer `json:"passkey"`
}

// OpenSession answers POST /session and /admin/session.
func (h *Handlers) OpenSession(x *exchange.Exchange, scope tenant.Scope) error {
	var given credential
	if err := read(x, &given); err != nil {
		return err
	}
	given.Key = strings.TrimSpace(given.Key)
	switch {
	case given.Key != "":
		return h.openWithKey(x, given.Key, scope)
	case given.Email != "" && given.Password != "":
		return h.openWithPassword(x, &given, scope)
	case given.Passkey != nil:
		return h.openWithPasskey(x, given.Passkey, scope)
	}
	return parley.Invalid("key", `Send {"email": "…", "password": "…"}, or a key, or the token that 'parley serve' `+
		`printed: {"key": "…"}.`)
}

// openWithPassword signs in to an account.
func (h *Handlers) openWithPassword(x *exchange.Exchange, given *credential, scope tenant.Scope) error {
	ctx := x.Request.Context()
	account := strings.ToLower(strings.TrimSpace(given.Email))
	if err := h.take(x, account); err != nil {
		return err
	}
	u, err := h.store().CheckPassword(ctx, account, given.Password)
	if err != nil {
		if parley.CodeOf(err) == parley.Unauthenticated {
			h.Log.Warn("sign-in refused", "id", x.Record.ID, "remote", x.Remote())
		}
		return err
	}
	if err := h.giveBack(x, account); err != nil {
		return err
	}
	return h.welcome(x, &u, scope, "password")
}

// openWithKey signs in with an API key, or with the local token.
func (h *Handlers) openWithKey(x *exchange.Exchange, secret string, scope tenant.Scope) error {
	ctx, now := x.Request.Context(), h.Now()
	who := &tenant.Identity{}
	var cookie string
	var expires time.Time
	var err error
	if h.Keys.Empty() {
		if err := h.CheckLocal(x.Request); err != nil {
			return err
		}
		if !h.IsLocalToken(secret) {
			return errWrongToken
		}
		cookie, expires, err = h.Keys.Store().OpenLocalSession(ctx, scope, now)
	} else {
		if who, err = h.Keys.Identify(ctx, secret); err != nil {
			return err
		}
		cookie, expires, err = h.Keys.Store().OpenSession(ctx, secret, scope, now)
	}
	if err != nil {
		return err
	}
	h.Cookies.set(x, scope, cookie, int(expires.Sub(now).Seconds()))
	return h.replySession(x, who, expires)
}

var errWrongToken = parley.Errorf(parley.Unauthenticated,
	"This is not the token of this server. 'parley serve' prints a link with it when it starts; each start has "+
		"a new one.")

// kind is what a page that is not signed in should ask for first.
func (h *Handlers) kind() string {
	switch {
	case h.Keys.Empty():
		return kindLocal
	case h.Keys.HasAccounts():
		return kindAccount
	}
	return kindKey
}

// ShowSession answers GET /session and /admin/session. who is the caller, if err is nil.
func (h *Handlers) ShowSession(x *exchange.Exchange, who *tenant.Identity, err error) error {
	if err != nil {
		return reply(x, sessionDocument{Object: "session", Kind: h.kind(), Issuer: h.issuerName()})
	}
	return h.replySession(x, who, time.Time{})
}

// replySession says as whom a page is signed in.
func (h *Handlers) replySession(x *exchange.Exchange, who *tenant.Identity, expires time.Time) error {
	doc := sessionDocument{Object: "session", SignedIn: true, Kind: kindLocal, Issuer: h.issuerName()}
	if !expires.IsZero() {
		doc.ExpiresAt = expires.Unix()
	}
	switch {
	case who.SignedIn():
		u, err := h.store().User(x.Request.Context(), who.User)
		if err != nil {
			return err
		}
		doc.Kind, doc.User = kindAccount, UserShown(&u)
	case who.Key != "":
		k, err := h.Keys.Store().Key(x.Request.Context(), who.Key)
		if err != nil {
			return err
		}
		doc.Kind, doc.Name, doc.RedactedKey = kindKey, k.Name, k.Prefix+"…"
	}
	return reply(x, doc)
}

// CloseSession answers DELETE /session and /admin/session: the session ends on every
// gateway, and the browser forgets its cookie.
func (h *Handlers) CloseSession(x *exchange.Exchange, scope tenant.Scope) error {
	if cookie, ok := h.Cookies.Value(x.Request, scope); ok {
		if err := h.end(x.Request.Context(), cookie); err != nil {
			return err
		}
		if err := h.Keys.Refresh(x.Request.Context()); err != nil {
			return err
		}
	}
	h.Cookies.set(x, scope, "", -1)
	return reply(x, sessionDocument{Object: "session", Kind: h.kind(), Issuer: h.issuerName()})
}

func (h *Handlers) end(ctx context.Context, cookie string) error {
	if accounts.IsCookie(cookie) {
		return h.store().CloseCookie(ctx, cookie)
	}
	return h.Keys.Store().CloseSession(ctx, cookie)
}

// ShowInvitation answers POST /invitation: what an invitation is for.
func (h *Handlers) ShowInvitation(x *exchange.Exchange) error {
	var given struct {
		Token string `json:"token"`
	}
	if err := read(x, &given); err != nil {
		return err
	}
	if err := h.take(x, ""); err != nil {
		return err
	}
	i, err := h.store().InvitationOf(x.Request.Context(), given.Token, h.Now())
	if err != nil {
		return err
	}
	if err := h.giveBack(x, ""); err != nil {
		return err
	}
	return reply(x, InviteShown(&i, ""))
}

// AcceptInvitation answers POST /invitation/accept: the account is made, or its password
// chosen anew, and the chat page is signed in.
func (h *Handlers) AcceptInvitation(x *exchange.Exchange) error {
	var given struct {
		Token    string `json:"token"`
		Name     string `json:"name"`
		Password string `json:"password"`
	}
	if err := read(x, &given); err != nil {
		return err
	}
	if err := h.take(x, ""); err != nil {
		return err
	}
	open := h.Keys.Empty()
	u, err := h.store().Accept(x.Request.Context(), given.Token, given.Name, given.Password, h.Now())
	if err != nil {
		return err
	}
	if err := h.adopt(x.Request.Context(), &u, open); err != nil {
		return err
	}
	if err := h.giveBack(x, ""); err != nil {
		return err
	}
	if err := h.Keys.Store().EnsureOrganization(x.Request.Context(), u.Organization, h.Now()); err != nil {
		return err
	}
	return h.welcome(x, &u, tenant.ScopeChat, "invitation")
}
