package exchange

import (
	"encoding/json"

	"parley/gateway/openai"
)

// An EventSink is where the events of a response go.
type EventSink interface {
	// Send delivers events. An error means that the client is gone.
	Send(events []json.RawMessage) error
	// Ping keeps a silent connection open.
	Ping() error
}

// Discard is the sink of responses without a client.
type Discard struct{}

// Send drops events.
func (Discard) Send([]json.RawMessage) error { return nil }

// Ping does nothing.
func (Discard) Ping() error { return nil }

// A NamedStream writes events as a stream in which each has its name.
type NamedStream struct{ *EventStream }

// NamedStream returns a stream of named events.
func (x *Exchange) NamedStream() NamedStream { return NamedStream{NewEventStream(x, 0)} }

// Send writes events.
func (s NamedStream) Send(events []json.RawMessage) error {
	room := frameRoom.Get().(*[]byte)
	defer keepFrame(room)
	*room = (*room)[:0]
	for _, e := range events {
		*room = appendNamed(*room, openai.EventType(e), e)
	}
	return s.writeAny(*room)
}
