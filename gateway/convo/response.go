package convo

import (
	"encoding/json"
	"time"

	"parley"
)

// A Response is the state of one call of the Responses API.
type Response struct {
	// ID begins with resp_.
	ID string
	// Previous is the response that this one follows; may be empty.
	Previous string
	// Conversation is the one that gets the items; may be empty. It may have
	// been deleted since.
	Conversation string
	Model        string
	Status       Status
	// Background ones run without a client waiting.
	Background bool
	// CancelAsked is set by Store.CancelResponse.
	CancelAsked bool
	// Request is what was asked for, Body what was answered last, both as JSON
	// that the store does not read.
	Request, Body json.RawMessage
	Usage         parley.Usage
	CostMicros    int64
	Err           *parley.Error
	Process       string
	// Events is how many events there are: the number of the next one.
	Events    int64
	Created   time.Time
	Completed time.Time

	bytes int64 // of items and events
}

// A NewResponse is what a response is made of.
type NewResponse struct {
	// ID is made if empty. With it the call can be retried when it is not known
	// whether it was stored.
	ID string
	// Key makes the call repeatable; empty: every call makes one.
	Key string
	// Previous and Conversation must be the owner's. At most one is given.
	Previous, Conversation string
	Model                  string
	Background             bool
	Request                json.RawMessage
	Input                  []Item
	// Process will compute it. It must be alive: see Store.Heartbeat.
	Process string
}

// An Item is one entry of a response's input or output.
type Item struct {
	// ID is unique within its side of the response; made if empty.
	ID string
	// Content is the item as JSON, which the store does not read.
	Content json.RawMessage
}

// A Side is input or output.
type Side string

// The sides of a response.
const (
	Input  Side = "input"
	Output Side = "output"
)

// An EventBatch is a run of events with consecutive numbers.
type EventBatch struct {
	Process string
	// First is the number of the first event.
	First  int64
	Events []json.RawMessage
}

// Progress is what a process learns when it adds events.
type Progress struct {
	// Next is the number that the next event must have.
	Next int64
	// CancelAsked says that the response should be ended as cancelled.
	CancelAsked bool
}

// An EventPage is a part of an event log.
type EventPage struct {
	// First is the number of the first of Events.
	First  int64
	Events []json.RawMessage
	// Status is the response's, as of these events: if it has ended and this is
	// the last page, the stream is complete.
	Status Status
	// More says that there are further events already.
	More bool
}

// A ResponseOutcome is how a response ended.
type ResponseOutcome struct {
	// Status is one that has ended.
	Status Status
	// Batch holds the last events, the terminal one among them, and the process.
	Batch  EventBatch
	Output []Item
	// Messages are added to the response's conversation, after its current
	// leaf, in the same stroke; ErrFull if they do not fit. If there is no
	// conversation any more, they are not kept.
	Messages   []NewMessage
	Body       json.RawMessage
	Usage      parley.Usage
	CostMicros int64
	Err        *parley.Error
}
