package responses

import (
	"net/http"

	"parley/gateway/exchange"
	"parley/gateway/history"
	"parley/gateway/job"
	"parley/gateway/openai"
)

// Compact answers POST /v1/responses/compact: what was said becomes one item that
// a later request can send in its place. What the user said last, and no model
// has answered, is kept word for word behind it. Nothing is stored.
func (a *Handlers) Compact(x *exchange.Exchange, j *job.Job) error {
	request, err := exchange.Read(x, openai.ParseInputTokens)
	if err != nil {
		return err
	}
	model, err := j.Model(request.Model)
	if err != nil {
		return err
	}
	x.Record.SetModel(model.ID)
	past, err := history.Recall(x.Request.Context(), a.Store, x.Identity, request)
	if err != nil {
		return err
	}
	said, open := splitOpen(append(past, request.Input...))
	messages, _ := openai.MessagesOf(request.Instructions, said)
	if len(messages) == 0 {
		return openai.NothingToCompact()
	}
	text, used, err := j.Summarise(x.Request.Context(), model, "", messages)
	if err != nil {
		return ofInput(err)
	}
	output := []openai.Item{{Type: openai.ItemCompaction, ID: "cmp_" + x.Suffix, Summary: text}}
	return x.Reply(http.StatusOK, openai.Compaction{
		ID:        "resp_" + x.Suffix,
		Object:    "response.compaction",
		Output:    append(output, open...),
		CreatedAt: x.Record.Started.Unix(),
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
