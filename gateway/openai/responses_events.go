package openai

import (
	"encoding/json"
	"fmt"
	"strings"
)

// A ResponseLog turns the pieces of an answer into the events of a response,
// in the order that clients rely on: an item is added before its parts, a part
// before its text, and what was begun is done before the next begins. It also
// keeps the response as it is after those events.
type ResponseLog struct {
	// Response is what GET would show now.
	Response Response

	next   int64
	events []json.RawMessage
	// item is the one that grows, nil between items; text is what there is of it.
	item *Item
	text strings.Builder
	// call is the number of the call that grows.
	call int
}

// A responseEvent holds the members of all types of events.
type responseEvent struct {
	Type         string          `json:"type"`
	Sequence     int64           `json:"sequence_number"`
	Response     *Response       `json:"response,omitempty"`
	ItemID       string          `json:"item_id,omitempty"`
	OutputIndex  *int            `json:"output_index,omitempty"`
	ContentIndex *int            `json:"content_index,omitempty"`
	Item         *Item           `json:"item,omitempty"`
	Part         *ItemPart       `json:"part,omitempty"`
	Delta        *string         `json:"delta,omitempty"`
	Text         *string         `json:"text,omitempty"`
	Name         string          `json:"name,omitempty"`
	Arguments    *string         `json:"arguments,omitempty"`
	Logprobs     *[]TokenLogprob `json:"logprobs,omitempty"`
}

// NewResponseLog begins with a response as it was asked for, with its id.
func NewResponseLog(r Response) *ResponseLog {
	return &ResponseLog{Response: r}
}

// Take returns the events since it was last called, and the number of the
// first.
func (l *ResponseLog) Take() (first int64, events []json.RawMessage) {
	events, l.events = l.events, nil
	return l.next - int64(len(events)), events
}

// Peek returns the events that Take will.
func (l *ResponseLog) Peek() []json.RawMessage { return l.events }

// Next is the number of the next event.
func (l *ResponseLog) Next() int64 { return l.next }

func (l *ResponseLog) emit(e responseEvent) {
	e.Sequence = l.next
	raw, err := Encode(e)
	if err != nil { // only raw JSON that was checked before goes in
		panic(err)
	}
	l.next++
	l.events = append(l.events, raw)
}

// Begin reports that the response exists and is being computed; a queued one waits
// first.
func (l *ResponseLog) Begin() {
	if l.Response.Background {
		l.Response.Status = "queued"
		l.emit(responseEvent{Type: "response.created", Response: &l.Response})
		l.emit(responseEvent{Type: "response.queued", Response: &l.Response})
		l.Response.Status = "in_progress"
	} else {
		l.Response.Status = "in_progress"
		l.emit(responseEvent{Type: "response.created", Response: &l.Response})
	}
	l.emit(responseEvent{Type: "response.in_progress", Response: &l.Response})
}

// Think adds to what the model thinks before it answers.
func (l *ResponseLog) Think(text string) {
	l.open(ItemReasoning, "rs_", "reasoning_text")
	l.text.WriteString(text)
	l.emit(responseEvent{
		Type:         "response.reasoning_text.delta",
		ItemID:       l.item.ID,
		OutputIndex:  l.at(),
		ContentIndex: new(int),
		Delta:        &text,
	})
}

// Say adds to what the model says.
func (l *ResponseLog) Say(text string, logprobs []TokenLogprob) {
	l.open(ItemMessage, "msg_", "output_text")
	if logprobs == nil {
		logprobs = []TokenLogprob{}
	}
	l.text.WriteString(text)
	part := &l.item.Parts[0]
	part.Logprobs = append(part.Logprobs, logprobs...)
	l.emit(responseEvent{
		Type:         "response.output_text.delta",
		ItemID:       l.item.ID,
		OutputIndex:  l.at(),
		ContentIndex: new(int),
		Delta:        &text,
		Logprobs:     &logprobs,
	})
}

// Call adds to the call of that number. Its id and name come with its first
// piece.
func (l *ResponseLog) Call(number int, id, name, arguments string) {
	if l.item == nil || l.item.Type != ItemFunctionCall || l.call != number {
		l.close("completed")
		l.call = number
		l.add(Item{
			Type:   ItemFunctionCall,
			ID:     l.itemID("fc_"),
			Status: "in_progress",
			CallID: id,
			Name:   name,
		})
	}
	if arguments == "" {
		return
	}
	l.text.WriteString(arguments)
	l.emit(responseEvent{Type: "response.function_call_arguments.delta", ItemID: l.item.ID, OutputIndex: l.at(),
		Delta: &arguments})
}

// at is the place of the item that grows.
func (l *ResponseLog) at() *int {
	n := len(l.Response.Output)
	return &n
}

// itemID names the next item so that its response can be found by it.
func (l *ResponseLog) itemID(prefix string) string {
	return fmt.Sprintf("%s%s_%d", prefix, strings.TrimPrefix(l.Response.ID, "resp_"), len(l.Response.Output))
}

