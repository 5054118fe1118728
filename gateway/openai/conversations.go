package openai

import (
	"encoding/json"

	"parley"
)

// conversationItemsMax bounds the items that one call adds to a conversation.
const conversationItemsMax = 20

// A ConversationRequest is the body that makes a conversation or changes one.
// Fields that are nil were not sent.
type ConversationRequest struct {
	Metadata map[string]string
	Items    []Item
	// The others are extras of this server.
	Title, Model, Policy, Leaf *string
	Pinned, Temporary          *bool
}

// ParseConversation reads the body of POST /v1/conversations and of its
// changes; an empty one asks for nothing in particular.
func ParseConversation(body []byte) (*ConversationRequest, error) {
	if len(body) == 0 {
		return &ConversationRequest{}, nil
	}
	doc, err := document(body)
	if err != nil {
		return nil, err
	}
	f := doc.fields()
	r := &ConversationRequest{}
	if _, ok := f.take("metadata"); ok {
		r.Metadata = f.metadata("metadata")
	}
	f.with("items", func(v value) (err error) {
		r.Items, err = readItems(v, conversationItemsMax)
		return err
	})
	for name, into := range map[string]**string{"title": &r.Title, "model": &r.Model, "context_policy": &r.Policy,
		"current_leaf": &r.Leaf} {
		if _, ok := f.take(name); ok {
			*into = new(string)
			f.text(name, *into)
		}
	}
	for name, into := range map[string]**bool{"pinned": &r.Pinned, "temporary": &r.Temporary} {
		if _, ok := f.take(name); ok {
			*into = new(bool)
			f.flag(name, *into)
		}
	}
	if r.Policy != nil {
		f.oneOf("context_policy", r.Policy, "refuse", "drop", "summarise")
	}
	return r, f.err
}

// ParseConversationItems reads the body of POST /v1/conversations/{id}/items.
func ParseConversationItems(body []byte) ([]Item, error) {
	doc, err := document(body)
	if err != nil {
		return nil, err
	}
	f := doc.fields()
	var items []Item
	f.needed("items")
	f.with("items", func(v value) (err error) {
		if items, err = readItems(v, conversationItemsMax); err == nil && len(items) == 0 {
			err = v.invalid("empty_array",
				"empty array. Expected an array with minimum length 1, but got an empty array instead.")
		}
		return err
	})
	for n := range items {
		if items[n].Type == ItemReference && f.err == nil {
			f.fail(UnknownItem(items[n].ID))
		}
	}
	return items, f.err
}

// A TurnRequest is the body of POST /v1/conversations/{id}/messages: that of a
// chat, but for its messages, which the server has.
type TurnRequest struct {
	ChatRequest
	// Question is what is said now: parts of a message, or what tools gave. Nil
	// asks for another answer to what was said before.
	Question []Item
	// Parent is the message that the question follows, empty for the current
	// leaf. Edit names a question that this one is another version of, Again an
	// answer to which another is wanted. At most one of them is set.
	Parent, Edit, Again string
	// Instructions are shown to the model before all messages, in this turn.
	Instructions string
	// Background lets the turn continue when its client hangs up: others may follow it.
	Background bool
}

// ParseTurn reads the body of a turn.
func ParseTurn(body []byte) (*TurnRequest, error) {
	r, f, err := readTurn(body)
	if err != nil {
		return nil, err
	}
	f.with("content", func(v value) error {
		item := Item{Type: ItemMessage, Role: "user", Status: "completed"}
		if err := item.readParts(v, "input_text"); err != nil {
			return err
		}
		r.Question = []Item{item}
		return nil
	})
	f.with("tool_outputs", r.readToolOutputs)
	f.text("parent_id", &r.Parent)
	f.text("edit", &r.Edit)
	f.text("regenerate", &r.Again)
	r.checkTurn(f)
	return r, f.err
}

// ParseResume reads the body that asks to continue an answer: that of a
// turn, without new messages. It may be empty.
func ParseResume(body []byte) (*TurnRequest, error) {
	if len(body) == 0 {
		body = []byte("{}")
	}
	r, f, err := readTurn(body)
	if err != nil {
		return nil, err
	}
	return r, f.err
}

