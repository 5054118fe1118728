package gateway

import (
	"cmp"
	"net/http"

	"parley"
	"parley/gateway/openai"
	"parley/gateway/tenant"
	"parley/internal/local"
)

// localTenant owns everything that is kept while there are no keys to tell
// tenants apart.
const localTenant = tenant.LocalOrganization

// identify returns the identity of the caller. It is the only place that decides it, once
// for each call; all else goes by the call's identity. It decides by the access
// class of the route and by the credentials that the request carries.
//
// Without a keyring every caller is the operator. While the keyring has no
// keys, programs on this machine may have answers that are not stored, and the local
// token is needed for everything else. From the first key on, one is needed for all but
// public routes, and one with the admin right for operator routes.
func (g *Gateway) identify(c *call) (*tenant.Identity, error) {
	keys := g.config.Keys
	switch {
	case c.author != nil:
		return g.identifyAuthor(c)
	case c.access.isOpen():
		return nil, nil
	case c.access == fleetOperator && g.hasOperateToken(c):
		return tenant.Operator(), nil
	case keys == nil:
		return tenant.Local(), nil
	case keys.Empty():
		return g.identifyWithoutKeys(c)
	}
	who, err := g.identifyByKey(c)
	if err == nil && c.access.operates() && !who.Admin {
		err = errNotAdmin
	}
	return who, err
}

// identifyByKey returns the caller that shows a key, or is signed in with one.
func (g *Gateway) identifyByKey(c *call) (*tenant.Identity, error) {
	if secret, shown := tenant.Shown(c.Request.Header); shown {
		return g.config.Keys.Identify(c.Request.Context(), secret)
	}
	return g.identifySession(c, c.access.scope())
}

// identifyWithoutKeys returns the caller of a server that has no keys.
func (g *Gateway) identifyWithoutKeys(c *call) (who *tenant.Identity, err error) {
	if err := g.checkLocal(c.Request); err != nil {
		return who, err
	}
	secret, shown := tenant.Shown(c.Request.Header)
	switch {
	case !shown:
		who, err = g.identifySession(c, c.access.scope())
	case g.isLocalToken(secret):
		who = tenant.Local()
	default:
		err = openai.MissingToken()
	}
	if err != nil && c.access == stateless {
		return tenant.Anonymous(), nil
	}
	return who, err
}

// fromPage reports whether a person waits for a call: one of the pages sent it, which
// sign in with a cookie, and not a program with a key.
func (g *Gateway) fromPage(c *call) bool {
	_, shown := tenant.Shown(c.Request.Header)
	_, cookie := g.cookies.Value(c.Request, c.access.scope())
	return cookie && !shown && c.Identity.Organization != ""
}

// keyless reports whether there are no keys to tell callers apart.
func (g *Gateway) keyless() bool { return g.config.Keys == nil || g.config.Keys.Empty() }

// hasOperateToken reports whether a call carries the fleet's operate token.
func (g *Gateway) hasOperateToken(c *call) bool {
	secret, shown := tenant.Shown(c.Request.Header)
	may := g.config.FleetAPI.MayOperate
	return shown && may != nil && may(secret)
}

// identifyAuthor returns in whose name work is done that came without a client: of the
// key that asked for it, as it may by now, or of its organisation where there was none.
func (g *Gateway) identifyAuthor(c *call) (*tenant.Identity, error) {
	keys, by, ctx := g.config.Keys, c.author, c.Request.Context()
	switch {
	case keys != nil && by.Key != "":
		return keys.OfKey(ctx, by.Key)
	case keys != nil && by.Tenant != localTenant:
		return keys.Of(ctx, by.Tenant, by.User)
	}
	who := tenant.Local()
	who.Organization, who.User = by.Tenant, by.User
	return who, nil
}

// errNotAdmin says that a key has not the right that something needs.
var errNotAdmin = parley.Errorf(parley.Forbidden,
	"This needs a key with the admin right. Create one with: parley keys create --admin")

// checkLocal lets a request pass that came from this machine, by a name of this
// machine, and from no foreign web page. Without that, a page that is opened
// here could have its own name point at 127.0.0.1 and talk to this server; and a
// proxy here could let the whole world in.
func (g *Gateway) checkLocal(r *http.Request) error {
	const remedy = "This server has no API keys yet, so it answers on its own machine alone"
	switch local.Check(r, g.originAllowed) {
	case local.Remote, local.Forwarded:
		return parley.Errorf(parley.Forbidden, "%s. Make a key there with: parley keys create", remedy)
	case local.Host:
		return parley.Errorf(parley.Forbidden,
			"%s and by its local names: use localhost or 127.0.0.1 instead of '%.100s', or make a key with: parley "+
				"keys create", remedy, r.Host)
	case local.Origin:
		return parley.Errorf(parley.Forbidden,
			"%s, and pages of '%.100s' may not use it. To allow them, start it with --allow-origin and their origin.",
			remedy, cmp.Or(r.Header.Get("Origin"), "other sites"))
	}
	return nil
}
