package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"parley"
	"parley/gateway/hijack"
	"parley/gateway/openai"
	"parley/gateway/revoke"

	"github.com/coder/websocket"
)

// socketProtocols are what may be agreed on with a client. None means anything
// here; but pages, which hand over their key as a protocol, want one to be chosen.
var socketProtocols = []string{"realtime", "parley"}

// A socket is one WebSocket connection. Requests come as frames and are
// answered one after the other; the frames of an answer go out in order. Its handler
// has returned: while nothing is answered it has one goroutine, which reads.
type socket struct {
	gateway *Gateway
	// opened is the call that opened the connection.
	opened *call
	wire   net.Conn
	conn   *websocket.Conn
	// ctx ends with the connection, and with it whatever is being answered.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// key is whose connection it is.
	key    string
	handle frameHandler
	// failed makes the frame that reports an error.
	failed func(openai.ErrorDetail) any
	frames frameQueue
	// helpers are the goroutines beside the one that reads.
	helpers sync.WaitGroup
	pings   *time.Timer
}

// A frameHandler answers one request that came as a frame. What it returns is
// told to the client as an error.
type frameHandler func(c *call, s *socket, frame []byte) error

// converseBy answers every frame of a connection with handle, after the handler of the
// call has returned; failed makes the frame that reports an error.
func (g *Gateway) converseBy(c *call, handle frameHandler, failed func(openai.ErrorDetail) any) error {
	if c.IsCrossOrigin(g.originAllowed) {
		return parley.Errorf(parley.Forbidden,
			"Pages of %s may not connect to this server. Its operator can allow them.",
			cmp.Or(c.Request.Header.Get("Origin"), "other sites"))
	}
	key := c.Identity.KeyAccount()
	if err := g.sockets.enterFor(key, g.config.SocketsPerKey); err != nil {
		return err
	}
	defer func() {
		if c.converse == nil {
			g.sockets.leaveFor(key)
		}
	}()
	// not every connection has one
	_ = http.NewResponseController(c.Response).SetReadDeadline(time.Time{})
	w := hijack.NewUpgrade(c.Response)
	// the origin was checked above
	conn, err := websocket.Accept(w, c.Request,
		&websocket.AcceptOptions{InsecureSkipVerify: true, Subprotocols: socketProtocols})
	if err != nil {
		c.Record.Fail(parley.Invalid("", "no WebSocket: %v", err)) // the client was told
		return nil
	}
	conn.SetReadLimit(g.config.BodyBytesMax)
	s := &socket{
		gateway: g,
		opened:  c,
		wire:    w.Conn,
		conn:    conn,
		key:     key,
		handle:  handle,
		failed:  failed,
	}
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(c.Request.Context()))
	c.job.Revocable(s.ctx, s.cancel)
	c.honourCacheControl()
	c.Request.Header.Del("Idempotency-Key") // it is for one request
	// The originals keep the buffers of the HTTP server alive, and the response has been sent. The requests of all
	// frames are this one.
	c.Request = c.Request.WithContext(s.ctx)
	c.ResponseWriter, c.Request.Body = &memoryResponse{header: http.Header{}}, http.NoBody
	c.converse = s.serve
	return nil
}

// serve answers frames until the connection ends or the server stops.
func (s *socket) serve() {
	g := s.gateway
	defer g.finishDetached(s.opened)
	defer g.sockets.leaveFor(s.key)
	defer g.sockets.connections.OnStop(s.cancel)()
	defer g.sockets.connections.OnEnding(s.drain)()
	cancelled := context.AfterFunc(s.ctx, s.hangUpByCause)
	s.pings = time.AfterFunc(time.Hour, s.ping)
	s.pings.Reset(g.config.KeepAlive) // from here on ping may use it
	err := s.read()
	cancelled()
	s.cancel(hijack.ClientGone(err))
	s.pings.Stop()
	s.helpers.Wait()
	_ = s.conn.CloseNow() // it may be closed
	s.frames.forget()
}

// closeWait is how long a client may take to agree that the connection ends.
const closeWait = time.Second

// hangUp ends the connection from this side. Reading then fails.
func (s *socket) hangUp(status websocket.StatusCode, why string) {
	_ = s.wire.SetDeadline(time.Now().Add(closeWait))       // not every connection has one
	_ = s.conn.Close(status, prefixOf(why, closeReasonMax)) // whether the client agrees does not matter
}

// hangUpByCause ends the connection because its context has ended. If its key was deleted or blocked, the client
// gets the reason.
func (s *socket) hangUpByCause() {
	cause := context.Cause(s.ctx)
	if e, ok := errors.AsType[*parley.Error](cause); ok && errors.Is(cause, revoke.ErrRevoked) {
		s.hangUp(websocket.StatusPolicyViolation, e.Message)
		return
	}
	s.hangUp(websocket.StatusGoingAway, "the connection has ended")
}

const shuttingDown = "the server is shutting down"

// drain ends the connection after the answer that is being written, if there is one.
func (s *socket) drain() {
	if idle := s.frames.end(); idle {
		s.hangUp(websocket.StatusGoingAway, shuttingDown)
	}
}

// answerFrames answers the frames that wait. The stream of an answer continues on a
// goroutine of its own, whose stack has not grown with the work before it.
func (s *socket) answerFrames() {
	for s.ctx.Err() == nil {
		f, ok := s.frames.next()
		if !ok {
			if s.frames.isEnded() {
				s.hangUp(websocket.StatusGoingAway, shuttingDown)
			}
			return
		}
		one := s.newCall(f)
		err := one.guarded(func(c *call) error { return s.begin(c, f.body) })
		if one.rest == nil {
			s.finish(one, err)
			continue
		}
		s.helpers.Go(func() {
			s.finish(one, one.guarded(func(c *call) error { return c.rest() }))
			s.answerFrames()
		})
		return
	}
}

