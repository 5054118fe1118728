package gateway

import (
	"context"
	"encoding/json"
	"errors"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/openai"
)

// recall returns what was said before a response, oldest first, and puts the
// items that its input refers to in their place.
func (g *Gateway) recall(c *call, request *openai.ResponseRequest) ([]openai.Item, error) {
	if c.Identity.Anonymous && (request.Previous != "" || request.Conversation != "") {
		return nil, openai.MissingToken()
	}
	ctx, owner := c.Request.Context(), ownerOf(c.Exchange)
	if err := g.resolve(ctx, owner, request.Input); err != nil {
		return nil, err
	}
	switch {
	case request.Previous != "":
		return g.recallChain(ctx, owner, request.Previous)
	case request.Conversation != "":
		messages, err := g.recallPath(ctx, owner, request.Conversation, "")
		if err != nil {
			return nil, err
		}
		return itemsOf(messages), nil
	}
	return nil, nil
}

func (g *Gateway) recallChain(ctx context.Context, owner convo.Owner, previous string) ([]openai.Item, error) {
	if g.runs == nil {
		return nil, openai.PreviousNotFound(previous)
	}
	last, err := g.config.Store.Response(ctx, owner, previous)
	if errors.Is(err, convo.ErrNotFound) {
		return nil, openai.PreviousNotFound(previous)
	}
	if err != nil {
		return nil, err
	}
	if !last.Status.Ended() {
		return nil, parley.Invalid("previous_response_id", "The response '%s' is %s: wait until it is complete.",
			previous, last.Status)
	}
	stored, err := g.config.Store.Chain(ctx, owner, previous)
	if errors.Is(err, convo.ErrNotFound) {
		return nil, openai.PreviousNotFound(previous)
	}
	if err != nil {
		return nil, err
	}
	return parseItems(stored)
}

func parseItems(stored []convo.Item) ([]openai.Item, error) {
	items := make([]openai.Item, len(stored))
	for i := range stored {
		var err error
		if items[i], err = itemOf(&stored[i]); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// recallPath returns the messages of a conversation up to leaf, or to the
// current one, oldest first.
func (g *Gateway) recallPath(ctx context.Context, owner convo.Owner,
	conversation, leaf string) ([]convo.Message, error) {
	if g.runs == nil {
		return nil, openai.ThingNotFound("Conversation", conversation)
	}
	var messages []convo.Message
	page := convo.Page{Ascending: true, Limit: pageMost}
	for {
		list, err := g.config.Store.Messages(ctx, owner, conversation, leaf, page)
		if errors.Is(err, convo.ErrNotFound) {
			return nil, openai.ThingNotFound("Conversation", conversation)
		}
		if err != nil {
			return nil, err
		}
		messages = append(messages, list.Items...)
		if !list.More {
			return messages, nil
		}
		page.After = list.Last
	}
}

// pageMost is how much a list shows at once at most.
const pageMost = 100

// resolve replaces references by what they stand for. An item's id names the
// response that gave it.
func (g *Gateway) resolve(ctx context.Context, owner convo.Owner, items []openai.Item) error {
	for i := range items {
		if items[i].Type != openai.ItemReference {
			continue
		}
		found, err := g.referred(ctx, owner, items[i].ID)
		if err != nil {
			return err
		}
		items[i] = found
	}
	return nil
}

func (g *Gateway) referred(ctx context.Context, owner convo.Owner, id string) (openai.Item, error) {
	response, ok := openai.ResponseOfItem(id)
	if !ok || g.runs == nil {
		return openai.Item{}, openai.UnknownItem(id)
	}
	page := convo.Page{Ascending: true, Limit: pageMost}
	for {
		list, err := g.config.Store.ResponseItems(ctx, owner, response, convo.Output, page)
		if errors.Is(err, convo.ErrNotFound) {
			return openai.Item{}, openai.UnknownItem(id)
		}
		if err != nil {
			return openai.Item{}, err
		}
		for _, item := range list.Items {
			if item.ID == id {
				return itemOf(&item)
			}
		}
		if !list.More {
			return openai.Item{}, openai.UnknownItem(id)
		}
		page.After = list.Last
	}
}

// itemsOf returns the messages of a conversation as items.
func itemsOf(messages []convo.Message) []openai.Item {
	var items []openai.Item
	for i := range messages {
		items = append(items, itemsOfMessage(&messages[i])...)
	}
	return items
}

// itemsOfMessage returns one message as the items it holds: a turn that calls
// tools is one message, and several items.
func itemsOfMessage(m *convo.Message) []openai.Item {
	if m.Kind != openai.ItemMessage {
		item, err := openai.ParseItem(m.Content)
		if err != nil {
			return nil // of a kind that an import brought and nobody knows
		}
		item.ID = m.ID
		return []openai.Item{item}
	}
	return openai.ParseContent(m.ID, m.Role, string(m.Status), m.Content)
}

// contentOf returns an item as the content of a message in a conversation.
func contentOf(item openai.Item) (json.RawMessage, error) {
	if item.Type == openai.ItemMessage {
		return openai.Encode(item.Parts)
	}
	return openai.Encode(item)
}
