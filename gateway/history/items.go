package history

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"

	"parley/gateway/convo"
	"parley/gateway/openai"
)

// AllItems returns the messages of a conversation as items.
func AllItems(messages []convo.Message) []openai.Item {
	var items []openai.Item
	for i := range messages {
		items = append(items, ItemsOf(&messages[i])...)
	}
	return items
}

// ItemsOf returns one message as the items it holds: a turn that calls
// tools is one message, and several items.
func ItemsOf(m *convo.Message) []openai.Item {
	if m.Kind != openai.ItemMessage {
		item, err := openai.ParseItem(m.Content)
		if err != nil {
			return nil // of an unknown kind, which an import brought
		}
		item.ID = m.ID
		return []openai.Item{item}
	}
	return openai.ParseContent(m.ID, m.Role, string(m.Status), m.Content)
}

// ContentOf returns an item as the content of a message in a conversation.
func ContentOf(item openai.Item) (json.RawMessage, error) {
	if item.Type == openai.ItemMessage {
		return openai.Encode(item.Parts)
	}
	return openai.Encode(item)
}

// NewMessages returns items as messages to store, under new ids.
func NewMessages(items []openai.Item) ([]convo.NewMessage, error) {
	NameItems(items)
	var messages []convo.NewMessage
	for _, item := range items {
		m := convo.NewMessage{ID: item.ID, Kind: item.Type, Role: item.Role}
		var err error
		if m.Content, err = ContentOf(item); err != nil {
			return nil, err
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// StoreItems returns items as the store takes them. Their ids stand beside
// their contents, so that the same request sent again is seen to be the same.
func StoreItems(items []openai.Item) ([]convo.Item, error) {
	stored := make([]convo.Item, len(items))
	for i, item := range items {
		stored[i].ID, item.ID = item.ID, ""
		var err error
		if stored[i].Content, err = openai.Encode(item); err != nil {
			return nil, err
		}
	}
	return stored, nil
}

// itemOf is the inverse of StoreItems for one item.
func itemOf(stored *convo.Item) (openai.Item, error) {
	item, err := openai.ParseItem(stored.Content)
	item.ID = stored.ID
	return item, err
}

// idPrefix is how the ids of items of a type begin.
var idPrefix = map[string]string{openai.ItemCompaction: "cmp_", openai.ItemMessage: "msg_",
	openai.ItemFunctionCall: "fc_", openai.ItemFunctionOutput: "fco_", openai.ItemCustomCall: "ctc_",
	openai.ItemCustomOutput: "ctco_", openai.ItemReasoning: "rs_"}

// NameItems gives items new ids: a client may send again what it was given before.
func NameItems(items []openai.Item) {
	for i := range items {
		items[i].ID = idPrefix[items[i].Type] + randomText()
	}
}

// ParseItems is the inverse of StoreItems.
func ParseItems(stored []convo.Item) ([]openai.Item, error) {
	items := make([]openai.Item, len(stored))
	for i := range stored {
		var err error
		if items[i], err = itemOf(&stored[i]); err != nil {
			return nil, err
		}
	}
	return items, nil
}

func randomText() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}
