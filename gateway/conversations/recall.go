package conversations

import (
	"context"
	"slices"

	"parley/gateway/convo"
	"parley/gateway/history"
	"parley/gateway/ledger"
	"parley/gateway/models"
	"parley/gateway/openai"
)

// recall makes the messages of the request from the path to the question, as
// much of it as the conversation's policy shows the model.
func (t *turn) recall(ctx context.Context) error {
	defer t.x.Record.Took(ledger.History, t.api.Now())
	path, err := history.Path(ctx, t.api.Store, t.owner, t.conversation.ID, t.parent)
	if err != nil {
		return err
	}
	place := t.showPath(path)
	t.continueSaid()
	job := t.job
	fit, err := t.model.Fit(job.Tier(), t.conversation.Policy, &t.request.ChatRequest, job.SummaryTokens(t.model))
	if err != nil || len(fit.Out) == 0 {
		return err
	}
	t.note = &openai.ContextNote{Type: openai.ContextPart, Policy: string(t.conversation.Policy),
		Messages: len(fit.Out)}
	kept := models.Without(t.request.Messages, fit.Out)
	if fit.Summarise {
		old := droppedMessages{path: path}
		for _, i := range fit.Out {
			old.messages, old.at = append(old.messages, t.request.Messages[i]), append(old.at, place[i])
		}
		if kept, err = t.insertSummary(ctx, kept, &old); err != nil {
			return err
		}
	}
	t.request.Messages = kept
	return nil
}

// showPath has the model shown everything on a path. It returns, for each
// message of the request, the place on the path at which it ends: a message of
// the path may be several of the request, and one of the request several of it.
func (t *turn) showPath(path []convo.Message) (place []int) {
	var items []openai.Item
	var from []int // the place of each item
	for i := range path {
		for _, item := range history.ItemsOf(&path[i]) {
			items, from = append(items, item), append(from, i)
		}
	}
	messages, upto := openai.MessagesOf(t.request.Instructions, items)
	t.request.Messages = messages
	t.first = !slices.ContainsFunc(messages, func(m openai.Message) bool { return m.Role == "assistant" })
	place = make([]int, len(messages))
	for i, end := range upto {
		if end > 0 { // instructions stand nowhere on it
			place[i] = from[end-1]
		}
	}
	return place
}

// continueSaid has the model continue what was kept of an answer that broke off.
func (t *turn) continueSaid() {
	text := t.told.said().Text.String()
	if text == "" {
		return
	}
	t.request.Messages = append(t.request.Messages, openai.Message{Role: "assistant", Content: text, HasContent: true})
	t.request.OpenTurn, t.request.ContinueFinal = false, true
}
