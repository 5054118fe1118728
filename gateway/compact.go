package gateway

import (
	"net/http"

	"parley/gateway/history"
	"parley/gateway/openai"
)

// compact answers POST /v1/responses/compact: what was said becomes one item that
// a later request can send in its place. What the user said last and nobody has
// answered is kept word for word behind it. Nothing is stored.
func (g *Gateway) compact(c *call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	request, err := openai.ParseInputTokens(body)
	if err != nil {
		return err
	}
	model, err := c.job.Model(request.Model)
	if err != nil {
		return err
	}
	c.Record.SetModel(model.ID)
	past, err := history.Recall(c.Request.Context(), g.config.Store, &c.Identity, request)
	if err != nil {
		return err
	}
	said, open := splitOpen(append(past, request.Input...))
	messages, _ := openai.MessagesOf(request.Instructions, said)
	if len(messages) == 0 {
		return openai.NothingToCompact()
	}
	text, used, err := c.job.Summarise(c.Request.Context(), model, "", messages)
	if err != nil {
		return ofInput(err)
	}
	output := []openai.Item{{Type: openai.ItemCompaction, ID: "cmp_" + c.Suffix, Summary: text}}
	return c.Reply(http.StatusOK, openai.Compaction{
		ID:        "resp_" + c.Suffix,
		Object:    "response.compaction",
		Output:    append(output, open...),
		CreatedAt: c.Record.Started.Unix(),
		Usage:     openai.ResponseUsageOf(used),
	})
}

// splitOpen parts what the user said last from what came before it, if there is
// anything before it.
func splitOpen(items []openai.Item) (said, open []openai.Item) {
	at := len(items)
	for at > 0 && items[at-1].Type == openai.ItemMessage && items[at-1].Role == "user" {
		at--
	}
	if at == 0 {
		return items, nil
	}
	history.NameItems(items[at:])
	return items[:at], items[at:]
}
