package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/openai"
	"parley/token"
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

// answerRoom is how much of the context is kept free for an answer of which no
// length was asked for.
func (m *model) answerRoom(request *openai.ChatRequest) int {
	if request.MaxTokensParam != "" {
		return request.MaxTokens
	}
	return min(1024, m.ContextTokens/4)
}

// fit decides which of the request's messages the model is shown: what fits its
// context, and the cap of the caller's tier. What is refused for the context
// alone is refused later, where all requests are. The sizes are
// those of their texts, and what the template adds is shared out evenly.
func (m *model) fit(c *call, policy convo.Policy, request *openai.ChatRequest, summaryTokens int) (convo.Fit, error) {
	room := m.ContextTokens - m.answerRoom(request)
	budget := convo.Budget{Tokens: c.tier().within(room), SummaryTokens: summaryTokens + summaryIntroTokens}
	prompt, _, err := m.renderChat(request, c.gateway.config.Now())
	capped, tokens := budget.Tokens < room, len(prompt)
	if parley.CodeOf(err) == parley.ContextTooLong && policy != convo.Refuse && policy != "" {
		err, tokens = nil, math.MaxInt32 // too long even to count
	}
	if err != nil || tokens <= budget.Tokens ||
		!capped && (policy == convo.Refuse || policy == "" || request.Sinks > 0) {
		return convo.Fit{Tokens: len(prompt)}, err
	}
	sizes, sum := make([]convo.MessageSize, len(request.Messages)), 0
	for i := range request.Messages {
		if sizes[i], err = m.sized(&request.Messages[i]); err != nil {
			return convo.Fit{}, err
		}
		sum += sizes[i].Tokens
	}
	// The shares add up to the prompt's length, so that it grows with every turn
	// and the cut never moves back.
	overhead, n := max(0, len(prompt)-sum), len(sizes)
	if prompt == nil {
		overhead = turnTokens * n
	}
	for i := range sizes {
		sizes[i].Tokens += overhead*(i+1)/n - overhead*i/n
	}
	return convo.FitContext(policy, sizes, budget)
}

// turnTokens is what a template is taken to add to a message where all of them are
// too long to be rendered at once.
const turnTokens = 8

func (m *model) sized(message *openai.Message) (convo.MessageSize, error) {
	var text strings.Builder
	text.WriteString(message.Content + message.Reasoning)
	for _, call := range message.ToolCalls {
		text.WriteString(call.Name + call.Arguments)
	}
	if least := m.leastTokens(text.Len()); least > m.ContextTokens {
		return convo.MessageSize{Role: message.Role, Tokens: least}, nil
	}
	tokens, err := m.encode("messages", text.String(), token.Options{})
	return convo.MessageSize{Role: message.Role, Tokens: len(tokens)}, err
}

// without returns messages less those of the given indices, which are in
// order.
func without(messages []openai.Message, out []int) []openai.Message {
	var kept []openai.Message
	for i := range messages {
		if _, left := slices.BinarySearch(out, i); !left {
			kept = append(kept, messages[i])
		}
	}
	return kept
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
