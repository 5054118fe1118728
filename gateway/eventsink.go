package gateway

import (
	"encoding/json"

	"parley/gateway/openai"
)

// An eventSink is where the events of a response go.
type eventSink interface {
	// send delivers events. An error means that nobody is there any more.
	send(events []json.RawMessage) error
	// ping keeps a silent connection open.
	ping() error
}

// nowhere is for responses that nobody watches.
type nowhere struct{}

func (nowhere) send([]json.RawMessage) error { return nil }
func (nowhere) ping() error                  { return nil }

// A namedStream writes events as a stream in which each has its name.
type namedStream struct{ *stream }

func (c *call) namedStream() namedStream {
	return namedStream{&stream{call: c, control: flusherOf(c)}}
}

func (s namedStream) send(events []json.RawMessage) error {
	var frames []byte
	for _, e := range events {
		frames = append(frames, "event: "...)
		frames = append(frames, openai.EventType(e)...)
		frames = append(frames, "\ndata: "...)
		frames = append(frames, e...)
		frames = append(frames, "\n\n"...)
	}
	if len(frames) == 0 {
		return nil
	}
	return s.write(frames)
}
