package responses

import (
	"encoding/json"
	"fmt"
	"strings"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/openai"
)

// An eventLog turns the pieces of an answer into the events of a response,
// in the order that clients rely on: an item is added before its parts, a part
// before its text, and what was begun is done before the next begins. It also
// keeps the response as it is after those events.
type eventLog struct {
	// Response is what GET would show now.
	Response openai.Response

	next   int64
	events []json.RawMessage
	// item is the one that grows, nil between items; text is what there is of it.
	item *openai.Item
	text strings.Builder
	// call is the number of the call that grows.
	call int
}

// An event holds the members of all types of events.
type event struct {
	Type         string                 `json:"type"`
	Sequence     int64                  `json:"sequence_number"`
	Response     *openai.Response       `json:"response,omitempty"`
	ItemID       string                 `json:"item_id,omitempty"`
	OutputIndex  *int                   `json:"output_index,omitempty"`
	ContentIndex *int                   `json:"content_index,omitempty"`
	Item         json.RawMessage        `json:"item,omitempty"`
	Part         json.RawMessage        `json:"part,omitempty"`
	Delta        *string                `json:"delta,omitempty"`
	Text         *string                `json:"text,omitempty"`
	Name         string                 `json:"name,omitempty"`
	Arguments    *string                `json:"arguments,omitempty"`
	Input        *string                `json:"input,omitempty"`
	Logprobs     *[]openai.TokenLogprob `json:"logprobs,omitempty"`
}

// newEventLog begins with a response as it was asked for, with its id.
func newEventLog(r openai.Response) *eventLog {
	return &eventLog{Response: r}
}

// Take returns the events since it was last called, and the number of the
// first.
func (l *eventLog) Take() (first int64, events []json.RawMessage) {
	events, l.events = l.events, nil
	return l.next - int64(len(events)), events
}

// Peek returns the events that Take will.
func (l *eventLog) Peek() []json.RawMessage { return l.events }

// Next is the number of the next event.
func (l *eventLog) Next() int64 { return l.next }

func (l *eventLog) emit(e event) {
	e.Sequence = l.next
	l.next++
	l.events = append(l.events, checked(openai.Encode(&e)))
}

// checked returns what was encoded. What an event has of an item is encoded before the event is: nested encoders
// would need a larger stack, which every open stream would keep.
func checked(raw []byte, err error) json.RawMessage {
	if err != nil { // only raw JSON that was checked before goes in
		panic(err)
	}
	return raw
}

// Begin reports that the response exists and is being computed; a queued one waits
// first.
func (l *eventLog) Begin() {
	if l.Response.Background {
		l.Response.Status = "queued"
		l.emit(event{Type: "response.created", Response: &l.Response})
		l.emit(event{Type: "response.queued", Response: &l.Response})
		l.Response.Status = "in_progress"
	} else {
		l.Response.Status = "in_progress"
		l.emit(event{Type: "response.created", Response: &l.Response})
	}
	l.emit(event{Type: "response.in_progress", Response: &l.Response})
}

// Think adds to what the model thinks before it answers.
func (l *eventLog) Think(text string) {
	l.open(openai.ItemReasoning, "rs_", "reasoning_text")
	l.text.WriteString(text)
	l.emit(event{
		Type:         "response.reasoning_text.delta",
		ItemID:       l.item.ID,
		OutputIndex:  l.at(),
		ContentIndex: new(int),
		Delta:        &text,
	})
}

// Say adds to what the model says.
func (l *eventLog) Say(text string, logprobs []openai.TokenLogprob) {
	l.open(openai.ItemMessage, "msg_", "output_text")
	if logprobs == nil {
		logprobs = []openai.TokenLogprob{}
	}
	l.text.WriteString(text)
	part := &l.item.Parts[0]
	part.Logprobs = append(part.Logprobs, logprobs...)
	l.emit(event{
		Type:         "response.output_text.delta",
		ItemID:       l.item.ID,
		OutputIndex:  l.at(),
		ContentIndex: new(int),
		Delta:        &text,
		Logprobs:     &logprobs,
	})
}

// Call adds to a call. Its id and name come with its first piece.
func (l *eventLog) Call(c answer.CallPiece) {
	kind, prefix, delta := openai.ItemFunctionCall, "fc_", "response.function_call_arguments.delta"
	if c.Custom {
		kind, prefix, delta = openai.ItemCustomCall, "ctc_", "response.custom_tool_call_input.delta"
	}
	if l.item == nil || l.item.Type != kind || l.call != c.Index {
		l.close("completed")
		l.call = c.Index
		l.add(&openai.Item{
			Type:   kind,
			ID:     l.itemID(prefix),
			Status: "in_progress",
			CallID: c.ID,
			Name:   c.Name,
		})
	}
	if c.Arguments == "" {
		return
	}
	l.text.WriteString(c.Arguments)
	l.emit(event{Type: delta, ItemID: l.item.ID, OutputIndex: l.at(), Delta: &c.Arguments})
}

// at is the place of the item that grows.
func (l *eventLog) at() *int {
	n := len(l.Response.Output)
	return &n
}

