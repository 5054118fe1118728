package gateway

import (
	"net/http"
	"time"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/hijack"
	"parley/gateway/openai"
)

// A shape makes the events of one endpoint's streams.
type shape interface {
	// opening is the first event of a choice, or nil if there is none.
	opening(choice int) any
	// content carries what was added: thoughts, then text, then calls.
	content(p answer.Piece) any
	// closing says why a choice ended. Timings, if any, go with the stream's
	// last event.
	closing(choice int, finish parley.Finish, timings *openai.Timings) any
	// usage is the last event if the client asked for it.
	usage(u openai.Usage, timings *openai.Timings) any
}

// A stream writes server-sent events: unnamed, each flushed as it is written.
type stream struct {
	call    *call
	control flusher
	// opened tells for which choices the first event was sent.
	opened map[int]bool
	// lastClosing waits for the timings that come with the usage.
	lastClosing *answer.Piece
	// unfinished counts the choices that have not ended.
	unfinished int
	// deadline is until when the next write may take; wrote is when the last was.
	deadline, wrote time.Time
	// broken is true once a write failed: nothing more arrives.
	broken bool
	// room is where frames are put together.
	room []byte
}

// A textShape knows what an event looks like that adds nothing but text, and so
// need not make each from its parts. It appends the event as the stream's bytes;
// ok is false for pieces that it must make as any other.
type textShape interface {
	textEvent(to []byte, p *answer.Piece) (frame []byte, ok bool)
}

func newStream(c *call, choices int) *stream {
	return &stream{call: c, control: flusherOf(c), opened: map[int]bool{}, unfinished: choices}
}

// A flusher sends what was written, within a time.
type flusher interface {
	FlushError() error
	SetWriteDeadline(time.Time) error
}

// flusherOf returns that of a call, which is looked for once and not at each event.
func flusherOf(c *call) flusher {
	if to, ok := c.ResponseWriter.(*hijack.ResponseWriter); ok {
		return to
	}
	return controlled{http.NewResponseController(c.response)}
}

type controlled struct{ *http.ResponseController }

// FlushError sends what was written.
func (c controlled) FlushError() error { return c.Flush() }

// streamAnswer sends a as events in the given shape. The status goes out with the
// first event, so an error that comes before it still has its own.
func (c *call) streamAnswer(a *answer.Answer, form shape, includeUsage bool) error {
	s := newStream(c, len(a.Choices))
	err := a.Each(c.request.Context(), c.keepAlive(s.ping), func(pieces []answer.Piece) error {
		return s.sendPieces(pieces, form)
	})
	if err != nil {
		return err
	}
	return s.end(a.Usage, form, includeUsage)
}

// keepAlive has ping called while nothing is written for too long.
func (c *call) keepAlive(ping func() error) answer.KeepAlive {
	return answer.KeepAlive{Every: c.gateway.config.KeepAlive, Ping: ping}
}

func (s *stream) sendPieces(pieces []answer.Piece, form shape) error {
	for i := range pieces {
		if err := s.sendPiece(&pieces[i], form); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) sendPiece(p *answer.Piece, form shape) error {
	if !s.opened[p.Choice] {
		s.opened[p.Choice] = true
		if err := s.send(form.opening(p.Choice)); err != nil {
			return err
		}
	}
	if quick, ok := form.(textShape); ok && p.IsText() && s.call.socket == nil {
		if frame, ok := quick.textEvent(s.room[:0], p); ok {
			s.room = frame
			return s.write(frame)
		}
	}
	if p.Reasoning != "" || p.Text != "" || len(p.Calls) > 0 || len(p.Tokens) > 0 || p.Progress != nil {
		if err := s.send(form.content(*p)); err != nil {
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
	return s.send(form.closing(p.Choice, p.Finish, nil))
}

// end sends what closes a stream that went well.
func (s *stream) end(u parley.Usage, form shape, includeUsage bool) error {
	return s.endWith(openai.UsageOf(u), s.call.record.Timings(u), form, includeUsage)
}

func (s *stream) endWith(u openai.Usage, timings *openai.Timings, form shape, includeUsage bool) error {
	last := s.lastClosing
	var events []any
	if includeUsage {
		events = []any{form.closing(last.Choice, last.Finish, nil), form.usage(u, timings)}
	} else {
		events = []any{form.closing(last.Choice, last.Finish, timings)}
	}
	for _, e := range events {
		if err := s.send(e); err != nil {
			return err
		}
	}
	return s.frame([]byte("[DONE]"))
}

// ping keeps a silent connection open, and tells who waits where it stands. A
// WebSocket has pings of its own.
func (s *stream) ping() error {
	if s.call.socket != nil {
		return nil
	}
	if where := s.call.record.Waiter().Status(); where.Waiting {
		return s.write(where.Comment())
	}
	return s.write([]byte(": ping\n\n"))
}

// send writes one event; nil is none.
func (s *stream) send(event any) error {
	if event == nil {
		return nil
	}
	body, err := openai.Encode(event)
	if err != nil {
		return err
	}
	return s.frame(body)
}

// frame writes one event as a WebSocket's frame or a stream's.
func (s *stream) frame(body []byte) error {
	if s.call.socket != nil {
		return s.call.socket.write(body)
	}
	s.room = append(append(append(s.room[:0], "data: "...), body...), "\n\n"...)
	return s.write(s.room)
}

// write sends bytes at once, after the headers if they were not sent yet. A
// client that does not read them in time is taken for gone.
func (s *stream) write(frame []byte) error {
	begun, first := time.Now(), s.call.stream == nil
	s.wrote = begun
	s.extend(begun)
	if first {
		s.call.stream = s
		s.begin()
	}
	_, err := s.call.Write(frame)
	if err == nil {
		err = s.control.FlushError()
	}
	if first {
		s.call.record.Wrote(time.Since(begun))
	}
	if err != nil {
		s.broken = true
		return hijack.ClientGone(err)
	}
	return nil
}

// extend sees to it that a write may take nearly as long as it may. Setting a
// deadline costs about as much as making an event, so not every write does.
func (s *stream) extend(now time.Time) {
	if most := s.call.gateway.config.WriteWaitMax; s.deadline.Sub(now) < most*7/8 {
		s.deadline = now.Add(most)
		_ = s.control.SetWriteDeadline(s.deadline) // not every connection has one
	}
}

// release takes the deadline from the connection: others will write on it.
func (s *stream) release() { _ = s.control.SetWriteDeadline(time.Time{}) }

func (s *stream) begin() {
	h := s.call.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // nginx would collect events
	h.Set("X-Content-Type-Options", "nosniff")
	s.call.tellWait()
	s.call.WriteHeader(http.StatusOK)
}

// fail sends an error as the last event, if anybody is left to read it.
// Clients throw on it.
func (s *stream) fail(body openai.ErrorBody) {
	if !s.broken && !s.call.left() {
		_ = s.send(body) // the error is already kept; nobody else wants this one
	}
}
