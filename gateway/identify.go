package gateway

import (
	"cmp"
	"net/http"
	"strings"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/openai"
	"parley/gateway/tenant"
	"parley/internal/local"
)

// localTenant owns everything that is kept while there are no keys to tell
// tenants apart.
const localTenant = tenant.LocalOrganization

// identify tells who makes a call. It is the only place that decides so, once
// for each call; all else goes by the call's identity.
//
// Without a keyring everybody is whoever runs the program. While the keyring has
// no keys, so is everybody at this machine, and nobody else is answered. From the
// first key on, one is needed for all but health and pages.
func (g *Gateway) identify(c *call) (tenant.Identity, error) {
	keys, r := g.config.Keys, c.request
	switch {
	case c.author != nil:
		return g.identifyAuthor(c)
	case keys == nil:
		return tenant.Local(), nil
	case isPublic(c.route):
		return tenant.Identity{}, nil
	case keys.Empty():
		return tenant.Local(), g.checkLocal(r)
	}
	secret, shown := tenant.Shown(r.Header)
	if !shown && isOperators(c.route) && g.checkLocal(r) == nil {
		return tenant.Local(), nil
	}
	if !shown {
		return tenant.Identity{}, openai.MissingKey()
	}
	who, err := keys.Identify(r.Context(), secret)
	if err == nil && isOperators(c.route) && !who.Admin {
		err = errNotAdmin
	}
	return who, err
}

// identifyAuthor tells as whom work is done that came without a client: as the
// key that asked for it may by now, or as its organisation where there was none.
func (g *Gateway) identifyAuthor(c *call) (tenant.Identity, error) {
	keys, by, ctx := g.config.Keys, c.author, c.request.Context()
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

// ownerOf says whose conversations, responses, files and batches a call may see.
func ownerOf(c *call) convo.Owner {
	return convo.Owner{Tenant: c.identity.Organization, User: c.identity.User}
}

// isPublic reports whether a route tells nothing that is anybody's: whether the
// server is well, and the pages, which ask for the rest with their user's key.
func isPublic(route string) bool {
	return !isOperators(route) && !strings.HasPrefix(route, "/v1/")
}

// isOperators reports whether a route is for those who run the server: with an
// admin key from anywhere, and on the machine itself without one.
func isOperators(route string) bool {
	return route == metricsPath || strings.HasPrefix(route, "/admin/api/") || strings.HasPrefix(route, "/debug/")
}

// errNotAdmin says that a key has not the right that something needs.
var errNotAdmin = parley.Errorf(parley.Forbidden, "This needs a key with the admin right. Make one with: parley keys create --admin")

// mustAdmin lets only admins pass.
func (c *call) mustAdmin() error {
	if !c.identity.Admin {
		return errNotAdmin
	}
	return nil
}

// checkLocal lets a request pass that came from this machine, by a name of this
// machine, and from no foreign web page. Without that, a page that anybody opens
// here could have its own name point at 127.0.0.1 and talk to this server; and a
// proxy here could let the whole world in.
func (g *Gateway) checkLocal(r *http.Request) error {
	const remedy = "This server has no API keys yet, so it answers on its own machine alone"
	switch local.Check(r, g.originAllowed) {
	case local.Remote, local.Forwarded:
		return parley.Errorf(parley.Forbidden, "%s. Make a key there with: parley keys create", remedy)
	case local.Host:
		return parley.Errorf(parley.Forbidden, "%s and by its local names: use localhost or 127.0.0.1 instead of '%.100s', or make a key with: parley keys create", remedy, r.Host)
	case local.Origin:
		return parley.Errorf(parley.Forbidden, "%s, and pages of '%.100s' may not use it. If they shall, start it with --allow-origin and their address.", remedy, cmp.Or(r.Header.Get("Origin"), "other sites"))
	}
	return nil
}
