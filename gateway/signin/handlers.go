package signin

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"parley"
	"parley/gateway/accounts"
	"parley/gateway/batch"
	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/issuer"
	"parley/gateway/tenant"
)

// Handlers answer the routes of sessions and accounts. Which credential a route needs was
// decided before; what an account may do with others is decided here.
type Handlers struct {
	Config
	throttles *throttles
}

// A Config is what handlers need.
type Config struct {
	Keys    *tenant.Keyring
	Cookies *Cookies
	// Convos and Batches hold what people have stored; each may be nil.
	Convos  *convo.Store
	Batches *batch.Store
	// Issuer vouches for people by OpenID Connect; nil for none.
	Issuer *issuer.Issuer
	Now    func() time.Time
	Log    *slog.Logger
	// CheckLocal returns nil for a request that came from this machine; IsLocalToken
	// reports whether a secret is the token of a server without keys and accounts.
	CheckLocal   func(*http.Request) error
	IsLocalToken func(secret string) bool
}

// New returns handlers for a config.
func New(config Config) *Handlers { return &Handlers{Config: config, throttles: newThrottles()} }

func (h *Handlers) store() *accounts.Store { return h.Keys.Store().Accounts() }

// bodyBytesMax bounds a body.
const bodyBytesMax = 16 << 10

// read decodes the body of a request, in which every field must be known.
func read(x *exchange.Exchange, into any) error {
	if x.Request.ContentLength > bodyBytesMax {
		return exchange.TooLarge(bodyBytesMax)
	}
	body, err := x.Body()
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return parley.Invalid("", "The body cannot be read: %s.", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// reply answers with a document that no cache keeps.
func reply(x *exchange.Exchange, document any) error {
	x.Header().Set("Cache-Control", "no-store")
	return x.Reply(http.StatusOK, document)
}

// changed answers a change, once this gateway goes by it.
func (h *Handlers) changed(x *exchange.Exchange, document any) error {
	if err := h.Keys.Refresh(x.Request.Context()); err != nil {
		return err
	}
	return reply(x, document)
}

// self returns the account of the caller, who must be signed in to it: an API key must
// not be enough to take its owner's account over.
func (h *Handlers) self(x *exchange.Exchange) (accounts.User, error) {
	if !x.Identity.SignedIn() {
		return accounts.User{}, errNotSignedIn
	}
	return h.store().User(x.Request.Context(), x.Identity.User)
}

var errNotSignedIn = parley.Errorf(parley.Forbidden, "This needs an account: sign in to one, not with an API key.")

// open opens a session of an account and gives the browser its cookie.
func (h *Handlers) open(ctx context.Context, x *exchange.Exchange, u *accounts.User, scope tenant.Scope,
	method string) (expires time.Time, err error) {
	now := h.Now()
	expires = now.Add(scope.SessionMax())
	cookie, err := h.store().OpenSession(ctx, accounts.Session{
		User:    u.ID,
		Scope:   string(scope),
		Agent:   x.Request.UserAgent(),
		Method:  method,
		Expires: expires,
	}, now)
	if err != nil {
		return expires, err
	}
	h.Cookies.set(x, scope, cookie, int(expires.Sub(now).Seconds()))
	return expires, nil
}

// arrive opens a session of an account, and logs it.
func (h *Handlers) arrive(x *exchange.Exchange, u *accounts.User, scope tenant.Scope, method string) error {
	if _, err := h.open(x.Request.Context(), x, u, scope, method); err != nil {
		return err
	}
	h.Log.Info("signed in", "id", x.Record.ID, "user", u.ID, "organization", u.Organization, "page", string(scope),
		"method", method, "remote", x.Remote())
	return h.Keys.Refresh(x.Request.Context())
}

// welcome opens a session of an account and says so.
func (h *Handlers) welcome(x *exchange.Exchange, u *accounts.User, scope tenant.Scope, method string) error {
	expires := h.Now().Add(scope.SessionMax())
	if err := h.arrive(x, u, scope, method); err != nil {
		return err
	}
	return reply(x, sessionDocument{
		Object:    "session",
		SignedIn:  true,
		Kind:      kindAccount,
		ExpiresAt: expires.Unix(),
		User:      UserShown(u),
	})
}

// issuerName is what people know the issuer by; empty if there is none.
func (h *Handlers) issuerName() string {
	if h.Issuer == nil {
		return ""
	}
	return h.Issuer.ShownName()
}
