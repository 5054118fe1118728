package gateway

import (
	"strings"

	"parley/gateway/tenant"
)

// A routeRow is a line of the route table.
type routeRow struct {
	method, path string
	access       access
	// worker routes reach a worker: they are counted as in flight and refused while
	// draining.
	worker bool
	run    endpoint
}

// addRoutes fills the route table: the one place where a path gets its access class.
func (g *Gateway) addRoutes() {
	for _, rows := range [][]routeRow{
		g.publicRoutes(), g.signInRoutes(), g.inferenceRoutes(), g.storedRoutes(), g.conversationRoutes(),
		g.usageRoutes(), g.operatorRoutes(), g.keyRoutes(), g.fleetRoutes(),
	} {
		for _, r := range rows {
			g.routes.add(r)
			if alias, ok := r.adminAlias(); ok {
				g.routes.add(alias)
			}
		}
	}
}

// The cookie of the admin page's session is sent to paths under /admin alone, so the
// routes of organisations have a second path there.
const organizationPrefix, adminOrganizationPrefix = "/v1/organization/", "/admin/api/organization/"

// adminAlias returns the row under which the admin page reaches a route of
// organisations, with the class that accepts its session.
func (r routeRow) adminAlias() (routeRow, bool) {
	rest, ok := strings.CutPrefix(r.path, organizationPrefix)
	r.path = adminOrganizationPrefix + rest
	if r.access == owned {
		r.access = account
	}
	return r, ok
}

func (g *Gateway) publicRoutes() []routeRow {
	rows := []routeRow{
		{"GET", "/", public, false, g.home},
		{"GET", "/healthz", public, false, g.healthz},
		{"GET", "/readyz", public, false, g.readyz},
		{"GET", "/health", public, false, g.readyz}, // where vLLM and llama-server have it
	}
	if g.config.Pages == nil {
		return rows
	}
	for _, path := range []string{"/admin", "/assets/{file}", "/c/{id}", "/icon.svg", "/theme.js", "/licenses.txt",
		"/manifest.webmanifest"} {
		rows = append(rows, routeRow{"GET", path, public, false, g.page})
	}
	return rows
}

func (g *Gateway) inferenceRoutes() []routeRow {
	return []routeRow{
		{"POST", "/v1/chat/completions", stateless, true, g.chat},
		{upgrade, "/v1/chat/completions", stateless, true, g.chatSocket},
		{"POST", "/v1/completions", stateless, true, g.completions},
		{"POST", "/v1/fim/completions", stateless, true, g.fim},
		{"POST", "/v1/embeddings", stateless, true, g.embeddings},
		{"POST", "/v1/rerank", stateless, true, g.rerank},
		{"POST", messagesPath, stateless, true, g.messages},
		{"POST", messagesPath + "/count_tokens", stateless, false, g.countTokens},
		{"POST", "/v1/moderations", stateless, false, g.moderations},
		{"GET", "/v1/models", stateless, false, g.listModels},
		{"GET", modelsPrefix, stateless, false, g.showModel},
	}
}

// storedRoutes are those of responses, files and batches.
func (g *Gateway) storedRoutes() []routeRow {
	return []routeRow{
		{"POST", "/v1/responses", stateless, true, g.createResponse},
		{upgrade, "/v1/responses", stateless, true, g.responseSocket},
		{"POST", "/v1/responses/input_tokens", stateless, false, g.countInputTokens},
		{"POST", "/v1/responses/compact", stateless, true, g.compact},
		{"GET", "/v1/responses/{id}", owned, false, g.showResponse},
		{"DELETE", "/v1/responses/{id}", owned, false, g.deleteResponse},
		{"POST", "/v1/responses/{id}/cancel", owned, false, g.cancelResponse},
		{"GET", "/v1/responses/{id}/input_items", owned, false, g.listInputItems},
		{"POST", "/v1/files", owned, false, g.uploadFile},
		{"GET", "/v1/files", owned, false, g.listFiles},
		{"GET", "/v1/files/{id}", owned, false, g.showFile},
		{"DELETE", "/v1/files/{id}", owned, false, g.deleteFile},
		{"GET", "/v1/files/{id}/content", owned, false, g.readFile},
		{"POST", "/v1/batches", owned, false, g.createBatch},
		{"GET", "/v1/batches", owned, false, g.listBatches},
		{"GET", "/v1/batches/{id}", owned, false, g.showBatch},
		{"POST", "/v1/batches/{id}/cancel", owned, false, g.cancelBatch},
	}
}

func (g *Gateway) conversationRoutes() []routeRow {
	rows := []routeRow{
		{"POST", "/v1/conversations", owned, false, g.createConversation},
		{"GET", "/v1/conversations", owned, false, g.listConversations},
		{"POST", "/v1/conversations/import", owned, false, g.importConversation},
		{"GET", "/v1/conversations/{id}", owned, false, g.showConversation},
		{"POST", "/v1/conversations/{id}", owned, false, g.changeConversation},
		{"DELETE", "/v1/conversations/{id}", owned, false, g.deleteConversation},
		{"POST", "/v1/conversations/{id}/restore", owned, false, g.restoreConversation},
		{"GET", "/v1/conversations/{id}/export", owned, false, g.exportConversation},
		{"GET", "/v1/conversations/{id}/tree", owned, false, g.showTree},
		{"POST", "/v1/conversations/{id}/items", owned, false, g.addItems},
		{"GET", "/v1/conversations/{id}/items", owned, false, g.listItems},
		{"GET", "/v1/conversations/{id}/items/{item}", owned, false, g.showItem},
		{"DELETE", "/v1/conversations/{id}/items/{item}", owned, false, g.deleteItem},
		{"POST", "/v1/conversations/{id}/messages", owned, true, g.say},
		{"POST", "/v1/conversations/{id}/messages/{item}/resume", owned, true, g.resume},
		{"POST", "/v1/conversations/{id}/messages/{item}/cancel", owned, false, g.cancelTurn},
		{"GET", "/v1/conversations/{id}/messages/{item}/stream", owned, false, g.followTurn},
	}
	for i := range rows {
		rows[i].run = g.withStore(rows[i].run)
	}
	return rows
}

