package signin

import (
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"

	"parley"
	"parley/gateway/accounts"
	"parley/gateway/exchange"
	"parley/gateway/issuer"
	"parley/gateway/tenant"
)

// CallbackPath is where an issuer sends browsers back to.
const CallbackPath = "/session/callback"

const issuerFlow = "issuer"

// A visit is what is kept of a sign-in at an issuer until the browser comes back.
type visit struct {
	issuer.Ticket
	Scope tenant.Scope `json:"scope"`
	// Return is the page to show then.
	Return string `json:"return"`
	// Connect is the account that the identity is to be connected to; empty for none.
	Connect string `json:"connect,omitempty"`
	// Invitation is the token of one that is accepted; empty for none.
	Invitation string `json:"invitation,omitempty"`
}

var errNoIssuer = parley.Errorf(parley.NotFound, "This server has no issuer of OpenID Connect: see --oidc-issuer.")

// returnable are the pages that a sign-in may come back to.
var returnable = regexp.MustCompile(`^/(c/[A-Za-z0-9_-]{1,64}|admin)?$`)

// BeginIssuer answers POST /session/issuer: where the browser goes to sign in.
func (h *Handlers) BeginIssuer(x *exchange.Exchange) error {
	var given struct {
		Return     string `json:"return_to"`
		Invitation string `json:"invitation"`
	}
	if err := read(x, &given); err != nil {
		return err
	}
	if !returnable.MatchString(given.Return) {
		return parley.Invalid("return_to", "%.100q is not a page to return to: use /, /c/… or /admin.", given.Return)
	}
	f := visit{Scope: tenant.ScopeChat, Return: cmp.Or(given.Return, "/"), Invitation: given.Invitation}
	if f.Return == adminCookiePath {
		f.Scope = tenant.ScopeAdmin
	}
	return h.begin(x, &f)
}

// ConnectIssuer answers POST /account/identities: the browser goes to sign in, and what it
// signs in with is an identity of the caller's account from then on.
func (h *Handlers) ConnectIssuer(x *exchange.Exchange) error {
	u, err := h.confirmed(x)
	if err != nil {
		return err
	}
	return h.begin(x, &visit{Scope: tenant.ScopeChat, Return: "/", Connect: u.ID})
}

// begin keeps a flow and replies with the issuer's address.
func (h *Handlers) begin(x *exchange.Exchange, f *visit) error {
	if h.Issuer == nil {
		return errNoIssuer
	}
	ctx := x.Request.Context()
	if err := h.take(x, ""); err != nil {
		return err
	}
	f.Ticket = issuer.NewTicket(x.PublicOrigin() + CallbackPath)
	document, err := json.Marshal(f)
	if err != nil {
		return err
	}
	state, err := h.store().BeginFlow(ctx, issuerFlow, document, h.Now())
	if err != nil {
		return err
	}
	stored, err := h.store().Groups(ctx)
	if err != nil {
		return err
	}
	address, err := h.Issuer.Address(ctx, &f.Ticket, state, stored)
	if err != nil {
		return h.failedAtIssuer(x, err)
	}
	h.setState(x, state, int(accounts.FlowMax.Seconds()))
	return reply(x, map[string]string{"object": "session.issuer", "url": address})
}

// failedAtIssuer logs why, and returns what people are told.
func (h *Handlers) failedAtIssuer(x *exchange.Exchange, err error) error {
	var failure *issuer.SignInError
	if errors.As(err, &failure) {
		h.Log.Warn("sign-in at issuer failed", "id", x.Record.ID, "issuer", h.Issuer.URL, "error", failure.Cause,
			"remote", x.Remote())
		return failure.Told
	}
	return err
}

// setState gives a browser the state of its flow, or takes it away. It comes back with a
// navigation from another site, so it cannot be strict.
func (h *Handlers) setState(x *exchange.Exchange, state string, seconds int) {
	http.SetCookie(x.Response, &http.Cookie{
		Name:     h.Cookies.stateName(),
		Value:    state,
		Path:     CallbackPath,
		MaxAge:   seconds,
		HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
		Secure:   x.IsSecure(),
	})
}

