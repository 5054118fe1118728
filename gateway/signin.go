package gateway

import (
	"crypto/sha256"
	"crypto/subtle"

	"parley"
	"parley/gateway/openai"
	"parley/gateway/signin"
	"parley/gateway/tenant"
)

// newSignIn returns what answers the routes of sessions and accounts.
func (g *Gateway) newSignIn() *signin.Handlers {
	return signin.New(signin.Config{
		Keys:         g.config.Keys,
		Cookies:      g.cookies,
		Convos:       g.config.Store,
		Batches:      g.config.Batches,
		Issuer:       g.config.Issuer,
		Now:          g.config.Now,
		Log:          g.config.Log,
		CheckLocal:   g.checkLocal,
		IsLocalToken: g.isLocalToken,
	})
}

// signInRoutes are those of sessions, of both pages, and of invitations.
func (g *Gateway) signInRoutes() (rows []routeRow) {
	if g.config.Keys == nil {
		return nil
	}
	for path, scope := range map[string]tenant.Scope{"/session": tenant.ScopeChat,
		"/admin/session": tenant.ScopeAdmin} {
		rows = append(rows,
			routeRow{"GET", path, signIn, false, func(c *call) error {
				who, err := g.identifySession(c, scope)
				return g.signIn.ShowSession(c.Exchange, who, err)
			}},
			routeRow{"POST", path, signIn, false, func(c *call) error {
				return g.signIn.OpenSession(c.Exchange, scope)
			}},
			routeRow{"DELETE", path, signIn, false, func(c *call) error {
				return g.signIn.CloseSession(c.Exchange, scope)
			}})
	}
	return append(rows,
		routeRow{"POST", "/session/issuer", signIn, false, on(g.signIn.BeginIssuer)},
		routeRow{"POST", "/session/passkey", signIn, false, on(g.signIn.BeginPasskey)},
		routeRow{"GET", signin.CallbackPath, public, false, on(g.signIn.Callback)},
		routeRow{"POST", "/invitation", signIn, false, on(g.signIn.ShowInvitation)},
		routeRow{"POST", "/invitation/accept", signIn, false, on(g.signIn.AcceptInvitation)})
}

// accountRoutes are those of the own account, and of the people of an organisation.
func (g *Gateway) accountRoutes() []routeRow {
	if g.config.Keys == nil {
		return nil
	}
	h := g.signIn
	return []routeRow{
		{"GET", "/account", people, false, on(h.ShowAccount)},
		{"POST", "/account", people, false, on(h.ChangeAccount)},
		{"DELETE", "/account", people, false, on(h.DeleteAccount)},
		{"POST", "/account/first", people, false, on(h.CreateFirst)},
		{"POST", "/account/password", people, false, on(h.ChangePassword)},
		{"GET", "/account/export", people, false, on(h.Export)},
		{"GET", "/account/sessions", people, false, on(h.ListSessions)},
		{"DELETE", "/account/sessions", people, false, on(h.SignOutEverywhere)},
		{"DELETE", "/account/sessions/{session}", people, false, on(h.EndSession)},
		{"GET", "/account/identities", people, false, on(h.ListIdentities)},
		{"POST", "/account/identities", people, false, on(h.ConnectIssuer)},
		{"DELETE", "/account/identities", people, false, on(h.Disconnect)},
		{"GET", "/account/passkeys", people, false, on(h.ListPasskeys)},
		{"POST", "/account/passkeys", people, false, on(h.RegisterPasskey)},
		{"POST", "/account/passkeys/challenge", people, false, on(h.BeginNewPasskey)},
		{"POST", "/account/passkeys/{passkey}", people, false, on(h.RenamePasskey)},
		{"DELETE", "/account/passkeys/{passkey}", people, false, on(h.RemovePasskey)},
		{"GET", "/account/keys", people, false, on(h.ListKeys)},
		{"POST", "/account/keys", people, false, on(h.CreateKey)},
		{"POST", "/account/keys/{key}/rotate", people, false, on(h.RotateKey)},
		{"DELETE", "/account/keys/{key}", people, false, on(h.DeleteKey)},
		{"GET", usersPath, people, false, on(h.ListUsers)},
		{"POST", usersPath, people, false, on(h.CreateUser)},
		{"GET", usersPath + "/{user}", people, false, on(h.ShowUser)},
		{"POST", usersPath + "/{user}", people, false, on(h.ChangeUser)},
		{"DELETE", usersPath + "/{user}", people, false, on(h.DeleteUser)},
		{"POST", usersPath + "/{user}/reset", people, false, on(h.ResetPassword)},
		{"POST", usersPath + "/{user}/sign_out", people, false, on(h.SignOutUser)},
		{"GET", invitesPath, people, false, on(h.ListInvites)},
		{"POST", invitesPath, people, false, on(h.CreateInvite)},
		{"DELETE", invitesPath + "/{invite}", people, false, on(h.DeleteInvite)},
		{"GET", groupsPath, people, false, on(h.ListGroups)},
		{"POST", groupsPath, people, false, on(h.SaveGroup)},
		{"DELETE", groupsPath, people, false, on(h.DeleteGroup)},
	}
}

// The paths of the people of organisations; docs/accounts.md describes them.
const (
	usersPath   = "/v1/organization/users"
	invitesPath = "/v1/organization/invites"
	groupsPath  = "/v1/organization/groups"
)

// identifySession returns the caller that is signed in, by the cookie of a scope. Requests that
// another site's page sends are refused although they carry it.
func (g *Gateway) identifySession(c *call, scope tenant.Scope) (*tenant.Identity, error) {
	cookie, ok := g.cookies.Value(c.Request, scope)
	if !ok {
		return nil, g.missingCredential()
	}
	if c.IsCrossOrigin(nil) {
		return nil, errCrossSite
	}
	return g.config.Keys.IdentifySession(c.Request.Context(), cookie, scope)
}

var errCrossSite = parley.Errorf(parley.Forbidden, "Pages of other sites may not use this session.")

// isLocalToken reports whether a secret is the token of a server without keys.
func (g *Gateway) isLocalToken(secret string) bool {
	want, shown := sha256.Sum256([]byte(g.config.LocalToken)), sha256.Sum256([]byte(secret))
	return g.config.LocalToken != "" && subtle.ConstantTimeCompare(want[:], shown[:]) == 1
}

// missingCredential is the error for a call that carries none.
func (g *Gateway) missingCredential() error {
	if g.config.Keys.Empty() {
		return openai.MissingToken()
	}
	return openai.MissingKey()
}
