package convo

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley"
)

// What is accepted. The limits of metadata are OpenAI's.
const (
	// MetadataPairsMax, MetadataKeyMax and MetadataValueMax bound metadata, the
	// last two in characters.
	MetadataPairsMax = 16
	MetadataKeyMax   = 64
	MetadataValueMax = 512
	// TitleMax bounds a title, in characters.
	TitleMax = 200
	// NameMax bounds keys, ids and the names of models, owners and processes, in bytes.
	NameMax = 255
	// ContentBytesMax bounds one content, item or event.
	ContentBytesMax = 4 << 20
	// MessagesMax and ConversationBytesMax bound a conversation, all branches.
	MessagesMax          = 10_000
	ConversationBytesMax = 32 << 20
	// AppendMax bounds the messages of one AppendMessages or CreateConversation.
	AppendMax = 20
	// ItemsMax bounds each side of a response, EventsMax its event log, and
	// ResponseBytesMax all of it.
	ItemsMax         = 10_000
	EventsMax        = 1 << 20
	ResponseBytesMax = 128 << 20
	// EventBatchMax bounds the events of one AppendEvents.
	EventBatchMax = 1000
	// ChainMax bounds how many responses a chain may have, ChainBytesMax their items.
	ChainMax      = 10_000
	ChainBytesMax = 64 << 20
	// ArchiveBytesMax bounds an export.
	ArchiveBytesMax = 64 << 20
	// QueryMax bounds a search query, in bytes.
	QueryMax = 1000
)

// CheckMetadata returns what is wrong with metadata, if anything is.
func CheckMetadata(metadata map[string]string) error {
	if len(metadata) > MetadataPairsMax {
		return parley.Invalid("metadata", "There may be at most %d pairs of metadata, not %d.", MetadataPairsMax,
			len(metadata))
	}
	for key, value := range metadata {
		if n := utf8.RuneCountInString(key); n > MetadataKeyMax {
			return parley.Invalid("metadata", "A metadata key may have at most %d characters, not %d.", MetadataKeyMax,
				n)
		}
		if n := utf8.RuneCountInString(value); n > MetadataValueMax {
			return parley.Invalid("metadata", "The metadata value of %q may have at most %d characters, not %d.", key,
				MetadataValueMax, n)
		}
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return parley.Invalid("metadata", "Metadata must be valid UTF-8.")
		}
	}
	return nil
}

// checkTitle wants a title that fits on a line.
func checkTitle(title string) error {
	if n := utf8.RuneCountInString(title); n > TitleMax {
		return parley.Invalid("title", "A title may have at most %d characters, not %d.", TitleMax, n)
	}
	if !utf8.ValidString(title) || strings.ContainsFunc(title, unicode.IsControl) {
		return parley.Invalid("title", "A title must be valid UTF-8 without control characters.")
	}
	return nil
}

// checkName wants a short printable text; empty is fine.
func checkName(param, name string) error {
	if len(name) > NameMax {
		return parley.Invalid(param, "%s may have at most %d bytes, not %d.", param, NameMax, len(name))
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return parley.Invalid(param, "%s must be valid UTF-8 without control characters.", param)
	}
	return nil
}

