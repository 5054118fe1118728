package gateway

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"parley/gateway/exchange"
)

// A route is one path with the methods it answers.
type route struct {
	// name is the path as metrics and logs show it. A segment in braces stands
	// for any text without a slash.
	name string
	// access says which credentials the route needs.
	access access
	// worker routes reach a worker: they are counted as in flight and refused while
	// draining.
	worker  bool
	methods map[string]endpoint
}

// A routeRow is a line of the route table.
type routeRow struct {
	method, path string
	access       access
	// worker routes reach a worker: they are counted as in flight and refused while
	// draining.
	worker bool
	run    endpoint
}

// on lets an endpoint answer that needs no more than the exchange.
func on(run func(*exchange.Exchange) error) endpoint {
	return func(c *call) error { return run(c.Exchange) }
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

// add lets a row's endpoint answer a method on a path. All methods of a path have
// one access class.
func (t *routeTable) add(row routeRow) {
	found := t.plain[row.path]
	for _, r := range t.patterns {
		if r.name == row.path {
			found = r
		}
	}
	if found == nil {
		found = &route{row.path, row.access, row.worker, map[string]endpoint{}}
		switch {
		case strings.Contains(row.path, "{"):
			t.patterns = append(t.patterns, found)
		case t.plain == nil:
			t.plain = map[string]*route{row.path: found}
		default:
			t.plain[row.path] = found
		}
	}
	if row.access == undeclared || row.access != found.access {
		panic("gateway: " + row.method + " " + row.path + " needs one declared access class for all its methods")
	}
	found.methods[row.method] = row.run
}

// paths lists the plain paths of the API, in order.
func (t *routeTable) paths() []string {
	all := slices.Sorted(maps.Keys(t.plain))
	return slices.DeleteFunc(all, func(p string) bool { return !strings.HasPrefix(p, "/v1/") })
}

// find returns the route of a path, nil if there is none, and what stands for
// its braces. Paths are compared as they are: no cleaning and no redirects,
// which POST bodies do not survive. What stands for braces may hold escaped slashes.
func (t *routeTable) find(u *url.URL) (*route, map[string]string) {
	path := u.Path
	if strings.HasPrefix(path, modelsPrefix) && path != modelsPrefix {
		path = modelsPrefix
	} else if path == modelsPrefix {
		path = "/v1/models"
	}
	if found, ok := t.plain[path]; ok {
		return found, nil
	}
	escaped := u.EscapedPath()
	for _, r := range t.patterns {
		if values, ok := match(r.name, escaped); ok {
			return r, values
		}
	}
	return nil, nil
}

// match compares an escaped path with a pattern, segment by segment.
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
			value, err := url.PathUnescape(given[i])
			if err != nil {
				return nil, false
			}
			values[strings.TrimSuffix(name, "}")] = value
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
	case method == http.MethodGet && strings.EqualFold(request.Header.Get("Upgrade"), "websocket") &&
		r.methods[upgrade] != nil:
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

// The cookie of the admin page's session is sent to paths under /admin alone, so the
// routes of organisations have a second path there.
const organizationPrefix, adminOrganizationPrefix = "/v1/organization/", "/admin/api/organization/"
