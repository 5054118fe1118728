package gateway

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"parley"
	"parley/gateway/openai"
)

// A Gateway answers HTTP requests for the models it was made with. It is an
// [http.Handler] and safe for concurrent use.
type Gateway struct {
	config   Config
	models   []*model
	fallback *model
	routes   map[string]route
	metrics  *metrics
	draining atomic.Bool
}

// A route is one path with the methods it answers.
type route struct {
	// name is the path as metrics and logs show it.
	name string
	// inference routes are the ones that reach a worker: they are counted as
	// in flight and refused while draining.
	inference bool
	methods   map[string]endpoint
}

// An endpoint answers one call. The error it returns, if any, is what the
// client sees; an endpoint that has written its answer returns nil.
type endpoint func(*call) error

// New makes a gateway, or says everything that is wrong with the config.
func New(config Config) (*Gateway, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("gateway config: %w", err)
	}
	config = config.withDefaults()
	g := &Gateway{config: config}
	for _, served := range config.Models {
		m := newModel(served, config.Now())
		g.models = append(g.models, m)
		if served.Default {
			g.fallback = m
		}
	}
	var err error
	if g.metrics, err = newMetrics(config.Registry); err != nil {
		return nil, fmt.Errorf("gateway metrics: %w", err)
	}
	g.addRoutes()
	return g, nil
}

func (g *Gateway) addRoutes() {
	g.routes = make(map[string]route)
	add := func(method, path string, inference bool, e endpoint) {
		g.routes[path] = route{path, inference, map[string]endpoint{method: e}}
	}
	add("POST", "/v1/chat/completions", true, g.chat)
	add("POST", "/v1/completions", true, g.completions)
	add("GET", "/v1/models", false, g.listModels)
	add("GET", modelsPrefix, false, g.showModel)
	add("GET", "/healthz", false, g.healthz)
	add("GET", "/readyz", false, g.readyz)
	add("GET", "/metrics", false, g.showMetrics)
	add("GET", "/", false, g.home)
}

// modelsPrefix is followed by a model's ID, which may itself hold slashes.
const modelsPrefix = "/v1/models/"

// find returns the route of a path. Paths are compared as they are: no
// cleaning and no redirects, which POST bodies do not survive.
func (g *Gateway) find(path string) (route, bool) {
	if strings.HasPrefix(path, modelsPrefix) && path != modelsPrefix {
		path = modelsPrefix
	} else if path == modelsPrefix {
		path = "/v1/models"
	}
	found, ok := g.routes[path]
	return found, ok
}

// Drain turns new inference requests away while the ones in flight finish.
// Readiness turns false, so that a load balancer stops sending.
func (g *Gateway) Drain() { g.draining.Store(true) }

// ServeHTTP answers one request: whatever happens, the client gets a request
// id and an error it can read, and the log one line.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := g.newCall(w, r)
	defer g.finish(c)
	if err := g.dispatch(c); err != nil {
		c.fail(err)
	}
}

func (g *Gateway) newCall(w http.ResponseWriter, r *http.Request) *call {
	suffix := randomSuffix()
	c := &call{
		response: &response{ResponseWriter: w},
		request:  r,
		gateway:  g,
		suffix:   suffix,
		id:       "req_" + suffix,
		started:  g.config.Now(),
		route:    "other",
	}
	c.Header().Set("X-Request-Id", c.id)
	return c
}

func randomSuffix() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}

// dispatch runs the endpoint that the request asks for. A panic in it becomes
// an error like any other.
func (g *Gateway) dispatch(c *call) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError(p)
		}
	}()
	g.allowOrigin(c)
	found, ok := g.find(c.request.URL.Path)
	if !ok {
		return openai.RouteNotFound(c.request.Method, c.request.URL.Path)
	}
	c.route = found.name
	if c.request.Method == http.MethodOptions {
		return c.preflight(found)
	}
	run, ok := found.methods[c.request.Method]
	if !ok && c.request.Method == http.MethodHead {
		run, ok = found.methods[http.MethodGet]
	}
	if !ok {
		c.Header().Set("Allow", found.allowed())
		return parley.Errorf(parley.MethodNotAllowed, "Not allowed to %s on %s (HINT: perhaps you meant to make a different HTTP method?). Allowed: %s.",
			c.request.Method, found.name, found.allowed())
	}
	if found.inference {
		return g.infer(c, run)
	}
	return run(c)
}

// infer runs an endpoint that reaches a worker.
func (g *Gateway) infer(c *call, run endpoint) error {
	c.inference = true
	g.metrics.inFlight.Inc()
	if g.draining.Load() {
		return parley.Errorf(parley.Unavailable, "The server is shutting down. Try again later.")
	}
	return run(c)
}

func (r route) allowed() string {
	methods := []string{http.MethodOptions}
	for method := range r.methods {
		methods = append(methods, method)
		if method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}

// panicError is a panic as an error for the log, with where it came from.
func panicError(p any) error {
	return fmt.Errorf("panic: %v\n%s", p, debug.Stack())
}

// model returns the model that a client named.
func (g *Gateway) model(id string) (*model, error) {
	if id == "" && g.fallback != nil {
		return g.fallback, nil
	}
	if id == "" {
		return nil, openai.MissingModel()
	}
	for _, m := range g.models {
		if m.ID == id {
			return m, nil
		}
	}
	return nil, openai.ModelNotFound(id)
}
