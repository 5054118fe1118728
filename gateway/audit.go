package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"parley"
	"parley/gateway/audit"
)

// auditWait bounds the writing of one entry of the audit log.
const auditWait = 5 * time.Second

// A change is what a handler says of the change it made, for the audit log.
type change struct {
	target        string
	before, after json.RawMessage
}

// auditActions names what operator routes change. A test walks the route table
// and wants a name for each that is not only read.
var auditActions = map[string]string{
	"POST " + keysPath:                                     "api_key.created",
	"POST " + keysPath + "/{key}":                          "api_key.updated",
	"DELETE " + keysPath + "/{key}":                        "api_key.deleted",
	"POST " + keysPath + "/{key}/rotate":                   "api_key.rotated",
	"POST " + adminKeysPath:                                "admin_api_key.created",
	"POST " + adminKeysPath + "/{key}":                     "admin_api_key.updated",
	"DELETE " + adminKeysPath + "/{key}":                   "admin_api_key.deleted",
	"POST " + adminKeysPath + "/{key}/rotate":              "admin_api_key.rotated",
	"POST " + projectsPath:                                 "project.created",
	"POST " + projectsPath + "/{project}":                  "project.updated",
	"DELETE " + projectsPath + "/{project}":                "project.deleted",
	"POST " + projectsPath + "/{project}/archive":          "project.archived",
	"DELETE " + projectsPath + "/{project}/api_keys/{key}": "api_key.deleted",
	"POST " + projectsPath + "/{project}/users/{user}":     "user.updated",
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
// of the server.
func (c *call) audited() bool {
	changes := c.request.Method != http.MethodGet && c.request.Method != http.MethodHead
	return changes && c.access.operates()
}

// changes notes for the audit log what a call changed: the id of the object,
// and the object before and after, either of which may be nil. They must hold
// no secrets.
func (c *call) changes(target string, before, after any) {
	c.change = change{target: target, before: auditJSON(before), after: auditJSON(after)}
}

// auditBytesMax bounds what an entry keeps of an object.
const auditBytesMax = 64 << 10

func auditJSON(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil || len(text) > auditBytesMax {
		text = json.RawMessage(`{"omitted":` + strconv.Itoa(len(text)) + `}`)
	}
	return text
}

// audit has what becomes of a call written into the audit log before the first
// byte of the answer leaves, also if the call fails.
func (g *Gateway) audit(c *call) {
	if g.config.Audit != nil && c.audited() {
		c.response.beforeStatus = func(status int) { g.appendAudit(c, status) }
	}
}

func (g *Gateway) appendAudit(c *call, status int) {
	action := auditAction(c.request.Method, c.record.Route)
	entry := audit.Entry{
		At:      g.config.Now(),
		Action:  action,
		Target:  cmp.Or(c.change.target, c.values["key"], c.values["user"], c.values["name"], c.values["project"]),
		Actor:   actorOf(c),
		Remote:  c.remote(),
		Request: c.record.ID,
		Status:  status,
		Before:  c.change.before,
		After:   c.change.after,
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.request.Context()), auditWait)
	defer cancel()
	if err := g.config.Audit.Append(ctx, entry); err != nil {
		g.config.Log.Error("an entry of the audit log could not be stored: only the log has it",
			"id", c.record.ID, "error", err)
	}
}

// actorOf says who makes a call, for the audit log.
func actorOf(c *call) audit.Actor {
	who := &c.identity
	switch {
	case who.Key != "":
		return audit.Actor{Kind: audit.APIKey, Organization: who.Organization, User: who.User, Key: who.Key}
	case c.access == fleetOperator && c.gateway.hasOperateToken(c):
		return audit.Actor{Kind: audit.OperateToken}
	}
	return audit.Actor{Kind: audit.LocalToken, Organization: who.Organization, User: who.User}
}

// remote returns the client's address for logs; empty if addresses are not recorded.
func (c *call) remote() string {
	if c.gateway.config.NoAddresses {
		return ""
	}
	if a := c.clientAddr(); a.IsValid() {
		return a.String()
	}
	return ""
}

// auditPage is how many entries a page has if the client does not say.
const auditPage, auditPageMax = 20, 100

// An auditList is a page of the audit log.
type auditList struct {
	Object  string        `json:"object"`
	Data    []audit.Entry `json:"data"`
	FirstID *string       `json:"first_id"`
	LastID  *string       `json:"last_id"`
	HasMore bool          `json:"has_more"`
}

// listAudit answers GET /v1/organization/audit_logs.
func (g *Gateway) listAudit(c *call) error {
	filter, err := parseAuditQuery(c.request)
	if err != nil {
		return err
	}
	wanted := filter.Limit
	filter.Limit++
	entries, err := g.config.Audit.List(c.request.Context(), filter)
	if err != nil {
		return err
	}
	page := auditList{Object: "list", Data: append([]audit.Entry{}, entries[:min(wanted, len(entries))]...),
		HasMore: len(entries) > wanted}
	if n := len(page.Data); n > 0 {
		page.FirstID, page.LastID = &page.Data[0].ID, &page.Data[n-1].ID
	}
	return c.reply(http.StatusOK, page)
}

// parseAuditQuery reads OpenAI's parameters, in brackets or not, and ours.
func parseAuditQuery(r *http.Request) (f audit.Filter, err error) {
	query := r.URL.Query()
	first := func(names ...string) string {
		for _, name := range names {
			if text := query.Get(name); text != "" {
				return text
			}
		}
		return ""
	}
	f = audit.Filter{
		Action: first("event_types[]", "event_types", "type"),
		Actor:  first("actor_ids[]", "actor_ids", "actor"),
		Target: first("resource_ids[]", "resource_ids", "target"),
		After:  first("after"),
		Limit:  auditPage,
	}
	if text := first("limit"); text != "" {
		if f.Limit, err = strconv.Atoi(text); err != nil || f.Limit < 1 || f.Limit > auditPageMax {
			return f, parley.Invalid("limit", "Invalid 'limit': it must be 1 to %d.", auditPageMax)
		}
	}
	for name, at := range map[string]*time.Time{"effective_at[gte]": &f.Since, "effective_at[lt]": &f.Until} {
		text := query.Get(name)
		if text == "" {
			continue
		}
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return f, parley.Invalid(name, "Invalid '%s': it must be a time in seconds since 1970.", name)
		}
		*at = time.Unix(seconds, 0)
	}
	return f, nil
}

const auditPath = "/v1/organization/audit_logs"
