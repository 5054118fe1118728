package openai

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"parley"
)

// The types of items that this server knows.
const (
	ItemMessage        = "message"
	ItemFunctionCall   = "function_call"
	ItemFunctionOutput = "function_call_output"
	ItemCustomCall     = "custom_tool_call"
	ItemCustomOutput   = "custom_tool_call_output"
	ItemReasoning      = "reasoning"
	// ItemReference stands for an item of an earlier response, by its id.
	ItemReference = "item_reference"
	// ItemCompaction stands for what was said before it, in fewer words.
	ItemCompaction = "compaction"
)

// itemTypes are the types that a request may send.
var itemTypes = []string{ItemMessage, ItemFunctionCall, ItemFunctionOutput, ItemCustomCall, ItemCustomOutput,
	ItemReasoning, ItemReference, ItemCompaction}

// callIDMax bounds the id that ties a tool's output to its call.
const callIDMax = 64

// An Item is one entry of what the Responses interface takes and gives. Which
// fields count depends on Type.
type Item struct {
	Type string
	ID   string
	// Status is in_progress, completed or incomplete.
	Status string
	// Role and Parts are of a message; Parts also of reasoning.
	Role  string
	Parts []ItemPart
	// CallID, Name and Arguments are of a function call, CallID and Output of
	// what it gave. The Arguments of a custom tool's call are its input, any text.
	CallID, Name, Arguments, Output string
	// Summary is what a compaction says. It travels as opaque text.
	Summary string
}

// An ItemPart is a piece of a message or of reasoning: input_text, output_text,
// refusal or reasoning_text.
type ItemPart struct {
	Type     string
	Text     string
	Logprobs []TokenLogprob
}

// MarshalJSON writes the part with exactly the members of its type.
func (p ItemPart) MarshalJSON() ([]byte, error) {
	switch p.Type {
	case "output_text":
		logprobs := p.Logprobs
		if logprobs == nil {
			logprobs = []TokenLogprob{}
		}
		return Encode(struct {
			Type        string         `json:"type"`
			Text        string         `json:"text"`
			Annotations []struct{}     `json:"annotations"`
			Logprobs    []TokenLogprob `json:"logprobs"`
		}{p.Type, p.Text, []struct{}{}, logprobs})
	case "refusal":
		return Encode(struct {
			Type    string `json:"type"`
			Refusal string `json:"refusal"`
		}{p.Type, p.Text})
	}
	return Encode(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{p.Type, p.Text})
}

// itemShape holds the members of all types of items.
type itemShape struct {
	ID        string      `json:"id,omitempty"`
	Type      string      `json:"type"`
	Status    string      `json:"status,omitempty"`
	Role      string      `json:"role,omitempty"`
	Summary   *[]struct{} `json:"summary,omitempty"`
	Content   *[]ItemPart `json:"content,omitempty"`
	CallID    string      `json:"call_id,omitempty"`
	Name      string      `json:"name,omitempty"`
	Arguments *string     `json:"arguments,omitempty"`
	Input     *string     `json:"input,omitempty"`
	Output    *string     `json:"output,omitempty"`
	Encrypted *string     `json:"encrypted_content,omitempty"`
}

// MarshalJSON writes the item with exactly the members of its type.
func (i Item) MarshalJSON() ([]byte, error) { return Encode(i.shape()) }

func (i Item) shape() itemShape {
	s := itemShape{ID: i.ID, Type: i.Type, Status: i.Status}
	parts := i.Parts
	if parts == nil {
		parts = []ItemPart{}
	}
	switch i.Type {
	case ItemMessage:
		s.Role, s.Content = i.Role, &parts
	case ItemReasoning:
		s.Summary, s.Content = &[]struct{}{}, &parts
	case ItemFunctionCall:
		s.CallID, s.Name, s.Arguments = i.CallID, i.Name, &i.Arguments
	case ItemCustomCall:
		s.CallID, s.Name, s.Input = i.CallID, i.Name, &i.Arguments
	case ItemFunctionOutput, ItemCustomOutput:
		s.CallID, s.Output = i.CallID, &i.Output
	case ItemCompaction:
		opaque := base64.StdEncoding.EncodeToString([]byte(i.Summary))
		s.Status, s.Encrypted = "", &opaque
	}
	return s
}

// Text is what the item says, its parts on lines of their own.
func (i *Item) Text() string {
	texts := make([]string, len(i.Parts))
	for n := range i.Parts {
		texts[n] = i.Parts[n].Text
	}
	return strings.Join(texts, "\n")
}

