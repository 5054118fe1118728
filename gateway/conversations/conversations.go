package conversations

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/history"
	"parley/gateway/openai"
)

// Create answers POST /v1/conversations.
func (a *API) Create(x *exchange.Exchange) error {
	request, err := exchange.ReadOptional(x, openai.ParseConversation)
	if err != nil {
		return err
	}
	fresh := convo.NewConversation{
		Key:       x.Request.Header.Get("Idempotency-Key"),
		Metadata:  request.Metadata,
		Policy:    a.tier(x).Policy,
		Model:     orEmpty(request.Model),
		Title:     orEmpty(request.Title),
		Pinned:    request.Pinned != nil && *request.Pinned,
		Temporary: request.Temporary != nil && *request.Temporary,
	}
	if request.Policy != nil {
		fresh.Policy = convo.Policy(*request.Policy)
	}
	if fresh.Model != "" {
		if _, err := a.Models.Find(x.Identity, fresh.Model); err != nil {
			return err
		}
	}
	if fresh.Messages, err = history.NewMessages(request.Items); err != nil {
		return err
	}
	made, err := a.within(x).CreateConversation(x.Request.Context(), history.OwnerOf(x.Identity), fresh, a.Now())
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, a.shown(x, &made))
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// shown is a conversation as its owner sees it.
func (a *API) shown(x *exchange.Exchange, v *convo.Conversation) openai.Conversation {
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
		Owner:          history.OwnerOf(x.Identity).Tenant,
		Model:          v.Model,
		Title:          v.Title,
		Pinned:         v.Pinned,
		Temporary:      v.Temporary,
		ContextPolicy:  string(v.Policy),
		CurrentLeaf:    openai.Optional(v.Leaf),
		MessageCount:   v.Messages,
		UpdatedAt:      v.Updated.Unix(),
		Tier:           x.Identity.Tier.String(),
	}
	if most := a.tier(x).Tokens; most > 0 {
		shown.ContextTokensMax = &most
	}
	return shown
}

// Show answers GET /v1/conversations/{id}.
func (a *API) Show(x *exchange.Exchange) error {
	v, err := a.Store.Conversation(x.Request.Context(), history.OwnerOf(x.Identity), x.Values["id"])
	if err != nil {
		return NotFound(x, err)
	}
	return x.Reply(http.StatusOK, a.shown(x, &v))
}

// List answers GET /v1/conversations: all of them, last changed
// first, or with ?q= what is found.
func (a *API) List(x *exchange.Exchange) error {
	page, err := history.ParsePage(x.Request.URL.Query())
	if err != nil {
		return err
	}
	query := x.Request.URL.Query()
	if query.Has("q") {
		return a.search(x, query, page)
	}
	var filter convo.Filter
	if text := query.Get("pinned"); text != "" {
		pinned, err := strconv.ParseBool(text)
		if err != nil {
			return parley.Invalid("pinned", "Invalid 'pinned': expected true or false.")
		}
		filter.Pinned = &pinned
	}
	list, err := a.Store.Conversations(x.Request.Context(), history.OwnerOf(x.Identity), filter, page)
	if err != nil {
		return err
	}
	shown := make([]openai.Conversation, len(list.Items))
	for i := range list.Items {
		shown[i] = a.shown(x, &list.Items[i])
	}
	return x.Reply(http.StatusOK, history.ListOf(list, shown))
}

// search answers with the titles and messages that hold the words of ?q=, the latest first, or with
// ?group=conversation a few of each conversation.
func (a *API) search(x *exchange.Exchange, query url.Values, page convo.Page) error {
	ctx, owner := x.Request.Context(), history.OwnerOf(x.Identity)
	var list convo.List[convo.Hit]
	var err error
	switch group := query.Get("group"); {
	case group == "":
		list, err = a.Store.Search(ctx, owner, query.Get("q"), page)
	case group != "conversation":
		err = parley.Invalid("group", "Invalid 'group': expected conversation, got %q.", group)
	case page.After+page.Before != "":
		err = parley.Invalid("after", "A search with 'group' has one page: raise 'limit', or name more words.")
	default:
		list, err = a.Store.SearchGrouped(ctx, owner, query.Get("q"), page.Limit)
	}
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
			Matches:        h.Matches,
		}
		for _, s := range h.Snippet {
			shown[i].Snippet = append(shown[i].Snippet, openai.HitSpan(s))
		}
	}
	return x.Reply(http.StatusOK, history.ListOf(list, shown))
}

// Change answers POST /v1/conversations/{id}: rename, pin, choose a
// branch and so on.
func (a *API) Change(x *exchange.Exchange) error {
	request, err := exchange.Read(x, openai.ParseConversation)
	if err != nil {
		return err
	}
	ctx, owner, id := x.Request.Context(), history.OwnerOf(x.Identity), x.Values["id"]
	if request.Model != nil && *request.Model != "" {
		if _, err := a.Models.Find(x.Identity, *request.Model); err != nil {
			return err
		}
	}
	if request.Leaf != nil {
		if _, err := a.Store.ChooseBranch(ctx, owner, id, *request.Leaf, a.Now()); errors.Is(err,
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
	v, err := a.Store.ChangeConversation(ctx, owner, id, change, a.Now())
	if err != nil {
		return NotFound(x, err)
	}
	return x.Reply(http.StatusOK, a.shown(x, &v))
}

// undoFor is how long a deletion can be undone.
const undoFor = 24 * time.Hour

// Delete answers DELETE /v1/conversations/{id}.
func (a *API) Delete(x *exchange.Exchange) error {
	now := a.Now()
	err := a.Store.DeleteConversation(x.Request.Context(), history.OwnerOf(x.Identity), x.Values["id"], now)
	if err != nil {
		return NotFound(x, err)
	}
	return x.Reply(http.StatusOK, openai.DeletedConversation{ID: x.Values["id"], Object: "conversation.deleted",
		Deleted: true, RestoreBefore: now.Add(undoFor).Unix()})
}

// Restore answers POST /v1/conversations/{id}/restore.
func (a *API) Restore(x *exchange.Exchange) error {
	v, err := a.Store.UndeleteConversation(x.Request.Context(), history.OwnerOf(x.Identity), x.Values["id"])
	if err != nil {
		return NotFound(x, err)
	}
	return x.Reply(http.StatusOK, a.shown(x, &v))
}
