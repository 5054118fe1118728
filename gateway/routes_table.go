package gateway

import (
	"strings"

	"parley/gateway/apidoc"
	"parley/gateway/exchange"
	"parley/gateway/job"
	"parley/gateway/native"
	"parley/gateway/ollama"
	"parley/gateway/ops"
	"parley/gateway/tenant"
)

// inJob lets an endpoint answer that has something computed.
func inJob(run func(*exchange.Exchange, *job.Job) error) endpoint {
	return func(c *call) error { return run(c.Exchange, c.job) }
}

// addRoutes fills the route table: the one place where a path gets its access class.
func (g *Gateway) addRoutes() {
	for _, rows := range [][]routeRow{
		g.publicRoutes(), g.signInRoutes(), g.accountRoutes(), g.inferenceRoutes(), g.nativeRoutes(),
		g.ollamaRoutes(), g.storedRoutes(), g.conversationRoutes(),
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

// adminAlias returns the row under which the admin page reaches a route of
// organisations, with the class that accepts its session.
func (r routeRow) adminAlias() (routeRow, bool) {
	rest, ok := strings.CutPrefix(r.path, organizationPrefix)
	r.path = adminOrganizationPrefix + rest
	if r.access == owned || r.access == people {
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
		{"GET", "/openapi.json", public, false, on(apidoc.ShowDocument)},
		{"GET", "/docs", public, false, on(apidoc.ShowPage)},
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
		{"POST", "/v1/chat/completions", stateless, true, inJob(chat)},
		{upgrade, "/v1/chat/completions", stateless, true, g.chatSocket},
		{"POST", "/v1/completions", stateless, true, g.completions},
		{"POST", "/v1/fim/completions", stateless, true, g.fim},
		{"POST", "/v1/embeddings", stateless, true, inJob(embeddings)},
		{"POST", exchange.MessagesPath, stateless, true, inJob(messages)},
		{"POST", exchange.MessagesPath + "/count_tokens", stateless, false, inJob(countTokens)},
		{"POST", "/v1/moderations", stateless, false, g.moderations},
		{"GET", "/v1/models", stateless, false, g.listModels},
		{"GET", modelsPrefix, stateless, false, g.showModel},
	}
}

// nativeRoutes are those that vLLM and llama.cpp have beside OpenAI's API.
func (g *Gateway) nativeRoutes() []routeRow {
	props := native.ShowProps(g.config.Version)
	return []routeRow{
		{"GET", "/version", public, false, on(native.ShowVersion(g.config.Version))},
		{"GET", "/ping", public, false, g.readyz},
		{"POST", "/ping", public, false, g.readyz},
		{"GET", "/props", stateless, false, inJob(props)},
		{"POST", "/tokenize", stateless, false, inJob(native.Tokenize)},
		{"POST", "/detokenize", stateless, false, inJob(native.Detokenize)},
		{"POST", "/apply-template", stateless, false, inJob(native.ApplyTemplate)},
		{"POST", "/infill", stateless, true, inJob(native.Infill)},
		{"POST", "/rerank", stateless, true, inJob(native.Rerank)},
		{"POST", "/v1/rerank", stateless, true, inJob(native.Rerank)},
		{"POST", "/score", stateless, true, inJob(native.Compare)},
		{"POST", "/v1/score", stateless, true, inJob(native.Compare)},
	}
}

// ollamaRoutes are those of Ollama's API.
func (g *Gateway) ollamaRoutes() []routeRow {
	api := &ollama.API{Models: g.models, Now: g.config.Now, Folder: g.config.ModelAPI, Keyless: g.keyless}
	return []routeRow{
		{"POST", "/api/chat", stateless, true, inJob(api.Chat)},
		{"POST", "/api/generate", stateless, true, inJob(api.Generate)},
		{"POST", "/api/embed", stateless, true, inJob(api.Embed)},
		{"POST", "/api/embeddings", stateless, true, inJob(api.EmbedOne)},
		{"GET", "/api/tags", stateless, false, on(api.ListModels)},
		{"GET", "/api/ps", stateless, false, on(api.ListLoaded)},
		{"POST", "/api/show", stateless, false, on(api.ShowModel)},
		{"GET", "/api/version", public, false, on(api.ShowVersion)},
		{"POST", "/api/pull", operator, false, on(api.ChangeModels)},
		{"DELETE", "/api/delete", operator, false, on(api.ChangeModels)},
		{"POST", "/api/copy", operator, false, on(api.CopyModel)},
	}
}

// storedRoutes are those of responses, files and batches.
func (g *Gateway) storedRoutes() []routeRow {
	return []routeRow{
		{"POST", "/v1/responses", stateless, true, inJob(g.responses.Create)},
		{upgrade, "/v1/responses", stateless, true, g.responseSocket},
		{"POST", "/v1/responses/input_tokens", stateless, false, inJob(g.responses.CountInputTokens)},
		{"POST", "/v1/responses/compact", stateless, true, inJob(g.responses.Compact)},
		{"GET", "/v1/responses/{id}", owned, false, on(g.responses.Show)},
		{"DELETE", "/v1/responses/{id}", owned, false, on(g.responses.Delete)},
		{"POST", "/v1/responses/{id}/cancel", owned, false, on(g.responses.Cancel)},
		{"GET", "/v1/responses/{id}/input_items", owned, false, on(g.responses.ListInputItems)},
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
		{"POST", "/v1/conversations", owned, false, on(g.conversations.Create)},
		{"GET", "/v1/conversations", owned, false, on(g.conversations.List)},
		{"POST", "/v1/conversations/import", owned, false, on(g.conversations.Import)},
		{"GET", "/v1/conversations/{id}", owned, false, on(g.conversations.Show)},
		{"POST", "/v1/conversations/{id}", owned, false, on(g.conversations.Change)},
		{"DELETE", "/v1/conversations/{id}", owned, false, on(g.conversations.Delete)},
		{"POST", "/v1/conversations/{id}/restore", owned, false, on(g.conversations.Restore)},
		{"GET", "/v1/conversations/{id}/export", owned, false, on(g.conversations.Export)},
		{"GET", "/v1/conversations/{id}/tree", owned, false, on(g.conversations.ShowTree)},
		{"POST", "/v1/conversations/{id}/items", owned, false, on(g.conversations.AddItems)},
		{"GET", "/v1/conversations/{id}/items", owned, false, on(g.conversations.ListItems)},
		{"GET", "/v1/conversations/{id}/items/{item}", owned, false, on(g.conversations.ShowItem)},
		{"DELETE", "/v1/conversations/{id}/items/{item}", owned, false, on(g.conversations.DeleteItem)},
		{"POST", "/v1/conversations/{id}/messages", owned, true, inJob(g.conversations.Say)},
		{"POST", "/v1/conversations/{id}/messages/{item}/resume", owned, true, inJob(g.conversations.Resume)},
		{"POST", "/v1/conversations/{id}/messages/{item}/cancel", owned, false, inJob(g.conversations.Cancel)},
		{"GET", "/v1/conversations/{id}/messages/{item}/stream", owned, false, inJob(g.conversations.Follow)},
	}
	for i := range rows {
		run := rows[i].run
		rows[i].run = func(c *call) error {
			if err := g.conversations.CheckStore(); err != nil {
				return err
			}
			return run(c)
		}
	}
	return rows
}

// usageRoutes show what callers have used, and where their requests stand.
func (g *Gateway) usageRoutes() []routeRow {
	return []routeRow{
		{"GET", "/v1/organization/usage/completions", owned, false, on(g.operators.ShowUsage)},
		{"GET", "/v1/organization/costs", owned, false, on(g.operators.ShowCosts)},
		{"GET", "/v1/organization/me", owned, false, on(g.operators.ShowMe)},
		{"GET", "/v1/queue", owned, false, g.showQueue},
		{"GET", "/v1/queue/{id}", owned, false, g.showPlace},
	}
}

// modelsAdminPath is that of the model folder.
const modelsAdminPath = "/admin/api/models"

func (g *Gateway) operatorRoutes() []routeRow {
	var rows []routeRow
	if g.config.Audit != nil {
		rows = append(rows, routeRow{"GET", auditPath, operator, false, on(g.operators.ListAudit)})
	}
	metrics := operator
	if g.config.MetricsOpen {
		metrics = public
	}
	rows = append(rows, []routeRow{
		{"GET", metricsPath, metrics, false, on(g.operators.ShowMetrics)},
		{"GET", "/admin/api/now", operator, false, on(g.operators.ShowNow)},
		{"GET", "/admin/api/about", operator, false, on(g.operators.ShowParts)},
		{"GET", "/admin/api/server", operator, false, on(g.operators.ShowServer)},
		{"GET", "/admin/api/history", operator, false, on(g.operators.ShowHistory)},
		{"GET", "/admin/api/plan", operator, false, on(g.operators.ShowPlan)},
		{"GET", "/admin/api/live", operator, false, on(g.operators.FollowNow)},
		{"GET", "/admin/api/alerts", operator, false, on(g.operators.ListAlerts)},
		{"GET", "/admin/api/requests", operator, false, on(g.operators.ListRequests)},
		{"GET", "/admin/api/requests/{id}", operator, false, on(g.operators.ShowRequest)},
		{"GET", "/admin/api/findings", operator, false, on(g.operators.ListFindings)},
		{"GET", "/admin/api/safety/events", operator, false, on(g.operators.SafetyEvents)},
		{"GET", "/debug/pprof/", operator, false, on(ops.Profile)},
		{"GET", "/debug/pprof/{name}", operator, false, on(ops.Profile)},
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
		routeRow{"GET", "/admin/api/scale", operator, false, on(g.operators.ListScaling)},
		routeRow{"POST", "/admin/api/workers/drain", operator, false, on(g.operators.ToWorker(fleet.Drain))},
		routeRow{"POST", "/admin/api/workers/resume", operator, false, on(g.operators.ToWorker(fleet.Resume))},
		routeRow{"POST", "/admin/api/workers/sleep", operator, false, on(g.operators.ToWorker(fleet.Sleep))},
		routeRow{"POST", "/admin/api/workers/wake", operator, false, on(g.operators.ToWorker(fleet.Wake))})
}

// keyRoutes manage keys and organisations; docs/keys.md describes them.
func (g *Gateway) keyRoutes() (rows []routeRow) {
	if g.config.Keys == nil {
		return nil
	}
	for _, path := range []string{keysPath, adminKeysPath} {
		admins := path == adminKeysPath
		rows = append(rows, []routeRow{
			{"GET", path, operator, false, on(func(x *exchange.Exchange) error {
				return g.operators.ListKeys(x, tenant.KeyFilter{Admins: admins})
			})},
			{"POST", path, operator, false, on(func(x *exchange.Exchange) error {
				return g.operators.CreateKey(x, admins)
			})},
			{"GET", path + "/{key}", operator, false, on(g.operators.ShowKey)},
			{"POST", path + "/{key}", operator, false, on(g.operators.ChangeKey)},
			{"DELETE", path + "/{key}", operator, false, on(g.operators.DeleteKey)},
			{"POST", path + "/{key}/rotate", operator, false, on(g.operators.RotateKey)},
			{"POST", path + "/{key}/restore", operator, false, on(g.operators.RestoreKey)},
		}...)
	}
	return append(rows, []routeRow{
		{"GET", projectsPath, operator, false, on(g.operators.ListOrganizations)},
		{"POST", projectsPath, operator, false, on(g.operators.CreateOrganization)},
		{"GET", projectsPath + "/{project}", operator, false, on(g.operators.ShowOrganization)},
		{"POST", projectsPath + "/{project}", operator, false, on(g.operators.ChangeOrganization)},
		{"DELETE", projectsPath + "/{project}", operator, false, on(g.operators.DeleteOrganization)},
		{"POST", projectsPath + "/{project}/archive", operator, false, on(g.operators.ArchiveOrganization)},
		{"GET", projectsPath + "/{project}/api_keys", operator, false, on(g.operators.ListProjectKeys)},
		{"GET", projectsPath + "/{project}/api_keys/{key}", operator, false, on(g.operators.ShowProjectKey)},
		{"DELETE", projectsPath + "/{project}/api_keys/{key}", operator, false, on(g.operators.DeleteKey)},
		{"GET", projectsPath + "/{project}/users", operator, false, on(g.operators.ListUsers)},
		{"POST", projectsPath + "/{project}/users/{user}", operator, false, on(g.operators.ChangeUser)},
	}...)
}

// The paths of keys and organisations; docs/keys.md describes them.
const keysPath, adminKeysPath, projectsPath = "/v1/organization/api_keys", "/v1/organization/admin_api_keys",
	"/v1/organization/projects"
