package history

import (
	"context"
	"errors"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/openai"
	"parley/gateway/tenant"
)

// Recall returns what was said before a response, oldest first, and puts the items that
// its input refers to in their place. store is nil where none is kept.
func Recall(ctx context.Context, store *convo.Store, who *tenant.Identity,
	request *openai.ResponseRequest) ([]openai.Item, error) {
	if who.Anonymous && (request.Previous != "" || request.Conversation != "") {
		return nil, openai.MissingToken()
	}
	owner := OwnerOf(who)
	if err := resolve(ctx, store, owner, request.Input); err != nil {
		return nil, err
	}
	switch {
	case request.Previous != "":
		return chain(ctx, store, owner, request.Previous)
	case request.Conversation != "":
		messages, err := Path(ctx, store, owner, request.Conversation, "")
		if err != nil {
			return nil, err
		}
		return AllItems(messages), nil
	}
	return nil, nil
}

func chain(ctx context.Context, store *convo.Store, owner convo.Owner, previous string) ([]openai.Item, error) {
	if store == nil {
		return nil, openai.PreviousNotFound(previous)
	}
	last, err := store.Response(ctx, owner, previous)
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
	stored, err := store.Chain(ctx, owner, previous)
	if errors.Is(err, convo.ErrNotFound) {
		return nil, openai.PreviousNotFound(previous)
	}
	if err != nil {
		return nil, err
	}
	return ParseItems(stored)
}

// Path returns the messages of a conversation up to leaf, or to the
// current one, oldest first.
func Path(ctx context.Context, store *convo.Store, owner convo.Owner,
	conversation, leaf string) ([]convo.Message, error) {
	if store == nil {
		return nil, openai.ThingNotFound("Conversation", conversation)
	}
	var messages []convo.Message
	page := convo.Page{Ascending: true, Limit: pageMost}
	for {
		list, err := store.Messages(ctx, owner, conversation, leaf, page)
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

// resolve replaces references by what they stand for. An item's id names the
// response that gave it.
func resolve(ctx context.Context, store *convo.Store, owner convo.Owner, items []openai.Item) error {
	for i := range items {
		if items[i].Type != openai.ItemReference {
			continue
		}
		found, err := referred(ctx, store, owner, items[i].ID)
		if err != nil {
			return err
		}
		items[i] = found
	}
	return nil
}

func referred(ctx context.Context, store *convo.Store, owner convo.Owner, id string) (openai.Item, error) {
	response, ok := openai.ResponseOfItem(id)
	if !ok || store == nil {
		return openai.Item{}, openai.UnknownItem(id)
	}
	page := convo.Page{Ascending: true, Limit: pageMost}
	for {
		list, err := store.ResponseItems(ctx, owner, response, convo.Output, page)
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