func readTurn(body []byte) (*TurnRequest, *fields, error) {
	doc, err := document(body)
	if err != nil {
		return nil, nil, err
	}
	f := doc.fields()
	r := &TurnRequest{ChatRequest: ChatRequest{Generation: readGeneration(f), OpenTurn: true}}
	f.with("messages", func(v value) error {
		return v.unsupported("send 'content'; the server has the messages before it.")
	})
	f.with("continue_final_message", func(v value) error { return v.unsupported("resume an answer instead.") })
	f.with("n", func(v value) error {
		_, err := v.integerIn(1, 1)
		return err
	})
	r.readMaxTokens(f)
	r.readLogprobs(f)
	r.readProgress(f)
	f.flag("background", &r.Background)
	f.text("instructions", &r.Instructions)
	r.readTemplateArgs(f)
	r.Format.readResponseFormat(f)
	r.readTools(f)
	refuseMedia(f)
	r.OpenTurn = true
	return r, f, nil
}

func (r *TurnRequest) readToolOutputs(v value) error {
	if !v.isArray() {
		return v.wrongType("an array of objects")
	}
	for _, element := range v.elements() {
		f := element.fields()
		item := Item{Type: ItemFunctionOutput, Status: "completed"}
		f.need("tool_call_id", &item.CallID)
		f.needed("output")
		f.with("output", func(v value) (err error) {
			item.Output, err = readJoined(v)
			return err
		})
		if f.err == nil && (item.CallID == "" || len(item.CallID) > callIDMax) {
			f.fail(element.invalid("invalid_value", "a 'tool_call_id' of %d bytes. Expected 1 to %d.",
				len(item.CallID), callIDMax))
		}
		if f.err != nil {
			return f.err
		}
		r.Question = append(r.Question, item)
	}
	return nil
}

// checkTurn wants something to answer, said in one way.
func (r *TurnRequest) checkTurn(f *fields) {
	named := 0
	for _, id := range []string{r.Parent, r.Edit, r.Again} {
		if id != "" {
			named++
		}
	}
	switch {
	case named > 1:
		f.fail(withCode("mutually_exclusive_parameters", parley.Invalid("parent_id",
			"Mutually exclusive parameters: 'parent_id', 'edit' and 'regenerate'. Send one of them.")))
	case r.Again != "" && r.Question != nil:
		f.fail(withCode("mutually_exclusive_parameters", parley.Invalid("regenerate",
			"Mutually exclusive parameters: 'regenerate' and 'content'. To ask something else, send 'edit'.")))
	case r.Question == nil && r.Again == "" && r.Parent == "":
		f.fail(f.missing("content"))
	}
}

// A Conversation is a conversation as clients see it. The members after the
// first four are extras of this server.
type Conversation struct {
	ID             string            `json:"id"`
	Object         string            `json:"object"`
	CreatedAt      int64             `json:"created_at"`
	Metadata       map[string]string `json:"metadata"`
	ConversationID string            `json:"conversation_id"`
	Owner          string            `json:"owner"`
	Model          string            `json:"model"`
	Title          string            `json:"title"`
	Pinned         bool              `json:"pinned"`
	Temporary      bool              `json:"temporary"`
	ContextPolicy  string            `json:"context_policy"`
	// Tier is the class of the owner, and ContextTokensMax how many tokens of the
	// conversation it lets the model be shown; null is all that fits.
	Tier             string  `json:"tier"`
	ContextTokensMax *int    `json:"context_tokens_max"`
	CurrentLeaf      *string `json:"current_leaf"`
	MessageCount     int     `json:"message_count"`
	UpdatedAt        int64   `json:"updated_at"`
}

// A DeletedConversation says that a conversation is gone. Until RestoreBefore
// it can be brought back.
type DeletedConversation struct {
	ID            string `json:"id"`
	Object        string `json:"object"`
	Deleted       bool   `json:"deleted"`
	RestoreBefore int64  `json:"restore_before"`
}

// A ConversationItem is a message of a conversation. What stands after the
// members of [Item] are extras: its place in the tree, and how it came about.
type ConversationItem struct {
	itemShape
	ParentID     *string         `json:"parent_id"`
	CreatedAt    int64           `json:"created_at"`
	Model        string          `json:"model,omitempty"`
	FinishReason parley.Finish   `json:"finish_reason,omitempty"`
	Usage        *Usage          `json:"usage,omitempty"`
	Reasoning    string          `json:"reasoning_content,omitempty"`
	ToolCalls    []ChatToolCall  `json:"tool_calls,omitempty"`
	ToolOutputs  []ToolOutput    `json:"tool_outputs,omitempty"`
	Context      json.RawMessage `json:"context,omitempty"`
	Error        *ResponseError  `json:"error,omitempty"`
	Timings      *Timings        `json:"timings,omitempty"`
	// Outcome says more about an incomplete message than Status can: cancelled,
	// failed or incomplete.
	Outcome string `json:"outcome,omitempty"`
}

// A ToolOutput is what a call gave.
type ToolOutput struct {
	ToolCallID string `json:"tool_call_id"`
	Output     string `json:"output"`
}