// usageRoutes show what callers have used, and where their requests stand.
func (g *Gateway) usageRoutes() []routeRow {
	return []routeRow{
		{"GET", "/v1/organization/usage/completions", owned, false, g.showUsage},
		{"GET", "/v1/organization/costs", owned, false, g.showCosts},
		{"GET", "/v1/organization/me", owned, false, g.showMe},
		{"GET", "/v1/queue", owned, false, g.showQueue},
		{"GET", "/v1/queue/{id}", owned, false, g.showPlace},
	}
}

// modelsAdminPath is that of the model folder.
const modelsAdminPath = "/admin/api/models"

func (g *Gateway) operatorRoutes() []routeRow {
	var rows []routeRow
	if g.config.Audit != nil {
		rows = append(rows, routeRow{"GET", auditPath, operator, false, g.listAudit})
	}
	metrics := operator
	if g.config.MetricsOpen {
		metrics = public
	}
	rows = append(rows, []routeRow{
		{"GET", metricsPath, metrics, false, g.showMetrics},
		{"GET", "/admin/api/now", operator, false, g.showNow},
		{"GET", "/admin/api/about", operator, false, g.showParts},
		{"GET", "/admin/api/history", operator, false, g.showHistory},
		{"GET", "/admin/api/plan", operator, false, g.showPlan},
		{"GET", "/admin/api/live", operator, false, g.followNow},
		{"GET", "/admin/api/alerts", operator, false, g.listAlerts},
		{"GET", "/admin/api/requests", operator, false, g.listRequests},
		{"GET", "/admin/api/requests/{id}", operator, false, g.showRequest},
		{"GET", "/admin/api/safety/events", operator, false, g.safetyEvents},
		{"GET", "/debug/pprof/", operator, false, profile},
		{"GET", "/debug/pprof/{name}", operator, false, profile},
	}...)
	if api := g.config.ModelAPI; api != nil {
		run := toModel(api)
		rows = append(rows,
			routeRow{"GET", modelsAdminPath, operator, false, jsonOnly(api)},
			routeRow{"POST", modelsAdminPath, operator, false, pullModel(api)},
			routeRow{"DELETE", modelsAdminPath + "/{name}", operator, false, run},
			routeRow{"POST", modelsAdminPath + "/{name}/load", operator, false, run},
			routeRow{"POST", modelsAdminPath + "/{name}/unload", operator, false, run})
	}
	fleet := g.config.Fleet
	if fleet == nil {
		return rows
	}
	return append(rows,
		routeRow{"GET", "/admin/api/findings", operator, false, g.listFindings},
		routeRow{"POST", "/admin/api/workers/drain", operator, false, g.toWorker(fleet.Drain)},
		routeRow{"POST", "/admin/api/workers/resume", operator, false, g.toWorker(fleet.Resume)},
		routeRow{"POST", "/admin/api/workers/sleep", operator, false, g.toWorker(fleet.Sleep)},
		routeRow{"POST", "/admin/api/workers/wake", operator, false, g.toWorker(fleet.Wake)})
}

// keyRoutes manage keys and organisations; docs/keys.md describes them.
func (g *Gateway) keyRoutes() (rows []routeRow) {
	if g.config.Keys == nil {
		return nil
	}
	for _, path := range []string{keysPath, adminKeysPath} {
		admins := path == adminKeysPath
		rows = append(rows, []routeRow{
			{"GET", path, operator, false, func(c *call) error {
				return g.listKeys(c, tenant.KeyFilter{Admins: admins})
			}},
			{"POST", path, operator, false, func(c *call) error { return g.createKey(c, admins) }},
			{"GET", path + "/{key}", operator, false, g.showKey},
			{"POST", path + "/{key}", operator, false, g.changeKey},
			{"DELETE", path + "/{key}", operator, false, g.deleteKey},
			{"POST", path + "/{key}/rotate", operator, false, g.rotateKey},
		}...)
	}
	return append(rows, []routeRow{
		{"GET", projectsPath, operator, false, g.listOrganizations},
		{"POST", projectsPath, operator, false, g.createOrganization},
		{"GET", projectsPath + "/{project}", operator, false, g.showOrganization},
		{"POST", projectsPath + "/{project}", operator, false, g.changeOrganization},
		{"DELETE", projectsPath + "/{project}", operator, false, g.deleteOrganization},
		{"POST", projectsPath + "/{project}/archive", operator, false, g.archiveOrganization},
		{"GET", projectsPath + "/{project}/api_keys", operator, false, g.listProjectKeys},
		{"GET", projectsPath + "/{project}/api_keys/{key}", operator, false, g.showProjectKey},
		{"DELETE", projectsPath + "/{project}/api_keys/{key}", operator, false, g.deleteKey},
		{"GET", projectsPath + "/{project}/users", operator, false, g.listUsers},
		{"POST", projectsPath + "/{project}/users/{user}", operator, false, g.changeUser},
	}...)
}