// ParseItem reads an item that was stored, as [Item.MarshalJSON] wrote it.
func ParseItem(raw json.RawMessage) (Item, error) {
	v, err := document(raw)
	if err != nil {
		return Item{}, err
	}
	return readItem(v)
}

// readItems takes a list of items, at least one and at most most.
func readItems(v value, most int) ([]Item, error) {
	if !v.isArray() {
		return nil, v.wrongType("an array of objects")
	}
	var items []Item
	for n, element := range v.elements() {
		if n == most {
			return nil, v.invalid("array_above_max_length",
				"array too long. Expected an array with maximum length %d.", most)
		}
		item, err := readItem(element)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func readItem(v value) (Item, error) {
	f := v.fields()
	i := Item{Type: itemTypeOf(f), Status: "completed"}
	f.text("id", &i.ID)
	f.oneOf("type", &i.Type, itemTypes...)
	f.oneOf("status", &i.Status, "in_progress", "completed", "incomplete")
	switch i.Type {
	case ItemMessage:
		i.readMessage(f)
	case ItemFunctionCall:
		i.CallID = f.callID()
		f.toolName(&i.Name)
		f.need("arguments", &i.Arguments)
	case ItemCustomCall:
		i.CallID = f.callID()
		f.toolName(&i.Name)
		f.need("input", &i.Arguments)
	case ItemFunctionOutput, ItemCustomOutput:
		i.CallID = f.callID()
		f.needed("output")
		f.with("output", func(v value) (err error) {
			i.Output, err = readJoined(v)
			return err
		})
	case ItemReasoning:
		f.with("content", func(v value) error { return i.readParts(v, "reasoning_text") })
	case ItemReference:
		f.need("id", &i.ID)
	case ItemCompaction:
		i.readSummary(f)
	}
	return i, f.err
}

// readSummary takes what [Item.MarshalJSON] wrote of a compaction.
func (i *Item) readSummary(f *fields) {
	opaque := ""
	f.need("encrypted_content", &opaque)
	text, err := base64.StdEncoding.DecodeString(opaque)
	if v, ok := f.take("encrypted_content"); ok && (err != nil || !utf8.Valid(text)) {
		f.fail(v.invalid("invalid_value", "this server did not write it."))
	}
	i.Summary = string(text)
}

// SummaryMessage returns the message that gives the model a summary of earlier turns.
func SummaryMessage(summary string) Message {
	return Message{Role: "system", Content: "Summary of the conversation before this:\n" + summary, HasContent: true}
}

// itemTypeOf is the type of an item that does not say it: messages and
// references may leave it out.
func itemTypeOf(f *fields) string {
	if _, ok := f.take("role"); ok {
		return ItemMessage
	}
	if _, ok := f.take("id"); ok {
		return ItemReference
	}
	return ItemMessage
}

func (i *Item) readMessage(f *fields) {
	f.needed("role")
	f.oneOf("role", &i.Role, "user", "assistant", "system", "developer")
	f.needed("content")
	kind := "input_text"
	if i.Role == "assistant" {
		kind = "output_text"
	}
	f.with("content", func(v value) error { return i.readParts(v, kind) })
}

// readParts takes a string or a list of parts, which all become of one kind;
// refusals stay what they are.
func (i *Item) readParts(v value, kind string) error {
	if v.isString() {
		i.Parts = []ItemPart{{Type: kind, Text: unquote(v.raw)}}
		return nil
	}
	if !v.isArray() {
		return v.wrongType("a string or an array of parts")
	}
	for _, element := range v.elements() {
		part := ItemPart{Type: kind}
		f := element.fields()
		said := ""
		f.text("type", &said)
		var err error
		switch {
		case f.err != nil:
			return f.err
		case said == "reasoning_text" || said == "summary_text":
			f.need("text", &part.Text)
			err = f.err
		default:
			part.Text, err = readPart(element)
			if stand, ok := standIn(element); ok && i.Type == ItemFunctionOutput {
				part.Text, err = stand, nil
			}
		}
		if err != nil {
			return err
		}
		if said == "refusal" {
			part.Type = said
		}
		i.Parts = append(i.Parts, part)
	}
	return nil
}

// readJoined takes a string, or parts whose texts are joined.
func readJoined(v value) (string, error) {
	i := Item{Type: ItemFunctionOutput}
	if err := i.readParts(v, "input_text"); err != nil {
		return "", err
	}
	return i.Text(), nil
}

// callID takes the id that ties an output to its call.
func (f *fields) callID() (id string) {
	f.need("call_id", &id)
	if v, ok := f.take("call_id"); ok && (id == "" || len(id) > callIDMax) {
		f.fail(v.invalid("invalid_value", "a text of %d bytes. Expected 1 to %d.", len(id), callIDMax))
	}
	return id
}

// MessagesOf turns items into the turns of a chat: instructions come first, a
// call belongs to what the assistant said before it, and so do its thoughts to
// what it said after.
//
// Upto has, for each turn, how many items it and those before it were made of.
func MessagesOf(instructions string, items []Item) (messages []Message, upto []int) {
	b := &chatBuilder{}
	if instructions != "" {
		b.add(Message{Role: "system", Content: instructions, HasContent: true})
		upto = append(upto, 0)
	}
	for n := range items {
		b.addItem(&items[n])
		for len(upto) < len(b.messages) {
			upto = append(upto, 0)
		}
		if len(upto) > 0 && items[n].Type != ItemReasoning { // thoughts belong to the next turn
			upto[len(upto)-1] = n + 1
		}
	}
	return b.messages, upto
}

// A chatBuilder puts the turns of a chat together.
type chatBuilder struct {
	messages []Message
	// thoughts wait for what the assistant says next.
	thoughts string
}

func (b *chatBuilder) add(m Message) {
	if n := len(b.messages); n > 0 && m.Role == "system" && b.messages[n-1].Role == "system" {
		b.messages[n-1].Content += "\n\n" + m.Content // templates take one, at the start
		return
	}
	b.messages = append(b.messages, m)
}

func (b *chatBuilder) addItem(i *Item) {
	switch i.Type {
	case ItemReasoning:
		b.thoughts = i.Text()
		return
	case ItemFunctionCall:
		m := b.speaker()
		m.ToolCalls = append(m.ToolCalls, ToolCall{ID: i.CallID, Name: i.Name, Arguments: i.Arguments})
		return
	case ItemCustomCall:
		m := b.speaker()
		m.ToolCalls = append(m.ToolCalls, ToolCall{ID: i.CallID, Name: i.Name, Arguments: CustomArguments(i.Arguments)})
		return
	case ItemCompaction:
		b.add(SummaryMessage(i.Summary))
	case ItemFunctionOutput, ItemCustomOutput:
		b.add(Message{Role: "tool", Content: i.Output, HasContent: true, ToolCallID: i.CallID})
	case ItemMessage:
		m := Message{Role: i.Role, Content: i.Text(), HasContent: true}
		switch m.Role {
		case "developer":
			m.Role = "system"
		case "assistant":
			m.Reasoning = b.thoughts
		}
		b.add(m)
	}
	b.thoughts = ""
}

// speaker returns the assistant's turn that a call belongs to.
func (b *chatBuilder) speaker() *Message {
	if n := len(b.messages); n == 0 || b.messages[n-1].Role != "assistant" {
		b.add(Message{Role: "assistant", Reasoning: b.thoughts})
		b.thoughts = ""
	}
	return &b.messages[len(b.messages)-1]
}

// NothingToCompact is the error for a compaction of nothing.
func NothingToCompact() error {
	return parley.Invalid("input", "There is nothing to compact: send 'input' or 'previous_response_id'.")
}

// UnknownItem is the error for a reference to an item that is not stored.
func UnknownItem(id string) error {
	return withCode("item_not_found", parley.Invalid("input",
		"Item with id '%s' not found. Only items of stored responses can be referenced.", shorten(id)))
}

// ResponseOfItem returns the id of the response that gave the item of that id.
func ResponseOfItem(id string) (string, bool) {
	_, rest, ok := strings.Cut(id, "_")
	suffix, _, hasNumber := strings.Cut(rest, "_")
	return "resp_" + suffix, ok && hasNumber && suffix != ""
}

// UnmarshalJSON reads a part as it was written.
func (p *ItemPart) UnmarshalJSON(raw []byte) error {
	var shape struct {
		Type     string         `json:"type"`
		Text     string         `json:"text"`
		Refusal  string         `json:"refusal"`
		Logprobs []TokenLogprob `json:"logprobs"`
	}
	if err := json.Unmarshal(raw, &shape); err != nil {
		return err
	}
	*p = ItemPart{Type: shape.Type, Text: shape.Text + shape.Refusal, Logprobs: shape.Logprobs}
	return nil
}
