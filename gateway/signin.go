package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"parley"
	"parley/gateway/exchange"
	"parley/gateway/openai"
	"parley/gateway/tenant"
)

// Pages sign in once: they exchange a key, or the local token of a server without
// keys, for a session cookie that no script can read. The chat and the admin page have
// sessions of their own, with cookies of their own names and paths.

// The cookies' paths. The admin page's cookie is sent to nothing but its own routes.
const chatCookiePath, adminCookiePath = "/", "/admin"

// signInBytesMax bounds the body of a sign-in.
const signInBytesMax = 4 << 10

// A sessionDocument says as whom a page is signed in.
type sessionDocument struct {
	Object   string `json:"object"`
	SignedIn bool   `json:"signed_in"`
	// Kind is "key", or "local" while the server has no keys.
	Kind string `json:"kind"`
	// Name and RedactedKey are those of the key.
	Name        string `json:"name,omitempty"`
	RedactedKey string `json:"redacted_key,omitempty"`
	ExpiresAt   int64  `json:"expires_at,omitempty"`
}

// signInRoutes are those of sessions, of both pages.
func (g *Gateway) signInRoutes() (rows []routeRow) {
	if g.config.Keys == nil {
		return nil
	}
	for path, scope := range map[string]tenant.Scope{"/session": tenant.ScopeChat,
		"/admin/session": tenant.ScopeAdmin} {
		rows = append(rows,
			routeRow{"GET", path, signIn, false, func(c *call) error { return g.showSession(c, scope) }},
			routeRow{"POST", path, signIn, false, func(c *call) error { return g.openSession(c, scope) }},
			routeRow{"DELETE", path, signIn, false, func(c *call) error { return g.closeSession(c, scope) }})
	}
	return rows
}

// openSession answers POST /session and /admin/session: {"key": SECRET}.
func (g *Gateway) openSession(c *call, scope tenant.Scope) error {
	secret, err := c.signInSecret()
	if err != nil {
		return err
	}
	keys, ctx, now := g.config.Keys, c.Request.Context(), g.config.Now()
	var who tenant.Identity
	var cookie string
	var expires time.Time
	if keys.Empty() {
		if err := g.checkLocal(c.Request); err != nil {
			return err
		}
		if !g.isLocalToken(secret) {
			return errWrongToken
		}
		cookie, expires, err = keys.Store().OpenLocalSession(ctx, scope, now)
	} else {
		if who, err = keys.Identify(ctx, secret); err != nil {
			return err
		}
		cookie, expires, err = keys.Store().OpenSession(ctx, secret, scope, now)
	}
	if err != nil {
		return err
	}
	c.setSessionCookie(scope, cookie, int(expires.Sub(now).Seconds()))
	return c.replySession(&who, expires)
}

// signInSecret reads the key or token of a sign-in.
func (c *call) signInSecret() (string, error) {
	if c.Request.ContentLength > signInBytesMax {
		return "", exchange.TooLarge(signInBytesMax)
	}
	body, err := c.Body()
	if err != nil {
		return "", err
	}
	var given struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(body, &given); err != nil || given.Key == "" {
		return "", parley.Invalid("key", `Send the key, or the token that 'parley serve' printed: {"key": "…"}.`)
	}
	return strings.TrimSpace(given.Key), nil
}

// showSession answers GET /session and /admin/session.
func (g *Gateway) showSession(c *call, scope tenant.Scope) error {
	who, err := g.identifySession(c, scope)
	if err != nil {
		c.Header().Set("Cache-Control", "no-store")
		return c.Reply(http.StatusOK, sessionDocument{Object: "session", Kind: g.sessionKind()})
	}
	return c.replySession(&who, time.Time{})
}

func (g *Gateway) sessionKind() string {
	if g.config.Keys.Empty() {
		return "local"
	}
	return "key"
}