// ResponseOfItem returns the id of the response that gave the item of that id.
func ResponseOfItem(id string) (string, bool) {
	_, rest, ok := strings.Cut(id, "_")
	suffix, _, hasNumber := strings.Cut(rest, "_")
	return "resp_" + suffix, ok && hasNumber && suffix != ""
}

// open makes the item that grows one of that type, with one part.
func (l *ResponseLog) open(kind, prefix, part string) {
	if l.item != nil && l.item.Type == kind {
		return
	}
	l.close("completed")
	item := Item{Type: kind, ID: l.itemID(prefix), Status: "in_progress"}
	if kind == ItemMessage {
		item.Role = "assistant"
	}
	l.add(item)
	l.item.Parts = []ItemPart{{Type: part}}
	l.emit(responseEvent{
		Type:         "response.content_part.added",
		ItemID:       l.item.ID,
		OutputIndex:  l.at(),
		ContentIndex: new(int),
		Part:         &l.item.Parts[0],
	})
}

func (l *ResponseLog) add(item Item) {
	l.item = &item
	l.text.Reset()
	l.emit(responseEvent{Type: "response.output_item.added", OutputIndex: l.at(), Item: l.item})
}

// close ends the item that grows, if there is one.
func (l *ResponseLog) close(status string) {
	if l.item == nil {
		return
	}
	text := l.text.String()
	l.item.Status = status
	switch l.item.Type {
	case ItemFunctionCall:
		l.item.Arguments = text
		l.emit(responseEvent{
			Type:        "response.function_call_arguments.done",
			ItemID:      l.item.ID,
			OutputIndex: l.at(),
			Name:        l.item.Name,
			Arguments:   &text,
		})
	case ItemMessage:
		part := &l.item.Parts[0]
		part.Text = text
		logprobs := append([]TokenLogprob{}, part.Logprobs...)
		l.emit(responseEvent{
			Type:         "response.output_text.done",
			ItemID:       l.item.ID,
			OutputIndex:  l.at(),
			ContentIndex: new(int),
			Text:         &text,
			Logprobs:     &logprobs,
		})
	case ItemReasoning:
		l.item.Parts[0].Text = text
		l.emit(responseEvent{
			Type:         "response.reasoning_text.done",
			ItemID:       l.item.ID,
			OutputIndex:  l.at(),
			ContentIndex: new(int),
			Text:         &text,
		})
	}
	if l.item.Type != ItemFunctionCall {
		l.emit(responseEvent{
			Type:         "response.content_part.done",
			ItemID:       l.item.ID,
			OutputIndex:  l.at(),
			ContentIndex: new(int),
			Part:         &l.item.Parts[0],
		})
	}
	l.emit(responseEvent{Type: "response.output_item.done", OutputIndex: l.at(), Item: l.item})
	l.Response.Output = append(l.Response.Output, *l.item)
	l.item = nil
}

// Complete ends a response that went well. Cut says that the model would have
// continued.
func (l *ResponseLog) Complete(cut string, usage *ResponseUsage, now int64) {
	l.Response.Usage, l.Response.CompletedAt = usage, &now
	if cut != "" {
		l.close("incomplete")
		l.Response.IncompleteDetails = &IncompleteDetails{cut}
		l.end("incomplete")
		return
	}
	l.close("completed")
	l.end("completed")
}

// Fail ends a response that went wrong.
func (l *ResponseLog) Fail(why *ResponseError) {
	l.close("incomplete")
	l.Response.Error = why
	l.end("failed")
}

// Cancel ends a response that was cancelled. There is no event for
// that: the log just ends.
func (l *ResponseLog) Cancel() {
	l.close("incomplete")
	l.Response.Status = "cancelled"
}

func (l *ResponseLog) end(status string) {
	l.Response.Status = status
	l.emit(responseEvent{Type: "response." + status, Response: &l.Response})
}

// An ErrorEvent ends a stream for a reason outside its response.
type ErrorEvent struct {
	Type     string  `json:"type"`
	Code     *string `json:"code"`
	Message  string  `json:"message"`
	Param    *string `json:"param"`
	Sequence int64   `json:"sequence_number"`
}

// NewErrorEvent returns an error as the event with a sequence number.
func NewErrorEvent(detail ErrorDetail, sequence int64) ErrorEvent {
	return ErrorEvent{"error", detail.Code, detail.Message, detail.Param, sequence}
}

// FailedEvent is the event that ends the stream of a response that can tell no
// end of its own.
func FailedEvent(response json.RawMessage, sequence int64) ([]byte, error) {
	return Encode(struct {
		Type     string          `json:"type"`
		Sequence int64           `json:"sequence_number"`
		Response json.RawMessage `json:"response"`
	}{"response.failed", sequence, response})
}

// EventType returns the type of an event, which is also its name in a stream.
func EventType(event json.RawMessage) string {
	var e struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(event, &e) // an event that is not JSON has no type
	return e.Type
}

// Terminal reports whether nothing follows an event of that type.
func Terminal(eventType string) bool {
	switch eventType {
	case "response.completed", "response.incomplete", "response.failed", "error":
		return true
	}
	return false
}