// checkNames checks pairs of parameter and name.
func checkNames(pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if err := checkName(pairs[i], pairs[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// checkContent wants JSON of a bounded size.
func checkContent(param string, content json.RawMessage) error {
	if len(content) > ContentBytesMax {
		return parley.Invalid(param, "%s may have at most %d bytes, not %d.", param, ContentBytesMax, len(content))
	}
	if !json.Valid(content) {
		return parley.Invalid(param, "%s must be JSON.", param)
	}
	return nil
}

func (o Owner) check() error {
	if o.Tenant == "" {
		return parley.Errorf(parley.Unauthenticated, "Conversations belong to an organisation, and none was named.")
	}
	return checkNames("organisation", o.Tenant, "user", o.User)
}

func (c *NewConversation) check() error {
	if err := checkNames("key", c.Key, "model", c.Model); err != nil {
		return err
	}
	if err := checkTitle(c.Title); err != nil {
		return err
	}
	if err := c.Policy.check(); err != nil {
		return err
	}
	if err := checkMessages(c.Messages, 0, AppendMax); err != nil {
		return err
	}
	return CheckMetadata(c.Metadata)
}

func (c *Change) check() error {
	if c.Title != nil {
		if err := checkTitle(*c.Title); err != nil {
			return err
		}
	}
	if c.Model != nil {
		if err := checkName("model", *c.Model); err != nil {
			return err
		}
	}
	if c.Policy != nil {
		if err := c.Policy.check(); err != nil {
			return err
		}
	}
	return CheckMetadata(c.Metadata)
}

// roles are who may speak; an empty role is for kinds without one.
var roles = []string{"", "user", "assistant", "system", "developer", "tool"}

func (m *NewMessage) check() error {
	if err := checkNames("id", m.ID, "type", m.Kind, "model", m.Model); err != nil {
		return err
	}
	if m.ID == Root {
		return parley.Invalid("id", "%q cannot be the id of a message.", Root)
	}
	if !slices.Contains(roles, m.Role) {
		return parley.Invalid("role", "%q is not a role: use user, assistant, system, developer or tool.", m.Role)
	}
	return checkContent("content", m.Content)
}

func checkMessages(messages []NewMessage, least, most int) error {
	if len(messages) < least || len(messages) > most {
		return parley.Invalid("items", "There must be %d to %d items, not %d.", least, most, len(messages))
	}
	for i := range messages {
		if err := messages[i].check(); err != nil {
			return err
		}
	}
	return nil
}

func (t *NewTurn) check() error {
	if err := checkNames("key", t.Key, "parent", t.Parent, "model", t.Model, "process", t.Process, "answer",
		t.Answer); err != nil {
		return err
	}
	if t.Process == "" {
		return parley.Invalid("process", "A turn needs the name of the process that writes its answer.")
	}
	if t.Question == nil {
		return nil
	}
	return t.Question.check()
}

func checkEnded(s Status) error {
	if s != Completed && s != Incomplete && s != Failed && s != Cancelled {
		return parley.Invalid("status", "%q is not a status in which something ends.", s)
	}
	return nil
}

func (o *Outcome) check() error {
	if err := cmp.Or(checkEnded(o.Status), checkNames("model", o.Model)); err != nil {
		return err
	}
	if o.Content == nil {
		return nil
	}
	return checkContent("content", o.Content)
}

func (r *NewResponse) check() error {
	if err := checkNames("key", r.Key, "model", r.Model, "process", r.Process); err != nil {
		return err
	}
	if r.Process == "" {
		return parley.Invalid("process", "A response needs the name of the process that computes it.")
	}
	if r.Previous != "" && r.Conversation != "" {
		return parley.Invalid("previous_response_id",
			"A response follows either previous_response_id or conversation: give one of them.")
	}
	if err := checkContent("request", r.Request); err != nil {
		return err
	}
	return checkItems("input", r.Input)
}

func checkItems(param string, items []Item) error {
	if len(items) > ItemsMax {
		return parley.Invalid(param, "%s may have at most %d items, not %d.", param, ItemsMax, len(items))
	}
	seen := map[string]bool{}
	for i := range items {
		if err := checkName("id", items[i].ID); err != nil {
			return err
		}
		if id := items[i].ID; id != "" && seen[id] {
			return parley.Invalid(param, "%s has two items with the id %q.", param, id)
		}
		seen[items[i].ID] = true
		if err := checkContent(param, items[i].Content); err != nil {
			return err
		}
	}
	return nil
}

func (b *EventBatch) check() error {
	if b.First < 0 || len(b.Events) > EventBatchMax {
		return parley.Invalid("events", "A batch has at most %d events, numbered from 0.", EventBatchMax)
	}
	for _, event := range b.Events {
		if err := checkContent("events", event); err != nil {
			return err
		}
	}
	return nil
}

func (o *ResponseOutcome) check() error {
	if err := checkEnded(o.Status); err != nil {
		return err
	}
	if err := o.Batch.check(); err != nil {
		return err
	}
	if err := checkContent("body", o.Body); err != nil {
		return err
	}
	if err := checkMessages(o.Messages, 0, MessagesMax); err != nil {
		return err
	}
	return checkItems("output", o.Output)
}

// NewMessageID returns a name for a message that is to be stored.
func NewMessageID() string { return newID("msg") }

// NewResponseID returns a name for a response that is to be stored.
func NewResponseID() string { return newID("resp") }

// newID returns a unique name that cannot be guessed.
func newID(prefix string) string { return prefix + "_" + strings.ToLower(rand.Text()) }

// storable returns text as both databases take it: valid UTF-8 without NUL.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
}

// checked runs a check before the database is asked anything.
func checked(owner Owner, checks ...error) error {
	if err := owner.check(); err != nil {
		return err
	}
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
}
