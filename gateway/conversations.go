package gateway

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/openai"
)

// withStore lets e answer on a server that has a store.
func (g *Gateway) withStore(e endpoint) endpoint {
	return func(c *call) error {
		if g.runs == nil {
			return parley.Errorf(parley.Unavailable,
				"This server keeps no conversations: it was started without a store.")
		}
		return e(c)
	}
}

// optionalBody reads a body that may be left out.
func (c *call) optionalBody() ([]byte, error) {
	if c.Request.ContentLength == 0 {
		return nil, nil
	}
	return c.Body()
}

// noConversation names what was not found.
func (c *call) noConversation(err error) error {
	if errors.Is(err, convo.ErrNotFound) {
		return openai.ThingNotFound("Conversation", c.Values["id"])
	}
	return err
}

// createConversation answers POST /v1/conversations.
func (g *Gateway) createConversation(c *call) error {
	body, err := c.optionalBody()
	if err != nil {
		return err
	}
	request, err := openai.ParseConversation(body)
	if err != nil {
		return err
	}
	fresh := convo.NewConversation{
		Key:       c.Request.Header.Get("Idempotency-Key"),
		Metadata:  request.Metadata,
		Policy:    c.tier().Policy,
		Model:     orEmpty(request.Model),
		Title:     orEmpty(request.Title),
		Pinned:    request.Pinned != nil && *request.Pinned,
		Temporary: request.Temporary != nil && *request.Temporary,
	}
	if request.Policy != nil {
		fresh.Policy = convo.Policy(*request.Policy)
	}
	if fresh.Model != "" {
		if _, err := c.model(fresh.Model); err != nil {
			return err
		}
	}
	if fresh.Messages, err = newMessages(request.Items); err != nil {
		return err
	}
	made, err := c.storeFor().CreateConversation(c.Request.Context(), ownerOf(c.Exchange), fresh, g.config.Now())
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, shownConversation(c, &made))
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// newMessages returns items as messages to store, under new ids.
func newMessages(items []openai.Item) ([]convo.NewMessage, error) {
	name(items)
	var messages []convo.NewMessage
	for _, item := range items {
		m := convo.NewMessage{ID: item.ID, Kind: item.Type, Role: item.Role}
		var err error
		if m.Content, err = contentOf(item); err != nil {
			return nil, err
		}
		messages = append(messages, m)
	}
	return messages, nil
}

func shownConversation(c *call, v *convo.Conversation) openai.Conversation {
	metadata := v.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	shown := openai.Conversation{
		ID:             v.ID,
		Object:         "conversation",
		CreatedAt:      v.Created.Unix(),
		Metadata:       metadata,
		ConversationID: v.ID,
		Owner:          ownerOf(c.Exchange).Tenant,
		Model:          v.Model,
		Title:          v.Title,
		Pinned:         v.Pinned,
		Temporary:      v.Temporary,
		ContextPolicy:  string(v.Policy),
		CurrentLeaf:    openai.Optional(v.Leaf),
		MessageCount:   v.Messages,
		UpdatedAt:      v.Updated.Unix(),
		Tier:           c.Identity.Tier.String(),
	}
	if most := c.tier().Tokens; most > 0 {
		shown.ContextTokensMax = &most
	}
	return shown
}

// showConversation answers GET /v1/conversations/{id}.
func (g *Gateway) showConversation(c *call) error {
	v, err := g.config.Store.Conversation(c.Request.Context(), ownerOf(c.Exchange), c.Values["id"])
	if err != nil {
		return c.noConversation(err)
	}
	return c.Reply(http.StatusOK, shownConversation(c, &v))
}

// listConversations answers GET /v1/conversations: all of them, last changed
// first, or with ?q= what is found.
func (g *Gateway) listConversations(c *call) error {
	page, err := c.page()
	if err != nil {
		return err
	}
	query := c.Request.URL.Query()
	if query.Has("q") {
		return g.search(c, query.Get("q"), page)
	}
	var filter convo.Filter
	if text := query.Get("pinned"); text != "" {
		pinned, err := strconv.ParseBool(text)
		if err != nil {
			return parley.Invalid("pinned", "Invalid 'pinned': expected true or false.")
		}
		filter.Pinned = &pinned
	}
	list, err := g.config.Store.Conversations(c.Request.Context(), ownerOf(c.Exchange), filter, page)
	if err != nil {
		return err
	}
	shown := make([]openai.Conversation, len(list.Items))
	for i := range list.Items {
		shown[i] = shownConversation(c, &list.Items[i])
	}
	return c.Reply(http.StatusOK, listOf(list, shown))
}

func (g *Gateway) search(c *call, query string, page convo.Page) error {
	list, err := g.config.Store.Search(c.Request.Context(), ownerOf(c.Exchange), query, page)
	if err != nil {
		return err
	}
	shown := make([]openai.Hit, len(list.Items))
	for i, h := range list.Items {
		shown[i] = openai.Hit{
			Object:         "conversation.hit",
			ConversationID: h.Conversation,
			MessageID:      openai.Optional(h.Message),
			Title:          h.Title,
			CreatedAt:      h.Created.Unix(),
			Snippet:        []openai.HitSpan{},
		}
		for _, s := range h.Snippet {
			shown[i].Snippet = append(shown[i].Snippet, openai.HitSpan(s))
		}
	}
	return c.Reply(http.StatusOK, listOf(list, shown))
}

// changeConversation answers POST /v1/conversations/{id}: rename, pin, choose a
// branch and so on.
func (g *Gateway) changeConversation(c *call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	request, err := openai.ParseConversation(body)
	if err != nil {
		return err
	}
	ctx, owner, id := c.Request.Context(), ownerOf(c.Exchange), c.Values["id"]
	if request.Model != nil && *request.Model != "" {
		if _, err := c.model(*request.Model); err != nil {
			return err
		}
	}
	if request.Leaf != nil {
		if _, err := g.config.Store.ChooseBranch(ctx, owner, id, *request.Leaf, g.config.Now()); errors.Is(err,
			convo.ErrNotFound) {
			return openai.ThingNotFound("Conversation or item", id+"/"+*request.Leaf)
		} else if err != nil {
			return err
		}
	}
	change := convo.Change{
		Title:    request.Title,
		Model:    request.Model,
		Pinned:   request.Pinned,
		Policy:   (*convo.Policy)(request.Policy),
		Metadata: request.Metadata,
	}
	v, err := g.config.Store.ChangeConversation(ctx, owner, id, change, g.config.Now())
	if err != nil {
		return c.noConversation(err)
	}
	return c.Reply(http.StatusOK, shownConversation(c, &v))
}

// undoFor is how long a deletion can be undone.
const undoFor = 24 * time.Hour

// deleteConversation answers DELETE /v1/conversations/{id}.
func (g *Gateway) deleteConversation(c *call) error {
	now := g.config.Now()
	err := g.config.Store.DeleteConversation(c.Request.Context(), ownerOf(c.Exchange), c.Values["id"], now)
	if err != nil {
		return c.noConversation(err)
	}
	return c.Reply(http.StatusOK, openai.DeletedConversation{ID: c.Values["id"], Object: "conversation.deleted",
		Deleted: true, RestoreBefore: now.Add(undoFor).Unix()})
}

// restoreConversation answers POST /v1/conversations/{id}/restore.
func (g *Gateway) restoreConversation(c *call) error {
	v, err := g.config.Store.UndeleteConversation(c.Request.Context(), ownerOf(c.Exchange), c.Values["id"])
	if err != nil {
		return c.noConversation(err)
	}
	return c.Reply(http.StatusOK, shownConversation(c, &v))
}
