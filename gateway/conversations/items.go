package conversations

import (
	"net/http"

	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/history"
	"parley/gateway/openai"
)

// shownItem is a message as lists show it.
func shownItem(m *convo.Message) openai.ConversationItem {
	status := string(m.Status)
	if m.Status != convo.InProgress && m.Status != convo.Completed {
		status = string(convo.Incomplete)
	}
	items := history.ItemsOf(m)
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
	shown.Timings = TimingsOf(m)
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

// AddItems answers POST /v1/conversations/{id}/items.
func (a *API) AddItems(x *exchange.Exchange) error {
	items, err := exchange.Read(x, openai.ParseConversationItems)
	if err != nil {
		return err
	}
	messages, err := history.NewMessages(items)
	if err != nil {
		return err
	}
	added, err := a.within(x).AppendMessages(x.Request.Context(), history.OwnerOf(x.Identity), x.Values["id"], "",
		messages, a.Now())
	if err != nil {
		return NotFound(x, err)
	}
	list := convo.List[convo.Message]{Items: added, First: added[0].ID, Last: added[len(added)-1].ID}
	return x.Reply(http.StatusOK, history.ListOf(list, shownItems(added)))
}

// ListItems answers GET /v1/conversations/{id}/items: the current branch, or
// the one that ends in ?leaf=.
func (a *API) ListItems(x *exchange.Exchange) error {
	page, err := history.ParsePage(x.Request.URL.Query())
	if err != nil {
		return err
	}
	list, err := a.Store.Messages(x.Request.Context(), history.OwnerOf(x.Identity), x.Values["id"],
		x.Request.URL.Query().Get("leaf"), page)
	if err != nil {
		return NotFound(x, err)
	}
	return x.Reply(http.StatusOK, history.ListOf(list, shownItems(list.Items)))
}

// ShowItem answers GET /v1/conversations/{id}/items/{item}.
func (a *API) ShowItem(x *exchange.Exchange) error {
	m, err := a.Store.Message(x.Request.Context(), history.OwnerOf(x.Identity), x.Values["id"], x.Values["item"])
	if err != nil {
		return ItemNotFound(x, err)
	}
	return x.Reply(http.StatusOK, shownItem(&m))
}

// DeleteItem answers DELETE /v1/conversations/{id}/items/{item} with the
// conversation.
func (a *API) DeleteItem(x *exchange.Exchange) error {
	if err := a.Store.DeleteMessage(x.Request.Context(), history.OwnerOf(x.Identity), x.Values["id"], x.Values["item"],
		a.Now()); err != nil {
		return ItemNotFound(x, err)
	}
	return a.Show(x)
}

// ShowTree answers GET /v1/conversations/{id}/tree: the shape of all branches.
func (a *API) ShowTree(x *exchange.Exchange) error {
	nodes, err := a.Store.Tree(x.Request.Context(), history.OwnerOf(x.Identity), x.Values["id"])
	if err != nil {
		return NotFound(x, err)
	}
	data := make([]any, len(nodes))
	for i, n := range nodes {
		data[i] = openai.TreeNode{ID: n.ID, ParentID: openai.Optional(n.Parent), Role: n.Role, Status: string(n.Status)}
	}
	list := openai.List{Object: "list", Data: data}
	if len(nodes) > 0 {
		list.FirstID, list.LastID = nodes[0].ID, nodes[len(nodes)-1].ID
	}
	return x.Reply(http.StatusOK, list)
}

// TimingsOf returns what is known of the times of an answer, nil if nothing.
func TimingsOf(m *convo.Message) *openai.Timings {
	if kept := openai.TimingsIn(m.Content); kept != nil {
		kept.CostMicros = m.CostMicros
		return kept
	}
	if m.Usage.PromptTokens == 0 {
		return nil
	}
	t := openai.TimingsOf(m.Usage)
	t.CostMicros = m.CostMicros
	return t
}