// itemID names the next item so that its response can be found by it.
func (l *eventLog) itemID(prefix string) string {
	return fmt.Sprintf("%s%s_%d", prefix, strings.TrimPrefix(l.Response.ID, "resp_"), len(l.Response.Output))
}

// open makes the item that grows one of that type, with one part.
func (l *eventLog) open(kind, prefix, part string) {
	if l.item != nil && l.item.Type == kind {
		return
	}
	l.close("completed")
	item := &openai.Item{Type: kind, ID: l.itemID(prefix), Status: "in_progress"}
	if kind == openai.ItemMessage {
		item.Role = "assistant"
	}
	l.add(item)
	l.item.Parts = []openai.ItemPart{{Type: part}}
	l.emit(event{
		Type:         "response.content_part.added",
		ItemID:       l.item.ID,
		OutputIndex:  l.at(),
		ContentIndex: new(int),
		Part:         checked(l.item.Parts[0].MarshalJSON()),
	})
}

func (l *eventLog) add(item *openai.Item) {
	l.item = item
	l.text.Reset()
	l.emit(event{Type: "response.output_item.added", OutputIndex: l.at(), Item: checked(l.item.MarshalJSON())})
}

// close ends the item that grows, if there is one.
func (l *eventLog) close(status string) {
	if l.item == nil {
		return
	}
	text := l.text.String()
	l.item.Status = status
	switch l.item.Type {
	case openai.ItemFunctionCall:
		l.item.Arguments = text
		l.emit(event{
			Type:        "response.function_call_arguments.done",
			ItemID:      l.item.ID,
			OutputIndex: l.at(),
			Name:        l.item.Name,
			Arguments:   &text,
		})
	case openai.ItemCustomCall:
		l.item.Arguments = text
		l.emit(event{
			Type:        "response.custom_tool_call_input.done",
			ItemID:      l.item.ID,
			OutputIndex: l.at(),
			Input:       &text,
		})
	case openai.ItemMessage:
		part := &l.item.Parts[0]
		part.Text = text
		logprobs := append([]openai.TokenLogprob{}, part.Logprobs...)
		l.emit(event{
			Type:         "response.output_text.done",
			ItemID:       l.item.ID,
			OutputIndex:  l.at(),
			ContentIndex: new(int),
			Text:         &text,
			Logprobs:     &logprobs,
		})
	case openai.ItemReasoning:
		l.item.Parts[0].Text = text
		l.emit(event{
			Type:         "response.reasoning_text.done",
			ItemID:       l.item.ID,
			OutputIndex:  l.at(),
			ContentIndex: new(int),
			Text:         &text,
		})
	}
	if l.item.Type == openai.ItemMessage || l.item.Type == openai.ItemReasoning {
		l.emit(event{
			Type:         "response.content_part.done",
			ItemID:       l.item.ID,
			OutputIndex:  l.at(),
			ContentIndex: new(int),
			Part:         checked(l.item.Parts[0].MarshalJSON()),
		})
	}
	l.emit(event{Type: "response.output_item.done", OutputIndex: l.at(), Item: checked(l.item.MarshalJSON())})
	l.Response.Output = append(l.Response.Output, *l.item)
	l.item = nil
}

// Complete ends a response that went well. Cut says that the model would have
// continued.
func (l *eventLog) Complete(cut string, usage parley.Usage, now int64) {
	l.Response.Usage, l.Response.CompletedAt = openai.ResponseUsageOf(usage), &now
	l.Response.Parley = openai.ExtrasOf(usage)
	if cut != "" {
		l.close("incomplete")
		l.Response.IncompleteDetails = &openai.IncompleteDetails{Reason: cut}
		l.end("incomplete")
		return
	}
	l.close("completed")
	l.end("completed")
}

// Fail ends a response that went wrong.
func (l *eventLog) Fail(why *openai.ResponseError) {
	l.close("incomplete")
	l.Response.Error = why
	l.end("failed")
}

// Cancel ends a response that was cancelled. There is no event for
// that: the log just ends.
func (l *eventLog) Cancel() {
	l.close("incomplete")
	l.Response.Status = "cancelled"
}

func (l *eventLog) end(status string) {
	l.Response.Status = status
	l.emit(event{Type: "response." + status, Response: &l.Response})
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
func NewErrorEvent(detail openai.ErrorDetail, sequence int64) ErrorEvent {
	return ErrorEvent{"error", detail.Code, detail.Message, detail.Param, sequence}
}

// failedEvent is the event that ends the stream of a response that can tell no
// end of its own.
func failedEvent(response json.RawMessage, sequence int64) ([]byte, error) {
	return openai.Encode(struct {
		Type     string          `json:"type"`
		Sequence int64           `json:"sequence_number"`
		Response json.RawMessage `json:"response"`
	}{"response.failed", sequence, response})
}

// isTerminal reports whether nothing follows an event of that type.
func isTerminal(eventType string) bool {
	switch eventType {
	case "response.completed", "response.incomplete", "response.failed", "error":
		return true
	}
	return false
}
