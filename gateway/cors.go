package gateway

import (
	"net/http"
	"slices"
	"strings"

	"parley"
)

// exposedHeaders are what pages of other origins may read of an answer.
const exposedHeaders = "x-answer-shared, x-parley-budget-used, x-queue-wait, x-queue-position, " +
	"x-queue-estimated-wait, x-request-id, request-id, retry-after, retry-after-ms, x-should-retry, " +
	"x-ratelimit-limit-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-requests, " +
	"x-ratelimit-remaining-tokens, x-ratelimit-reset-requests, x-ratelimit-reset-tokens"

// allowOrigin lets a page of a configured origin read the answer.
func (g *Gateway) allowOrigin(c *call) {
	if len(g.config.AllowOrigins) == 0 {
		return
	}
	h := c.Header()
	h.Add("Vary", "Origin")
	origin := c.Request.Header.Get("Origin")
	if origin == "" || !g.originAllowed(origin) {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", exposedHeaders)
}

func (g *Gateway) originAllowed(origin string) bool {
	return slices.ContainsFunc(g.config.AllowOrigins, func(allowed string) bool {
		return allowed == "*" || strings.EqualFold(allowed, origin)
	})
}

// preflight answers OPTIONS: which methods there are and, for an allowed
// origin, which headers its pages may send.
func (c *call) preflight(r *route) error {
	h := c.Header()
	h.Set("Allow", r.allowed())
	if h.Get("Access-Control-Allow-Origin") != "" {
		h.Set("Access-Control-Allow-Methods", r.allowed())
		h.Set("Access-Control-Max-Age", "600")
		h.Add("Vary", "Access-Control-Request-Headers")
		if headers := allowedHeaders(c.Request.Header.Get("Access-Control-Request-Headers")); headers != "" {
			h.Set("Access-Control-Allow-Headers", headers)
		}
	}
	c.WriteHeader(http.StatusNoContent)
	return nil
}

// allowedHeaders returns those of the wanted header names that clients of the
// interface send. CORS has no wildcards such as x-stainless-*, so the names
// are given back one by one.
func allowedHeaders(wanted string) string {
	var allowed []string
	for name := range strings.SplitSeq(wanted, ",") {
		if name = strings.ToLower(strings.TrimSpace(name)); headerAllowed(name) {
			allowed = append(allowed, name)
		}
	}
	return strings.Join(allowed, ", ")
}

func headerAllowed(name string) bool {
	switch name {
	case "authorization", "content-type", "accept", "x-api-key", "x-client-request-id", "x-request-id", "user-agent",
		"idempotency-key":
		return true
	}
	for _, prefix := range []string{"x-stainless-", "openai-", "anthropic-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// checkOrigin refuses what a page of another origin sends to a route that is not
// for it. Programs send neither of the two headers and pass.
func (g *Gateway) checkOrigin(c *call) error {
	if !c.access.sameOriginOnly() || !c.IsCrossOrigin(g.originAllowed) {
		return nil
	}
	return parley.Errorf(parley.Forbidden,
		"Pages of other sites may not use %s. To allow an origin, start the server with --allow-origin "+
			"and that origin.", c.Record.Route)
}