// Callback answers GET /session/callback, to which the issuer sends the browser: with a
// page that leads to where the sign-in began. A redirect would be a part of the navigation
// from the issuer's site, which strict cookies do not go with.
func (h *Handlers) Callback(x *exchange.Exchange) error {
	back, err := h.finish(x)
	h.setState(x, "", -1)
	if err == nil {
		return hop(x, http.StatusOK, back, "")
	}
	err = h.failedAtIssuer(x, err)
	var told *parley.Error
	if !errors.As(err, &told) {
		return err
	}
	return hop(x, http.StatusForbidden, back, told.Message)
}

// finish ends a flow with what the browser has brought back, and opens a session.
func (h *Handlers) finish(x *exchange.Exchange) (back string, err error) {
	back = "/"
	if h.Issuer == nil {
		return back, errNoIssuer
	}
	ctx, query := x.Request.Context(), x.Request.URL.Query()
	state := query.Get("state")
	cookie, err := x.Request.Cookie(h.Cookies.stateName())
	if err != nil || state == "" || subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(state)) != 1 {
		return back, accounts.ErrFlow // another browser, or another site, has begun it
	}
	document, err := h.store().EndFlow(ctx, issuerFlow, state, h.Now())
	if err != nil {
		return back, err
	}
	var f visit
	if err := json.Unmarshal(document, &f); err != nil {
		return back, err
	}
	back = f.Return
	if refusal := query.Get("error"); refusal != "" {
		h.Log.Warn("sign-in refused by issuer", "id", x.Record.ID, "error", printable(refusal), "remote", x.Remote())
		return back, parley.Errorf(parley.Unauthenticated, "%s did not sign you in. Try again, or ask its admin.",
			h.Issuer.ShownName())
	}
	stored, err := h.store().Groups(ctx)
	if err != nil {
		return back, err
	}
	e, terms, err := h.Issuer.Finish(ctx, &f.Ticket, query.Get("code"), stored)
	if err != nil {
		return back, err
	}
	terms.Connect, terms.Invitation = f.Connect, f.Invitation
	if terms.Organization != "" {
		if err := h.Keys.Store().EnsureOrganization(ctx, terms.Organization, h.Now()); err != nil {
			return back, err
		}
	}
	open := h.Keys.Empty()
	u, err := h.store().SignInExternal(ctx, e, terms, h.Now())
	if err != nil {
		return back, err
	}
	if err := h.adopt(ctx, &u, open); err != nil {
		return back, err
	}
	if err := h.giveBack(x, ""); err != nil {
		return back, err
	}
	if f.Connect != "" {
		h.Log.Info("identity connected", "id", x.Record.ID, "user", u.ID, "issuer", h.Issuer.URL)
	}
	return back, h.arrive(x, &u, f.Scope, "oidc")
}

// printable bounds what an issuer says, for the log.
func printable(text string) string {
	if len(text) > 100 {
		text = text[:100]
	}
	return url.QueryEscape(text)
}

// identityEntry is an identity as its owner sees it.
type identityEntry struct {
	Object  string `json:"object"`
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
	Name    string `json:"name"`
}

// ListIdentities answers GET /account/identities.
func (h *Handlers) ListIdentities(x *exchange.Exchange) error {
	u, err := h.self(x)
	if err != nil {
		return err
	}
	all, err := h.store().IdentitiesOf(x.Request.Context(), u.ID)
	if err != nil {
		return err
	}
	return reply(x, listOf(all, func(e *accounts.ExternalIdentity) identityEntry {
		name := e.Issuer
		if h.Issuer != nil && e.Issuer == h.Issuer.URL {
			name = h.Issuer.ShownName()
		}
		return identityEntry{Object: "account.identity", Issuer: e.Issuer, Subject: e.Subject, Name: name}
	}))
}

// Disconnect answers DELETE /account/identities.
func (h *Handlers) Disconnect(x *exchange.Exchange) error {
	var given struct {
		Issuer  string `json:"issuer"`
		Subject string `json:"subject"`
	}
	u, err := h.self(x)
	if err != nil {
		return err
	}
	if err := read(x, &given); err != nil {
		return err
	}
	e := accounts.ExternalIdentity{Issuer: given.Issuer, Subject: given.Subject}
	if err := h.store().Disconnect(x.Request.Context(), u.ID, e); err != nil {
		return err
	}
	x.Changes(u.ID, map[string]string{"issuer": given.Issuer}, nil)
	return h.changed(x, deletion{"account.identity.deleted", u.ID, true})
}
