package gateway

import (
	"net/http"
	"strings"

	"parley/gateway/openai"
)

// listModels answers GET /v1/models. It asks no worker: clients poll it with
// short timeouts.
func (g *Gateway) listModels(c *call) error {
	list := openai.ModelList{Object: "list", Data: []openai.Model{}}
	for _, m := range g.models {
		list.Data = append(list.Data, m.describe())
	}
	return c.reply(http.StatusOK, list)
}

// showModel answers GET /v1/models/{id}.
func (g *Gateway) showModel(c *call) error {
	m, err := g.model(strings.TrimPrefix(c.request.URL.Path, modelsPrefix))
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, m.describe())
}

func (m *model) describe() openai.Model {
	shown := openai.Model{ID: m.ID, Object: "model", Created: m.Created.Unix(), OwnedBy: m.OwnedBy, MaxModelLen: m.ContextTokens}
	if m.Template == nil {
		shown.Unavailable = "no chat template"
	}
	return shown
}
