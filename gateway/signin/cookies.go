package signin

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"parley/gateway/exchange"
	"parley/gateway/tenant"
)

// The cookies' paths. The admin page's cookie is sent to nothing but its own routes.
const chatCookiePath, adminCookiePath = "/", "/admin"

// cookieBytesMax bounds a cookie that is looked at.
const cookieBytesMax = 4 << 10

// Cookies are those of the pages' sessions.
type Cookies struct {
	names  map[tenant.Scope]string
	suffix string
}

// NewCookies names the cookies. Browsers do not tell the ports of a machine apart, so
// the names do: servers that share no store have other names.
func NewCookies(saltKey []byte) *Cookies {
	mac := hmac.New(sha256.New, saltKey)
	mac.Write([]byte("parley cookie name 1"))
	suffix := hex.EncodeToString(mac.Sum(nil)[:4])
	return &Cookies{suffix: suffix, names: map[tenant.Scope]string{
		tenant.ScopeChat:  "parley_chat_" + suffix,
		tenant.ScopeAdmin: "parley_admin_" + suffix,
	}}
}

// stateName is the name of the cookie of a sign-in at an issuer that is under way.
func (c *Cookies) stateName() string { return "parley_state_" + c.suffix }

// Name returns the name of the cookie of a scope.
func (c *Cookies) Name(scope tenant.Scope) string { return c.names[scope] }

// Value returns the cookie of a scope that a request carries.
func (c *Cookies) Value(r *http.Request, scope tenant.Scope) (string, bool) {
	cookie, err := r.Cookie(c.names[scope])
	if err != nil || len(cookie.Value) > cookieBytesMax {
		return "", false
	}
	return cookie.Value, true
}

// set gives a browser the cookie of a scope for some seconds, or takes it away.
func (c *Cookies) set(x *exchange.Exchange, scope tenant.Scope, value string, seconds int) {
	path := chatCookiePath
	if scope == tenant.ScopeAdmin {
		path = adminCookiePath
	}
	http.SetCookie(x.Response, &http.Cookie{
		Name:     c.Name(scope),
		Value:    value,
		Path:     path,
		MaxAge:   seconds,
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
		Secure:   x.IsSecure(),
	})
}
