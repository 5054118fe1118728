package gateway

import (
	"fmt"
	"net/http"
	"strings"

	"parley/gateway/openai"
	"parley/internal/suggest"
)

// home answers GET / with the chat for people, and for programs with how to
// talk to the server.
func (g *Gateway) home(c *call) error {
	if g.wantsPage(c) {
		return g.page(c)
	}
	models, example := "GET /v1/models lists those that your key may use", "MODEL"
	if names := g.shownModels(c); len(names) > 0 {
		models, example = strings.Join(names, ", "), names[0]
	}
	c.Header().Set("Content-Type", "text/plain; charset=utf-8")
	return c.Send(http.StatusOK, fmt.Appendf(nil, homeText, models, c.Request.Host, example))
}

// wantsPage reports whether a browser asks, for which there are pages.
func (g *Gateway) wantsPage(c *call) bool {
	c.Header().Add("Vary", "Accept")
	return g.config.Pages != nil && c.Request.Method == http.MethodGet &&
		strings.Contains(c.Request.Header.Get("Accept"), "text/html")
}

// notFound answers a path that does not exist: programs with an error, browsers with a page.
func (g *Gateway) notFound(c *call) error {
	path := c.Request.URL.Path
	if !g.wantsPage(c) {
		return openai.RouteNotFound(c.Request.Method, path, suggest.Route(path, g.routes.paths()))
	}
	return c.SendPage(http.StatusNotFound, "Page not found", notFoundText, "")
}

const notFoundText = `<p><a href="/">Open the chat</a>, the <a href="/admin">admin page</a> or the
<a href="/docs">documentation of the API</a>.</p>`

// shownModels are the models that a caller of a public route may know of: those that
// its key may use. While there are no keys, programs on this machine are shown all.
func (g *Gateway) shownModels(c *call) (names []string) {
	switch keys := g.config.Keys; {
	case keys == nil:
	case keys.Empty():
		if g.checkLocal(c.Request) != nil {
			return nil
		}
	default:
		who, err := g.identifyByKey(c)
		if err != nil {
			return nil
		}
		c.Identify(who)
	}
	for _, m := range g.models.All() {
		if c.Identity.MayUse(m.ID) {
			names = append(names, m.ID)
		}
	}
	return names
}

// page sends a page or a file of it.
func (g *Gateway) page(c *call) error {
	g.config.Pages.ServeHTTP(c.Response, c.Request)
	return nil
}

const homeText = `Parley serves the OpenAI API.

models: %s

curl http://%s/v1/chat/completions \
  -H 'Content-Type: application/json' \
  -d '{"model": "%s", "stream": true,
       "messages": [{"role": "user", "content": "Hello!"}]}'

POST /v1/chat/completions   a conversation, whole or streamed
POST /v1/completions        plain text or token ids, also with a gap to fill
POST /v1/fim/completions    fill in the middle, for editors
POST /v1/messages           a conversation in Anthropic's API; /v1/messages/count_tokens
POST /v1/embeddings         texts as vectors
POST /v1/rerank             texts ordered by how well they match a query
POST /v1/moderations        the safety findings in a text
POST /v1/files              files of requests, and /v1/batches to have them answered in the background
POST /v1/responses          OpenAI's Responses API, also as a WebSocket
POST /v1/conversations      a stored conversation; add a message: /v1/conversations/{id}/messages
                            with "background", follow it: GET …/messages/{id}/stream, stop it: POST …/messages/{id}/cancel
GET  /v1/models             the served models; one of them: /v1/models/{id}
POST /api/chat              Ollama's API: /api/generate, /api/embed, /api/tags …
POST /tokenize              and /detokenize, /infill, /v1/score, /v1/rerank as other engines have them
GET  /docs                  all routes with their fields; as OpenAPI: /openapi.json
GET  /healthz               the process is alive
GET  /readyz                new requests can be answered; /health is the same
GET  /metrics               counters for Prometheus
`
