package gateway

import (
	"context"
	"net/http"

	"parley"
	"parley/gateway/exchange"
	"parley/gateway/ledger"
	"parley/internal/local"
)

// ServeHTTP answers one request: whatever happens, the client gets a request
// id and an error it can read, and the log one line.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.answer(g.newCall(w, r))
}

func (g *Gateway) answer(c *call) {
	leaves := false
	defer func() {
		if !leaves {
			g.finish(c)
		}
	}()
	g.attempt(c, g.dispatch)
	if leaves = g.continueDetached(c); !leaves && c.Stream != nil {
		c.Stream.Release()
	}
}

func (g *Gateway) newCall(w http.ResponseWriter, r *http.Request) *call {
	suffix := randomSuffix()
	begun := g.records.Begin(r.Header.Get("Traceparent"))
	if ctx := begun.WithTrace(r.Context()); ctx != r.Context() {
		r = r.WithContext(ctx)
	}
	c := &call{gateway: g, Exchange: &exchange.Exchange{
		Record:   begun,
		Response: &exchange.Response{ResponseWriter: w},
		Request:  r,
		Suffix:   suffix,
		Server:   g.exchanges,
	}}
	c.job = g.jobs.New(begun, c.hooks())
	c.Hooks = exchange.Hooks{
		Body:   c.countEndUser,
		Send:   c.job.ReleaseSlot,
		Detach: c.detachFromHandler,
		Rest:   c.runDetached,
	}
	c.Identify(nil)
	begun.ID, begun.ClientID = "req_"+suffix, exchange.ClientRequestID(r)
	c.Header().Set("X-Request-Id", c.Record.ID)
	if r.TLS != nil && !local.IsName(r.Host) {
		c.Header().Set("Strict-Transport-Security", "max-age=31536000")
	}
	if exchange.IsMessages(r.URL.Path) {
		c.Header().Set("Request-Id", c.Record.ID)
	}
	return c
}

// dispatch runs the endpoint that the request asks for.
func (g *Gateway) dispatch(c *call) error {
	g.allowOrigin(c)
	found, values := g.routes.find(c.Request.URL)
	if found == nil {
		return g.notFound(c)
	}
	c.Record.Route, c.access, c.Values = found.name, found.access, values
	if c.Request.Method == http.MethodOptions {
		return c.preflight(found)
	}
	run, ok := found.endpoint(c.Request)
	if !ok {
		c.Header().Set("Allow", found.allowed())
		return parley.Errorf(parley.MethodNotAllowed,
			"Not allowed to %s on %s (HINT: perhaps you meant to make a different HTTP method?). Allowed: %s.",
			c.Request.Method, found.name, found.allowed())
	}
	if err := g.checkOrigin(c); err != nil {
		return err
	}
	who, err := g.who(c)
	if c.Identify(who); err != nil {
		return err
	}
	c.Record.Person = g.fromPage(c)
	g.audit(c)
	if c.access.operates() {
		c.Header().Set("Cache-Control", "no-store")
	}
	if err := g.takeSlot(c); err != nil {
		return err
	}
	if found.worker && c.Request.Method == http.MethodPost { // a WebSocket counts its requests itself
		return g.infer(c, run)
	}
	return run(c)
}

// infer runs an endpoint that reaches a worker.
func (g *Gateway) infer(c *call, run endpoint) error {
	c.Record.Infer()
	c.Record.Took(ledger.Auth, c.Record.Started)
	c.honourCacheControl()
	if c.Identity.Key != "" {
		ctx, cancel := context.WithCancelCause(c.Request.Context())
		c.Request = c.Request.WithContext(ctx)
		c.job.Revocable(ctx, cancel)
	}
	if g.draining.Load() {
		return parley.Errorf(parley.Unavailable, "The server is shutting down. Try again later.")
	}
	return run(c)
}
