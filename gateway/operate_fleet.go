package gateway

import (
	"encoding/json"
	"net/http"
	"strings"

	"parley"
	"parley/gateway/admin"
)

// toWorker has something done to the worker that a request names.
func (g *Gateway) toWorker(do func(name string) error) endpoint {
	return func(c *call) error {
		name, err := c.workerNamed()
		if err != nil {
			return err
		}
		c.changes(name, nil, nil)
		if err := do(name); err != nil {
			return err
		}
		return g.showNow(c)
	}
}

// workerNamed reads which worker something is to be done to: {"worker": NAME}.
func (c *call) workerNamed() (string, error) {
	body, err := c.body() // JSON, which no foreign page may send unasked
	if err != nil {
		return "", err
	}
	var wanted struct {
		Worker string `json:"worker"`
	}
	if err := json.Unmarshal(body, &wanted); err != nil || wanted.Worker == "" {
		return "", parley.Invalid("worker", "Name a worker: {\"worker\": \"NAME\"}. GET /admin/api/now lists them.")
	}
	return wanted.Worker, nil
}

// A findingList is what the watch over prompts has found, the latest first.
type findingList struct {
	Object string          `json:"object"`
	Data   []admin.Finding `json:"data"`
}

// listFindings answers GET /admin/api/findings.
func (g *Gateway) listFindings(c *call) error {
	list := findingList{Object: "list", Data: []admin.Finding{}}
	for _, f := range g.config.Fleet.Findings() {
		f.WasText, f.NowText = g.textOf(f.Model, f.Was), g.textOf(f.Model, f.Now)
		list.Data = append([]admin.Finding{f}, list.Data...)
	}
	return c.reply(http.StatusOK, list)
}

// textOf returns how tokens of a model read.
func (g *Gateway) textOf(model string, tokens []parley.Token) string {
	for _, m := range g.served() {
		if m.ID == model {
			decoder := m.Tokenizer.NewAnswerDecoder()
			var text strings.Builder
			for _, t := range tokens {
				text.WriteString(decoder.Push(t))
			}
			return text.String() + decoder.Flush()
		}
	}
	return ""
}