// NewConversationItem shows the items that one message holds as one.
func NewConversationItem(id, role, status string, items []Item) ConversationItem {
	c := ConversationItem{itemShape: itemShape{
		ID:      id,
		Type:    ItemMessage,
		Role:    role,
		Status:  status,
		Content: &[]ItemPart{},
	}}
	for n := range items {
		switch i := &items[n]; i.Type {
		case ItemMessage:
			c.Content = &i.Parts
		case ItemReasoning:
			c.Reasoning = i.Text()
		case ItemFunctionCall, ItemCustomCall:
			c.ToolCalls = append(c.ToolCalls,
				NewChatToolCall(nil, i.CallID, i.Name, i.Arguments, i.Type == ItemCustomCall))
		case ItemFunctionOutput, ItemCustomOutput:
			c.ToolOutputs = append(c.ToolOutputs, ToolOutput{i.CallID, i.Output})
		}
	}
	if *c.Content == nil {
		c.Content = &[]ItemPart{}
	}
	return c
}

// LoneItem shows an item that is not a message.
func LoneItem(i Item) ConversationItem { return ConversationItem{itemShape: i.shape()} }

// A ContextNote says what of a conversation the model was not shown, since not
// all of it fits the context. It is kept as a part of the answer.
type ContextNote struct {
	Type string `json:"type"`
	// Policy is drop or summarise, Messages how many were left out.
	Policy   string `json:"policy"`
	Messages int    `json:"left_out_messages"`
	// Summary is what the model was shown in their place, and SummaryTokens what
	// it cost to write, 0 if an earlier turn had.
	Summary       string `json:"summary_shown,omitempty"`
	SummaryTokens int    `json:"summary_tokens,omitempty"`
	// SummaryUpTo is the last message that the summary stands for.
	SummaryUpTo string `json:"summary_up_to,omitempty"`
}

// ContextPart is the type of a [ContextNote] among the parts of an answer.
const ContextPart = "context"

// ParseNote returns the note among the parts of a content, or nil.
func ParseNote(content json.RawMessage) *ContextNote {
	var note ContextNote
	if raw := NoteOf(content); raw == nil || json.Unmarshal(raw, &note) != nil {
		return nil
	}
	return &note
}

// NoteOf returns the note among the parts of a content, or nil.
func NoteOf(content json.RawMessage) json.RawMessage { return partOf(content, ContextPart) }

// partOf returns the part of a type that is not for the model, or nil.
func partOf(content json.RawMessage, wanted string) json.RawMessage {
	var parts []json.RawMessage
	if json.Unmarshal(content, &parts) != nil {
		return nil
	}
	for _, part := range parts {
		var kind struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(part, &kind) == nil && kind.Type == wanted {
			return part
		}
	}
	return nil
}

// A TurnPlace says where in its conversation an answer stands.
type TurnPlace struct {
	ConversationID string `json:"conversation_id"`
	MessageID      string `json:"message_id"`
	// QuestionID is the message that is answered.
	QuestionID string       `json:"question_id"`
	Context    *ContextNote `json:"context,omitempty"`
}

// A TurnChunk is a [ChatChunk] of an answer in a conversation.
type TurnChunk struct {
	ChatChunk
	TurnPlace
}

// A TurnResponse is a [ChatResponse] of an answer in a conversation.
type TurnResponse struct {
	ChatResponse
	TurnPlace
}

// A Hit is a title or a message that a search found.
type Hit struct {
	Object         string    `json:"object"`
	ConversationID string    `json:"conversation_id"`
	MessageID      *string   `json:"message_id"`
	Title          string    `json:"title"`
	Snippet        []HitSpan `json:"snippet"`
	CreatedAt      int64     `json:"created_at"`
	Matches        int       `json:"matches,omitempty"`
}

// A HitSpan is a piece of a snippet.
type HitSpan struct {
	Text string `json:"text"`
	Hit  bool   `json:"hit"`
}

// A TreeNode is a message without what it says.
type TreeNode struct {
	ID       string  `json:"id"`
	ParentID *string `json:"parent_id"`
	Role     string  `json:"role"`
	Status   string  `json:"status"`
}

// Optional returns a text that is null if it is empty.
func Optional(s string) *string { return optional(s) }

// TimingsIn returns the timings among the parts of a content, or nil.
func TimingsIn(content json.RawMessage) *Timings {
	var note TimingsNote
	part := partOf(content, TimingsPart)
	if part == nil || json.Unmarshal(part, &note) != nil {
		return nil
	}
	return &note.Timings
}