// newCall makes a call of its own of one request, with its own id, metrics and line in the log.
func (s *socket) newCall(f frame) *call {
	g, c := s.gateway, s.opened
	one := &call{Exchange: c.Alone(s.ctx, c.Record.Continue()), gateway: g, access: c.access}
	one.Suffix = randomSuffix()
	one.Record.ID, one.Record.Started = "req_"+one.Suffix, g.config.Now()
	one.ResponseWriter = &memoryResponse{header: http.Header{}} // frames have no headers
	one.Frame, one.Bytes = s.write, f.held
	one.Hooks.Rest = one.runDetached
	one.job = c.job.Again(one.Record, one.hooks())
	one.Record.Infer()
	return one
}

// begin does what comes before the stream of an answer.
func (s *socket) begin(c *call, body []byte) (err error) {
	if s.gateway.draining.Load() {
		return errShuttingDown
	}
	who, err := s.gateway.who(c)
	if c.Identify(who); err != nil { // the key may have been blocked since
		return err
	}
	if err := c.job.TakeSlot(c.Request.Context(), false); err != nil {
		return err
	}
	if err := c.countEndUser(body); err != nil {
		return err
	}
	return s.handle(c, s, body)
}

// finish ends a call that one frame made, and reports err to the client, if it is not nil.
func (s *socket) finish(one *call, err error) {
	defer s.gateway.finishDetached(one)
	if err == nil {
		return
	}
	one.Record.Fail(err)
	if s.ctx.Err() != nil {
		return
	}
	if body, err := openai.Encode(s.failed(openai.Describe(err, one.Record.ID).Body.Error)); err == nil {
		_ = s.write(body) // a failure ends the connection
	}
}

// read takes frames off the connection until it ends. It continues while one is answered,
// so that a client that leaves is noticed. A panic ends this connection alone: no HTTP
// server recovers it.
func (s *socket) read() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = parley.PanicError(p)
			s.gateway.config.Log.Error("reading from a WebSocket failed", "id", s.opened.Record.ID, "error", err)
		}
	}()
	for {
		kind, from, err := s.conn.Reader(context.Background()) // hangUp ends it
		if err != nil {
			return err
		}
		if kind != websocket.MessageText {
			_ = s.conn.Close(websocket.StatusUnsupportedData, "send JSON as text")
			continue
		}
		f, err := s.readFrame(from)
		if e, ok := errors.AsType[*parley.Error](err); ok {
			_ = s.conn.Close(websocket.StatusTryAgainLater, prefixOf(e.Message, closeReasonMax))
			continue
		}
		if err != nil {
			return err
		}
		first, ok := s.frames.add(f)
		if first {
			s.helpers.Go(s.answerFrames)
		}
		if !ok {
			_ = s.conn.Close(websocket.StatusPolicyViolation, "too many requests wait for their answer")
		}
	}
}

const (
	// smallFrame is how much of a frame is read before its bytes are taken of what
	// may be in memory: its length is not known before.
	smallFrame = 64 << 10
	// closeReasonMax bounds the reason of a close frame, by the protocol.
	closeReasonMax = 120
)

func prefixOf(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// readFrame reads a frame. One that is not small waits until the key's requests
// leave room for as much as a frame may have.
func (s *socket) readFrame(from io.Reader) (f frame, err error) {
	bodies := s.gateway.exchanges.Bodies
	first, err := io.ReadAll(io.LimitReader(from, smallFrame))
	if err != nil {
		return f, err
	}
	most := int64(len(first))
	if most == smallFrame {
		most = s.gateway.config.BodyBytesMax
	}
	if f.held, err = bodies.Take(s.ctx, s.key, most); err != nil {
		return f, err
	}
	rest, err := io.ReadAll(from)
	if err != nil {
		f.held.Release()
		return f, err
	}
	f.body = append(first, rest...)
	f.held.Shrink(int64(len(f.body)))
	return f, nil
}

// ping finds connections whose other end is gone without a word. It is called at
// intervals, by a timer.
func (s *socket) ping() {
	ctx, cancel := context.WithTimeout(s.ctx, s.gateway.config.WriteWaitMax)
	defer cancel()
	if err := s.conn.Ping(ctx); err != nil {
		s.cancel(hijack.ClientGone(err))
		return
	}
	s.pings.Reset(s.gateway.config.KeepAlive)
}

// write sends one frame. A client that does not take it in time is left. The limit is one of the connection: a context
// for each frame would cost more than the frame. hangUp sets a shorter one, after ctx has ended.
func (s *socket) write(frame []byte) error {
	err := s.wire.SetWriteDeadline(time.Now().Add(s.gateway.config.WriteWaitMax))
	if err == nil {
		err = context.Cause(s.ctx)
	}
	if err == nil {
		err = s.conn.Write(context.Background(), websocket.MessageText, frame)
	}
	if err != nil {
		s.cancel(hijack.ClientGone(err))
		return hijack.ClientGone(err)
	}
	if s.ctx.Err() == nil {
		_ = s.wire.SetWriteDeadline(time.Time{}) // the next that writes may be a pong
	}
	return nil
}

// An eventSocket sends the events of a response as frames. Its connection is
// kept open by pings of its own.
type eventSocket struct{ *socket }

func (eventSocket) Ping() error { return nil }

func (s eventSocket) Send(events []json.RawMessage) error {
	for _, e := range events {
		if err := s.write(e); err != nil {
			return err
		}
	}
	return nil
}
