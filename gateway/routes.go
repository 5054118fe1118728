package gateway

import (
	"net/http"
	"slices"
	"strings"
)

// A route is one path with the methods it answers.
type route struct {
	// name is the path as metrics and logs show it. A segment in braces stands
	// for any text without a slash.
	name string
	// inference routes are the ones that reach a worker: they are counted as
	// in flight and refused while draining.
	inference bool
	methods   map[string]endpoint
}

// upgrade is the method of a route that also speaks WebSocket: a GET that asks
// for it.
const upgrade = "UPGRADE"

// A routeTable finds routes by path.
type routeTable struct {
	plain map[string]*route
	// patterns have braces. A plain path goes before them.
	patterns []*route
}

// modelsPrefix is followed by a model's ID, which may itself hold slashes.
const modelsPrefix = "/v1/models/"

const metricsPath = "/metrics"

func (g *Gateway) addRoutes() {
	t := &g.routes
	t.add("POST", "/v1/chat/completions", true, g.chat)
	t.add(upgrade, "/v1/chat/completions", true, g.chatSocket)
	t.add("POST", "/v1/completions", true, g.completions)
	t.add("POST", "/v1/fim/completions", true, g.fim)
	t.add("POST", "/v1/embeddings", true, g.embeddings)
	t.add("POST", "/v1/rerank", true, g.rerank)
	t.add("POST", messagesPath, true, g.messages)
	t.add("POST", messagesPath+"/count_tokens", false, g.countTokens)
	t.add("GET", "/v1/models", false, g.listModels)
	t.add("GET", modelsPrefix, false, g.showModel)
	t.add("GET", "/healthz", false, g.healthz)
	t.add("GET", "/readyz", false, g.readyz)
	t.add("GET", "/health", false, g.readyz) // where vLLM and llama-server have it
	t.add("GET", metricsPath, false, g.showMetrics)
	t.add("GET", "/", false, g.home)
	g.addQueueRoutes()
	g.addUsageRoutes()
	g.addPageRoutes()
	g.addOperatorRoutes()
	g.addSafetyRoutes()
	g.addFileRoutes()
	g.addBatchRoutes()
	g.addResponseRoutes()
	g.addConversationRoutes()
	g.addKeyRoutes()
}

// add lets e answer a method on a path.
func (t *routeTable) add(method, path string, inference bool, e endpoint) {
	found := t.plain[path]
	for _, r := range t.patterns {
		if r.name == path {
			found = r
		}
	}
	if found == nil {
		found = &route{path, inference, map[string]endpoint{}}
		switch {
		case strings.Contains(path, "{"):
			t.patterns = append(t.patterns, found)
		case t.plain == nil:
			t.plain = map[string]*route{path: found}
		default:
			t.plain[path] = found
		}
	}
	found.methods[method] = e
}

// find returns the route of a path, nil if there is none, and what stands for
// its braces. Paths are compared as they are: no cleaning and no redirects,
// which POST bodies do not survive.
func (t *routeTable) find(path string) (*route, map[string]string) {
	if strings.HasPrefix(path, modelsPrefix) && path != modelsPrefix {
		path = modelsPrefix
	} else if path == modelsPrefix {
		path = "/v1/models"
	}
	if found, ok := t.plain[path]; ok {
		return found, nil
	}
	for _, r := range t.patterns {
		if values, ok := match(r.name, path); ok {
			return r, values
		}
	}
	return nil, nil
}

// match compares a path with a pattern, segment by segment.
func match(pattern, path string) (map[string]string, bool) {
	wanted, given := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(wanted) != len(given) {
		return nil, false
	}
	values := map[string]string{}
	for i, w := range wanted {
		name, braced := strings.CutPrefix(w, "{")
		switch {
		case braced && given[i] != "":
			values[strings.TrimSuffix(name, "}")] = given[i]
		case w != given[i]:
			return nil, false
		}
	}
	return values, true
}

// endpoint returns what answers a request on the route.
func (r *route) endpoint(request *http.Request) (endpoint, bool) {
	method := request.Method
	switch {
	case method == http.MethodGet && strings.EqualFold(request.Header.Get("Upgrade"), "websocket") && r.methods[upgrade] != nil:
		method = upgrade
	case method == http.MethodHead:
		method = http.MethodGet
	}
	e, ok := r.methods[method]
	return e, ok
}

// allowed lists the methods of the route.
func (r *route) allowed() string {
	methods := []string{http.MethodOptions}
	for method := range r.methods {
		switch method {
		case upgrade:
			continue
		case http.MethodGet:
			methods = append(methods, http.MethodHead)
		}
		methods = append(methods, method)
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}
