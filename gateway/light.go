package gateway

import (
	"net/http"
	"strings"
)

// lightPosts are the routes whose POST is light. Their bodies are small.
var lightPosts = map[string]bool{
	"/v1/conversations/{id}":         true,
	"/v1/conversations/{id}/restore": true,
	"/api/show":                      true,
}

// lightBodyBytesMax bounds the body of a light request.
const lightBodyBytesMax = 256 << 10

// isLight reports whether a request counts as a light one.
func isLight(method, route string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodDelete:
		return true
	}
	return lightPosts[route] || strings.HasSuffix(route, "/cancel") || strings.HasPrefix(route, "/v1/organization/")
}

// takeSlot counts a request of an identified caller, or refuses it. Work that no
// client waits for is counted when it reserves its tokens: it would else occupy the
// caller's slots while it waits for room.
func (g *Gateway) takeSlot(c *call) error {
	limited := strings.HasPrefix(c.Record.Route, "/v1/") || c.access == stateless || c.access == owned
	if c.Record.Background || !limited {
		return nil
	}
	light := isLight(c.Request.Method, c.Record.Route)
	if light {
		c.Hooks.BodyBytesMax = lightBodyBytesMax
	}
	return c.job.TakeSlot(c.Request.Context(), light)
}
