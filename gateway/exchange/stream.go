package exchange

import (
	"io"
	"net/http"
	"sync"
	"time"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/hijack"
	"parley/gateway/openai"
)

// A Shape makes the events of one endpoint's streams.
type Shape interface {
	// Opening is the first event of a choice, or nil if there is none.
	Opening(choice int) any
	// Content carries what was added: thoughts, then text, then calls.
	Content(p answer.Piece) any
	// Closing says why a choice ended. Timings, if any, go with the stream's
	// last event.
	Closing(choice int, finish parley.Finish, timings *openai.Timings) any
	// Usage is the last event if the client asked for it.
	Usage(u openai.Usage, timings *openai.Timings) any
}

// An EventStream writes server-sent events: unnamed, each flushed as it is written. To
// clients of Ollama's interface it writes lines instead, each one JSON.
type EventStream struct {
	exchange *Exchange
	// to is set with the first write: the exchange may be detached before it.
	to    flusher
	lines bool
	// opened has the choices of which the first event was sent.
	opened []bool
	// lastClosing waits for the timings that come with the usage.
	lastClosing *answer.Piece
	// unfinished counts the choices that have not ended.
	unfinished int
	// extendAt is when a write must be given more time.
	extendAt time.Time
	// Broken is true once a write failed: nothing more arrives.
	Broken bool
}

// frameRoom is where frames are put together, which a writer copies.
var frameRoom = sync.Pool{New: func() any { return new([]byte) }}

// frameRoomMax is how large room for a frame may be that is kept.
const frameRoomMax = 16 << 10

func keepFrame(room *[]byte) {
	if cap(*room) <= frameRoomMax {
		frameRoom.Put(room)
	}
}

// A finalShape has a last event that says so, after which nothing comes.
type finalShape interface{ EndsItself() }

// A textShape knows what an event looks like that adds nothing but text, and so
// need not make each from its parts. It appends the event as the stream's bytes;
// ok is false for pieces that it must make as any other.
type textShape interface {
	TextEvent(to []byte, p *answer.Piece) (frame []byte, ok bool)
}

// NewEventStream returns a stream of events for an answer of several choices.
func NewEventStream(x *Exchange, choices int) *EventStream {
	return &EventStream{
		exchange:   x,
		lines:      IsOllama(x.Request.URL.Path),
		opened:     make([]bool, max(choices, 1)),
		unfinished: choices,
	}
}

// A flusher sends what was written, within a time.
type flusher interface {
	io.Writer
	FlushError() error
	SetWriteDeadline(time.Time) error
}

// flusherOf returns that of a call, which is looked for once and not at each event.
func flusherOf(x *Exchange) flusher {
	if to, ok := x.ResponseWriter.(*hijack.ResponseWriter); ok {
		return to
	}
	return controlFlusher{x.Response, http.NewResponseController(x.Response)}
}

type controlFlusher struct {
	io.Writer
	*http.ResponseController
}

// FlushError sends what was written.
func (c controlFlusher) FlushError() error { return c.Flush() }

// StreamAnswer sends a as events in the given shape. The status goes out with the
// first event, so an error that comes before it still has its own.
func (x *Exchange) StreamAnswer(a *answer.Answer, form Shape, includeUsage bool) error {
	s := NewEventStream(x, len(a.Choices))
	ping := s.Ping
	if x.Frame != nil { // a WebSocket has pings of its own
		ping = nil
	}
	err := a.Each(x.Request.Context(), x.KeepAlive(ping), func(pieces []answer.Piece) error {
		return s.SendPieces(pieces, form)
	})
	if err != nil {
		return err
	}
	return s.End(a.Usage, form, includeUsage)
}

// Deliver sends an answer as SendAnswer does, after the handler if the exchange was
// detached, and then stops it.
func (x *Exchange) Deliver(
	a *answer.Answer, stop func(), stream func() error, whole func([]answer.CollectedChoice) any,
) error {
	x.Bytes.Release() // what is left of the body fits the context
	return x.Rest(func() error {
		defer stop()
		return x.SendAnswer(a, stream, whole)
	})
}

// SendAnswer sends an answer as stream does or, if that is nil, as the document that
// whole makes of it.
func (x *Exchange) SendAnswer(
	a *answer.Answer, stream func() error, whole func([]answer.CollectedChoice) any,
) error {
	if stream != nil {
		return stream()
	}
	choices, err := a.Collect(x.Request.Context())
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, whole(choices))
}

// AsEvents returns what streams an answer in the given shape; nil if it is not to be.
func (x *Exchange) AsEvents(stream bool, a *answer.Answer, form Shape, includeUsage bool) func() error {
	if !stream {
		return nil
	}
	return func() error { return x.StreamAnswer(a, form, includeUsage) }
}

// KeepAlive has ping called while nothing is written for too long; nil sends nothing.
func (x *Exchange) KeepAlive(ping func() error) answer.KeepAlive {
	return answer.KeepAlive{Every: x.Server.KeepAlive, Ping: ping}
}

// IsOpen reports whether events of the first choice were sent.
func (s *EventStream) IsOpen() bool { return s.opened[0] }

// SendPieces sends pieces of an answer as events.
func (s *EventStream) SendPieces(pieces []answer.Piece, form Shape) error {
	for i := range pieces {
		if err := s.sendPiece(&pieces[i], form); err != nil {
			return err
		}
	}
	return nil
}

