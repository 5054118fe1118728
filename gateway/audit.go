package gateway

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"parley/gateway/audit"
)

// auditWait bounds the writing of one entry of the audit log.
const auditWait = 5 * time.Second

// auditActions names what operator routes change. A test walks the route table
// and wants a name for each that is not only read.
var auditActions = map[string]string{
	"POST " + keysPath:                                     "api_key.created",
	"POST " + keysPath + "/{key}":                          "api_key.updated",
	"DELETE " + keysPath + "/{key}":                        "api_key.deleted",
	"POST " + keysPath + "/{key}/rotate":                   "api_key.rotated",
	"POST " + keysPath + "/{key}/restore":                  "api_key.restored",
	"POST " + adminKeysPath:                                "admin_api_key.created",
	"POST " + adminKeysPath + "/{key}":                     "admin_api_key.updated",
	"DELETE " + adminKeysPath + "/{key}":                   "admin_api_key.deleted",
	"POST " + adminKeysPath + "/{key}/rotate":              "admin_api_key.rotated",
	"POST " + adminKeysPath + "/{key}/restore":             "admin_api_key.restored",
	"POST " + projectsPath:                                 "project.created",
	"POST " + projectsPath + "/{project}":                  "project.updated",
	"DELETE " + projectsPath + "/{project}":                "project.deleted",
	"POST " + projectsPath + "/{project}/archive":          "project.archived",
	"DELETE " + projectsPath + "/{project}/api_keys/{key}": "api_key.deleted",
	"POST " + projectsPath + "/{project}/users/{user}":     "user.updated",
	"POST " + usersPath:                                    "user.created",
	"POST " + usersPath + "/{user}":                        "user.updated",
	"DELETE " + usersPath + "/{user}":                      "user.deleted",
	"POST " + usersPath + "/{user}/reset":                  "invite.sent",
	"POST " + usersPath + "/{user}/sign_out":               "user.signed_out",
	"POST " + invitesPath:                                  "invite.sent",
	"DELETE " + invitesPath + "/{invite}":                  "invite.deleted",
	"POST " + groupsPath:                                   "group.updated",
	"DELETE " + groupsPath:                                 "group.deleted",
	"POST /account":                                        "user.updated",
	"DELETE /account":                                      "user.deleted",
	"POST /account/password":                               "user.password_changed",
	"DELETE /account/sessions":                             "user.signed_out",
	"DELETE /account/sessions/{session}":                   "session.deleted",
	"POST /account/first":                                  "user.created",
	"POST /account/identities":                             "identity.requested",
	"DELETE /account/identities":                           "identity.deleted",
	"POST /account/passkeys":                               "passkey.created",
	"POST /account/passkeys/challenge":                     "passkey.requested",
	"POST /account/passkeys/{passkey}":                     "passkey.updated",
	"DELETE /account/passkeys/{passkey}":                   "passkey.deleted",
	"POST /account/keys":                                   "api_key.created",
	"POST /account/keys/{key}/rotate":                      "api_key.rotated",
	"DELETE /account/keys/{key}":                           "api_key.deleted",
	"POST /admin/api/workers/drain":                        "worker.drained",
	"POST /admin/api/workers/resume":                       "worker.resumed",
	"POST /admin/api/workers/sleep":                        "worker.slept",
	"POST /admin/api/workers/wake":                         "worker.woken",
	"POST /fleet/workers/{name}/drain":                     "worker.drained",
	"POST /fleet/workers/{name}/resume":                    "worker.resumed",
	"POST /fleet/workers/{name}/sleep":                     "worker.slept",
	"POST /fleet/workers/{name}/wake":                      "worker.woken",
	"POST " + modelsAdminPath:                              "model.pulled",
	"DELETE " + modelsAdminPath + "/{name}":                "model.deleted",
	"POST " + modelsAdminPath + "/{name}/load":             "model.loaded",
	"POST " + modelsAdminPath + "/{name}/unload":           "model.unloaded",
	"POST /api/pull":                                       "model.pulled",
	"DELETE /api/delete":                                   "model.deleted",
	"POST /api/copy":                                       "model.copied",
	"POST /fleet/register":                                 "worker.registered",
	"DELETE /fleet/register":                               "worker.unregistered",
}

// auditAction names what a method does on a route, also under the path of the admin
// page.
func auditAction(method, route string) string {
	if rest, ok := strings.CutPrefix(route, adminOrganizationPrefix); ok {
		route = organizationPrefix + rest
	}
	action := method + " " + route
	return cmp.Or(auditActions[action], action)
}

// audited reports whether a call belongs in the audit log: it asks for a change
// of the server. A report of an autoscaler does not.
func (c *call) audited() bool {
	changes := c.Request.Method != http.MethodGet && c.Request.Method != http.MethodHead &&
		c.Request.URL.Path != scalePath
	return changes && (c.access.operates() || c.access == people || c.access == account)
}

// audit has what becomes of a call written into the audit log before the first
// byte of the answer leaves, also if the call fails.
func (g *Gateway) audit(c *call) {
	if g.config.Audit != nil && c.audited() {
		c.Response.BeforeStatus = func(status int) { g.appendAudit(c, status) }
	}
}

func (g *Gateway) appendAudit(c *call, status int) {
	action := auditAction(c.Request.Method, c.Record.Route)
	entry := audit.Entry{
		At:      g.config.Now(),
		Action:  action,
		Target:  cmp.Or(c.Change.Target, c.Values["key"], c.Values["user"], c.Values["name"], c.Values["project"]),
		Actor:   actorOf(c),
		Remote:  c.Remote(),
		Request: c.Record.ID,
		Status:  status,
		Before:  c.Change.Before,
		After:   c.Change.After,
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), auditWait)
	defer cancel()
	if err := g.config.Audit.Append(ctx, entry); err != nil {
		g.config.Log.Error("audit entry not stored; only in this log",
			"id", c.Record.ID, "error", err)
	}
}

// actorOf says who makes a call, for the audit log.
func actorOf(c *call) audit.Actor {
	who := c.Identity
	switch {
	case who.SignedIn():
		return audit.Actor{Kind: audit.Account, Organization: who.Organization, User: who.User}
	case who.Key != "":
		return audit.Actor{Kind: audit.APIKey, Organization: who.Organization, User: who.User, Key: who.Key}
	case c.access == fleetOperator && c.gateway.hasOperateToken(c):
		return audit.Actor{Kind: audit.OperateToken}
	}
	return audit.Actor{Kind: audit.LocalToken, Organization: who.Organization, User: who.User}
}

const auditPath = "/v1/organization/audit_logs"