// replySession says as whom a page is signed in.
func (c *call) replySession(who *tenant.Identity, expires time.Time) error {
	g := c.gateway
	doc := sessionDocument{Object: "session", SignedIn: true, Kind: g.sessionKind()}
	if !expires.IsZero() {
		doc.ExpiresAt = expires.Unix()
	}
	if who.Key != "" {
		k, err := g.config.Keys.Store().Key(c.Request.Context(), who.Key)
		if err != nil {
			return err
		}
		doc.Name, doc.RedactedKey = k.Name, k.Prefix+"…"
	}
	c.Header().Set("Cache-Control", "no-store")
	return c.Reply(http.StatusOK, doc)
}

// closeSession answers DELETE /session and /admin/session: the session ends on every
// gateway, and the browser forgets its cookie.
func (g *Gateway) closeSession(c *call, scope tenant.Scope) error {
	if cookie, err := c.Request.Cookie(g.cookieName(scope)); err == nil {
		if err := g.config.Keys.Store().CloseSession(c.Request.Context(), cookie.Value); err != nil {
			return err
		}
		if err := g.config.Keys.Refresh(c.Request.Context()); err != nil {
			return err
		}
	}
	c.setSessionCookie(scope, "", -1)
	return c.Reply(http.StatusOK, sessionDocument{Object: "session", Kind: g.sessionKind()})
}

// identifySession returns the caller that is signed in, by the cookie of a scope. Requests that
// another site's page sends are refused although they carry it.
func (g *Gateway) identifySession(c *call, scope tenant.Scope) (tenant.Identity, error) {
	cookie, err := c.Request.Cookie(g.cookieName(scope))
	if err != nil || len(cookie.Value) > signInBytesMax {
		return tenant.Identity{}, g.missingCredential()
	}
	if c.IsCrossOrigin(nil) {
		return tenant.Identity{}, errCrossSite
	}
	return g.config.Keys.IdentifySession(c.Request.Context(), cookie.Value, scope)
}

// setSessionCookie gives a browser the cookie of a scope for some seconds, or takes it
// away.
func (c *call) setSessionCookie(scope tenant.Scope, value string, seconds int) {
	path := chatCookiePath
	if scope == tenant.ScopeAdmin {
		path = adminCookiePath
	}
	http.SetCookie(c.Response, &http.Cookie{
		Name:     c.gateway.cookieName(scope),
		Value:    value,
		Path:     path,
		MaxAge:   seconds,
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
		// A browser says in Origin by which scheme the page came, also behind a proxy.
		Secure: c.Request.TLS != nil || strings.HasPrefix(c.Request.Header.Get("Origin"), "https://"),
	})
}

// cookieName names the cookie of a scope. Browsers do not tell the ports of a machine
// apart, so the name does: servers that share no store have other names.
func (g *Gateway) cookieName(scope tenant.Scope) string { return g.cookieNames[scope] }

func cookieNames(saltKey []byte) map[tenant.Scope]string {
	mac := hmac.New(sha256.New, saltKey)
	mac.Write([]byte("parley cookie name 1"))
	suffix := hex.EncodeToString(mac.Sum(nil)[:4])
	return map[tenant.Scope]string{
		tenant.ScopeChat:  "parley_chat_" + suffix,
		tenant.ScopeAdmin: "parley_admin_" + suffix,
	}
}

// isLocalToken reports whether a secret is the token of a server without keys.
func (g *Gateway) isLocalToken(secret string) bool {
	want, shown := sha256.Sum256([]byte(g.config.LocalToken)), sha256.Sum256([]byte(secret))
	return g.config.LocalToken != "" && subtle.ConstantTimeCompare(want[:], shown[:]) == 1
}

// What a caller without the right credentials reads.
var (
	errWrongToken = parley.Errorf(parley.Unauthenticated,
		"This is not the token of this server. 'parley serve' prints a link with it when it starts; each start has "+
			"a new one.")
	errCrossSite = parley.Errorf(parley.Forbidden, "Pages of other sites may not use this session.")
)

// missingCredential is the error for a call that carries none.
func (g *Gateway) missingCredential() error {
	if g.config.Keys.Empty() {
		return openai.MissingToken()
	}
	return openai.MissingKey()
}