func (s *EventStream) sendPiece(p *answer.Piece, form Shape) error {
	if !s.opened[p.Choice] {
		s.opened[p.Choice] = true
		if err := s.send(form.Opening(p.Choice)); err != nil {
			return err
		}
	}
	if quick, ok := form.(textShape); ok && p.IsText() && s.exchange.Frame == nil {
		room := frameRoom.Get().(*[]byte)
		defer keepFrame(room)
		if *room, ok = quick.TextEvent((*room)[:0], p); ok {
			return s.write(*room)
		}
	}
	if p.Reasoning != "" || p.Text != "" || len(p.Calls) > 0 || len(p.Tokens) > 0 || p.Progress != nil {
		if err := s.send(form.Content(*p)); err != nil {
			return err
		}
	}
	if p.Finish == "" {
		return nil
	}
	if s.unfinished--; s.unfinished == 0 {
		s.lastClosing = new(*p)
		return nil
	}
	return s.send(form.Closing(p.Choice, p.Finish, nil))
}

// End sends what closes a stream that went well.
func (s *EventStream) End(u parley.Usage, form Shape, includeUsage bool) error {
	return s.EndWith(openai.UsageOf(u), s.exchange.Record.Timings(u), form, includeUsage)
}

// EndWith sends what closes a stream, with the given usage and timings.
func (s *EventStream) EndWith(u openai.Usage, timings *openai.Timings, form Shape, includeUsage bool) error {
	last := s.lastClosing
	var events []any
	if includeUsage {
		events = []any{form.Closing(last.Choice, last.Finish, nil), form.Usage(u, timings)}
	} else {
		events = []any{form.Closing(last.Choice, last.Finish, timings)}
	}
	for _, e := range events {
		if err := s.send(e); err != nil {
			return err
		}
	}
	if _, ends := form.(finalShape); ends || s.lines {
		return nil
	}
	return s.frame([]byte("[DONE]"))
}

// Ping keeps a silent connection open, and reports the position in the queue. In lines a space stands before the next
// object.
func (s *EventStream) Ping() error {
	if s.lines {
		return s.write([]byte(" "))
	}
	if where := s.exchange.Record.Waiter().Status(); where.Waiting {
		return s.write(where.Comment())
	}
	return s.write([]byte(": ping\n\n"))
}

// send writes one event, if it is not nil.
func (s *EventStream) send(event any) error {
	if event == nil {
		return nil
	}
	body, err := openai.Encode(event)
	if err != nil {
		return err
	}
	return s.frame(body)
}

// frame writes one event as a WebSocket's frame, a line or a stream's.
func (s *EventStream) frame(body []byte) error {
	if s.exchange.Frame != nil {
		return s.exchange.Frame(body)
	}
	room := frameRoom.Get().(*[]byte)
	defer keepFrame(room)
	if s.lines {
		*room = append(append((*room)[:0], body...), '\n')
	} else {
		*room = append(append(append((*room)[:0], "data: "...), body...), "\n\n"...)
	}
	return s.write(*room)
}

// write sends bytes at once, after the headers if they were not sent yet. A
// client that does not read them in time is taken for gone.
func (s *EventStream) write(frame []byte) error {
	begun, first := time.Now(), false
	if s.to == nil {
		s.to, first = flusherOf(s.exchange), s.exchange.Stream == nil
	}
	s.extend(begun)
	if first {
		s.exchange.Stream = s
		s.begin()
	}
	_, err := s.to.Write(frame)
	if err == nil {
		err = s.to.FlushError()
	}
	if first {
		s.exchange.Record.Wrote(time.Since(begun))
	}
	if err != nil {
		s.Broken = true
		return hijack.ClientGone(err)
	}
	return nil
}

// extend sees to it that a write may take nearly as long as it may. Setting a
// deadline costs about as much as making an event, so not every write does.
func (s *EventStream) extend(now time.Time) {
	if !now.Before(s.extendAt) {
		most := s.exchange.Server.WriteWaitMax
		s.extendAt = now.Add(most / 8)
		_ = s.to.SetWriteDeadline(now.Add(most)) // not every connection has one
	}
}

// Release takes the deadline from the connection: others will write on it.
func (s *EventStream) Release() { _ = s.to.SetWriteDeadline(time.Time{}) }

func (s *EventStream) begin() {
	h := s.exchange.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	if s.lines {
		h.Set("Content-Type", "application/x-ndjson")
	}
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // nginx would collect events
	h.Set("X-Content-Type-Options", "nosniff")
	s.exchange.tellWait()
	s.exchange.WriteHeader(http.StatusOK)
}

// fail sends an error as the last event, if the client is left to read it.
// Clients throw on it.
func (s *EventStream) fail(body any) {
	if !s.Broken && !s.exchange.left() {
		_ = s.send(body) // the error is already kept; this one is not kept
	}
}

// SendNamed writes events with their names, in one go.
func (s *EventStream) SendNamed(events []openai.MessageEvent) error {
	room := frameRoom.Get().(*[]byte)
	defer keepFrame(room)
	*room = (*room)[:0]
	for i := range events {
		body, err := openai.Encode(&events[i])
		if err != nil {
			return err
		}
		*room = appendNamed(*room, events[i].Type, body)
	}
	return s.writeAny(*room)
}

// writeAny writes frames, if there are any.
func (s *EventStream) writeAny(frames []byte) error {
	if len(frames) == 0 {
		return nil
	}
	return s.write(frames)
}

func appendNamed(frames []byte, name string, body []byte) []byte {
	frames = append(append(frames, "event: "...), name...)
	frames = append(append(frames, "\ndata: "...), body...)
	return append(frames, "\n\n"...)
}
