package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"parley"
	"parley/gateway/exchange"
	"parley/gateway/hijack"
	"parley/gateway/openai"

	"github.com/coder/websocket"
)

// framesWaiting is how many requests may wait on one connection while another
// is answered.
const framesWaiting = 8

// socketProtocols are what may be agreed on with a client. None means anything
// here; but pages, which hand over their key as a protocol, want one to be chosen.
var socketProtocols = []string{"realtime", "parley"}

// A socket is one WebSocket connection. Requests come as frames and are
// answered one after the other; the frames of an answer go out in order.
type socket struct {
	gateway *Gateway
	conn    *websocket.Conn
	// ctx ends with the connection, and with it whatever is being answered.
	ctx    context.Context
	cancel context.CancelCauseFunc
	frames chan frame
	// key is whose connection it is.
	key string
}

// A frame is a request that came over a WebSocket, with the bytes it holds.
type frame struct {
	body []byte
	held *exchange.BodyBytes
}

// A frameHandler answers one request that came as a frame. What it returns is
// told to the client as an error.
type frameHandler func(c *call, s *socket, frame []byte) error

// converseBy answers every frame of a connection with handle; failed makes the
// frame that reports an error.
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
	defer g.sockets.leaveFor(key)
	// not every connection has one
	_ = http.NewResponseController(c.Response).SetReadDeadline(time.Time{})
	// the origin was checked above
	conn, err := websocket.Accept(c.Response, c.Request,
		&websocket.AcceptOptions{InsecureSkipVerify: true, Subprotocols: socketProtocols})
	if err != nil {
		c.Record.Fail(parley.Invalid("", "no WebSocket: %v", err)) // the client was told
		return nil
	}
	conn.SetReadLimit(g.config.BodyBytesMax)
	s := &socket{gateway: g, conn: conn, key: key, frames: make(chan frame, framesWaiting)}
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(c.Request.Context()))
	c.job.Revocable(s.ctx, s.cancel)
	c.honourCacheControl()
	defer g.sockets.connections.OnStop(s.cancel)()
	var helpers sync.WaitGroup
	helpers.Go(s.read)
	helpers.Go(s.keepAlive)
	code, why := s.serve(c, handle, failed)
	_ = conn.Close(code, why) // whether the client says goodbye, too, does not matter
	s.cancel(nil)
	helpers.Wait()
	s.forget()
	return nil
}

// forget lets go of requests that nothing will answer any more.
func (s *socket) forget() {
	for {
		select {
		case f := <-s.frames:
			f.held.Release()
		default:
			return
		}
	}
}

// serve answers frames until the connection ends or the server stops.
func (s *socket) serve(c *call, handle frameHandler,
	failed func(openai.ErrorDetail) any) (websocket.StatusCode, string) {
	for {
		select {
		case <-s.ctx.Done():
			return websocket.StatusGoingAway, "the connection has ended"
		case <-s.gateway.sockets.connections.Ending():
			return websocket.StatusGoingAway, "the server is shutting down"
		case f := <-s.frames:
			if err := s.answer(c, f, handle, failed); err != nil {
				return websocket.StatusGoingAway, "the client does not read"
			}
		}
	}
}

// answer runs one request as a call of its own, with its own id, metrics and
// line in the log.
func (s *socket) answer(c *call, f frame, handle frameHandler, failed func(openai.ErrorDetail) any) error {
	g := s.gateway
	one := call{Exchange: c.Alone(s.ctx, c.Record.Continue()), gateway: g, access: c.access}
	one.Suffix = randomSuffix()
	one.Record.ID, one.Record.Started = "req_"+one.Suffix, g.config.Now()
	one.Response.ResponseWriter = &memoryResponse{header: http.Header{}} // headers have nowhere to go
	one.Request.Header = c.Request.Header.Clone()
	one.Request.Header.Del("Idempotency-Key") // it was for the connection
	one.Frame, one.Bytes = s.write, f.held
	one.job = c.job.Again(one.Record, one.hooks())
	one.Record.Infer()
	defer g.finish(&one)
	err := one.guarded(func(c *call) error {
		if g.draining.Load() {
			return errShuttingDown
		}
		var err error
		if c.Identity, err = g.who(c); err != nil { // the key may have been blocked since
			return err
		}
		if err := c.job.TakeSlot(c.Request.Context(), false); err != nil {
			return err
		}
		if err := c.countEndUser(f.body); err != nil {
			return err
		}
		return handle(c, s, f.body)
	})
	if err == nil {
		return nil
	}
	one.Record.Fail(err)
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	body, err := openai.Encode(failed(openai.Describe(err, one.Record.ID).Body.Error))
	if err != nil {
		return err
	}
	return s.write(body)
}

// read takes frames off the connection. It continues while one is answered, so
// that a client that leaves is noticed.
func (s *socket) read() {
	for {
		kind, from, err := s.conn.Reader(s.ctx)
		if err != nil {
			s.cancel(hijack.ClientGone(err))
			return
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
			s.cancel(hijack.ClientGone(err))
			return
		}
		select {
		case s.frames <- f:
		default:
			f.held.Release()
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

// keepAlive finds connections whose other end is gone without a word.
func (s *socket) keepAlive() {
	tick := time.NewTicker(s.gateway.config.KeepAlive)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(s.ctx, s.gateway.config.WriteWaitMax)
		err := s.conn.Ping(ctx)
		cancel()
		if err != nil {
			s.cancel(hijack.ClientGone(err))
			return
		}
	}
}

// write sends one frame. A client that does not take it in time is left.
func (s *socket) write(frame []byte) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.gateway.config.WriteWaitMax)
	defer cancel()
	if err := s.conn.Write(ctx, websocket.MessageText, frame); err != nil {
		s.cancel(hijack.ClientGone(err))
		return hijack.ClientGone(err)
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
