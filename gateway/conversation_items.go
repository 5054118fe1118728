package gateway

import (
	"errors"
	"net/http"

	"parley/gateway/convo"
	"parley/gateway/openai"
)

// shownItem is a message as lists show it.
func shownItem(m *convo.Message) openai.ConversationItem {
	status := string(m.Status)
	if m.Status != convo.InProgress && m.Status != convo.Completed {
		status = string(convo.Incomplete)
	}
	items := itemsOfMessage(m)
	var shown openai.ConversationItem
	if m.Kind != openai.ItemMessage && len(items) == 1 {
		shown = openai.LoneItem(items[0])
	} else {
		shown = openai.NewConversationItem(m.ID, m.Role, status, items)
	}
	shown.ParentID, shown.CreatedAt, shown.Model, shown.FinishReason = openai.Optional(
		m.Parent), m.Created.Unix(), m.Model, m.Finish
	if m.Usage.PromptTokens > 0 {
		u := openai.UsageOf(m.Usage)
		shown.Usage = &u
	}
	if m.Err != nil {
		shown.Error = openai.ResponseErrorOf(m.Err, m.ID)
	}
	if m.Status != convo.Completed && m.Status.Ended() {
		shown.Outcome = string(m.Status)
	}
	shown.Timings = shownTimings(m)
	shown.Context = openai.NoteOf(m.Content)
	return shown
}

func shownItems(messages []convo.Message) []openai.ConversationItem {
	shown := make([]openai.ConversationItem, len(messages))
	for i := range messages {
		shown[i] = shownItem(&messages[i])
	}
	return shown
}

// addItems answers POST /v1/conversations/{id}/items.
func (g *Gateway) addItems(c *call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	items, err := openai.ParseConversationItems(body)
	if err != nil {
		return err
	}
	messages, err := newMessages(items)
	if err != nil {
		return err
	}
	added, err := c.storeFor().AppendMessages(c.Request.Context(), ownerOf(c.Exchange), c.Values["id"], "", messages,
		g.config.Now())
	if err != nil {
		return c.noConversation(err)
	}
	list := convo.List[convo.Message]{Items: added, First: added[0].ID, Last: added[len(added)-1].ID}
	return c.Reply(http.StatusOK, listOf(list, shownItems(added)))
}

// listItems answers GET /v1/conversations/{id}/items: the current branch, or
// the one that ends in ?leaf=.
func (g *Gateway) listItems(c *call) error {
	page, err := c.page()
	if err != nil {
		return err
	}
	list, err := g.config.Store.Messages(c.Request.Context(), ownerOf(c.Exchange), c.Values["id"],
		c.Request.URL.Query().Get("leaf"), page)
	if err != nil {
		return c.noConversation(err)
	}
	return c.Reply(http.StatusOK, listOf(list, shownItems(list.Items)))
}

// showItem answers GET /v1/conversations/{id}/items/{item}.
func (g *Gateway) showItem(c *call) error {
	m, err := g.config.Store.Message(c.Request.Context(), ownerOf(c.Exchange), c.Values["id"], c.Values["item"])
	if err != nil {
		return c.noItem(err)
	}
	return c.Reply(http.StatusOK, shownItem(&m))
}

func (c *call) noItem(err error) error {
	if errors.Is(err, convo.ErrNotFound) {
		return openai.ThingNotFound("Item", c.Values["item"])
	}
	return err
}

// deleteItem answers DELETE /v1/conversations/{id}/items/{item} with the
// conversation.
func (g *Gateway) deleteItem(c *call) error {
	if err := g.config.Store.DeleteMessage(c.Request.Context(), ownerOf(c.Exchange), c.Values["id"], c.Values["item"],
		g.config.Now()); err != nil {
		return c.noItem(err)
	}
	return g.showConversation(c)
}

// showTree answers GET /v1/conversations/{id}/tree: the shape of all branches.
func (g *Gateway) showTree(c *call) error {
	nodes, err := g.config.Store.Tree(c.Request.Context(), ownerOf(c.Exchange), c.Values["id"])
	if err != nil {
		return c.noConversation(err)
	}
	data := make([]any, len(nodes))
	for i, n := range nodes {
		data[i] = openai.TreeNode{ID: n.ID, ParentID: openai.Optional(n.Parent), Role: n.Role, Status: string(n.Status)}
	}
	list := openai.List{Object: "list", Data: data}
	if len(nodes) > 0 {
		list.FirstID, list.LastID = nodes[0].ID, nodes[len(nodes)-1].ID
	}
	return c.Reply(http.StatusOK, list)
}
