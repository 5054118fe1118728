package gateway

import (
	"net/http"
	"strings"

	"parley/gateway/anthropic"
	"parley/gateway/models"
	"parley/gateway/openai"
)

// listModels answers GET /v1/models. It asks no worker: clients poll it with
// short timeouts.
func (g *Gateway) listModels(c *call) error {
	list := openai.ModelList{Object: "list", Data: []openai.Model{}}
	for _, name := range g.models.Names(c.Identity) {
		m, err := c.job.Model(name)
		if err != nil {
			return err
		}
		list.Data = append(list.Data, describe(m, name))
	}
	if c.speaksAnthropic() {
		models := make([]anthropic.Model, len(list.Data))
		for i, m := range list.Data {
			models[i] = anthropic.NewModel(m.ID, m.Created, m.MaxModelLen)
		}
		return c.Reply(http.StatusOK, anthropic.NewModelList(models))
	}
	return c.Reply(http.StatusOK, list)
}

// speaksAnthropic reports whether the client expects Anthropic's shapes where both interfaces have a route.
func (c *call) speaksAnthropic() bool { return c.Request.Header.Get("Anthropic-Version") != "" }

// showModel answers GET /v1/models/{id}.
func (g *Gateway) showModel(c *call) error {
	name := strings.TrimPrefix(c.Request.URL.Path, modelsPrefix)
	m, err := c.job.Model(name)
	if err != nil {
		return err
	}
	if c.speaksAnthropic() {
		return c.Reply(http.StatusOK, anthropic.NewModel(name, m.Created.Unix(), m.ContextTokens))
	}
	return c.Reply(http.StatusOK, describe(m, name))
}

// describe shows a model under a name that it goes by.
func describe(m *models.Model, name string) openai.Model {
	shown := openai.Model{
		ID:          name,
		Object:      "model",
		Created:     m.Created.Unix(),
		OwnedBy:     m.OwnedBy,
		MaxModelLen: m.ContextTokens,
		Parameters:  m.About.Parameters,
		Description: m.About.GoodAt,
		Demo:        m.Demo,
		TurnsOnly:   m.TurnsOnly(),
	}
	if m.Template == nil {
		shown.Unavailable = "no chat template"
	}
	return shown
}
