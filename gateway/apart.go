package gateway

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"time"

	"parley"
)

// apart is the part of a call that goes on after its handler has returned: a
// stream, on a goroutine and with a writer of its own. The server's goroutine has
// grown by all that was done for the request, and it and the buffers of the server
// would stay for as long as the stream is open: most of the memory that a stream
// takes.
type apart struct {
	call *call
	// rest is what is left to do.
	rest func() error
	// ctx is the call's, which cancel ends; what an endpoint derives from it may end
	// sooner. held lets it no longer end with the handler.
	ctx    context.Context
	cancel context.CancelCauseFunc
	held   func() bool

	conn  net.Conn
	to    *returns
	write *wireResponse
	// early is what the client has sent already behind its request.
	early []byte
	// over is closed when the answer has ended, well if the connection can be used
	// again.
	over chan struct{}
	well bool
	// number is what the departures know it by.
	number uint64
}

// loosen lets a call go on after its handler, if its connection can be had and
// given back: its context does not end with the handler's. It must come before
// anything is begun that the context could end.
func (c *call) loosen() {
	r := c.request
	to, _ := r.Context().Value(returnsKey{}).(*returns)
	if to == nil || r.ProtoMajor != 1 || r.ProtoMinor == 0 || r.Close || c.socket != nil || c.ResponseWriter == nil {
		return
	}
	served := r.Context()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(served))
	c.apart = &apart{
		call:   c,
		ctx:    ctx,
		cancel: cancel,
		to:     to,
		over:   make(chan struct{}),
		held:   context.AfterFunc(served, func() { cancel(context.Cause(served)) }),
	}
	c.request = r.WithContext(ctx)
	c.revocable(cancel)
}

// later does the rest of a call: behind its handler if it can go on there, and
// else here.
func (c *call) later(rest func() error) error {
	if c.apart == nil {
		return rest()
	}
	c.apart.rest = rest
	return nil
}

// detached does the rest of a call: behind its handler if it is a stream.
func (c *call) detached(stream bool, rest func() error) error {
	if stream {
		c.loosen()
	}
	return c.later(rest)
}

// goOn does what a handler has left to do. It reports whether that goes on by
// itself, and with it the end of the call.
func (g *Gateway) goOn(c *call) (leaves bool) {
	a := c.apart
	if a == nil || a.rest == nil {
		return false
	}
	if a.takeOver() {
		go a.run()
		return true
	}
	g.attempt(c, func(*call) error { return a.rest() })
	return false
}

// takeOver takes the connection from the server. It reports false if it cannot be
// had.
func (a *apart) takeOver() bool {
	c := a.call
	if !c.gateway.sockets.enter() {
		return false
	}
	header := c.Header()
	conn, buffered, err := http.NewResponseController(c.response).Hijack()
	if err != nil {
		c.gateway.sockets.open.Done()
		return false
	}
	if again, ok := conn.(*begun); ok && len(again.read) == 0 { // it has had a stream before
		conn = again.Conn
	}
	a.conn, a.early = conn, unread(buffered.Reader)
	a.write = &wireResponse{conn: conn, header: header}
	c.ResponseWriter = a.write
	c.request.Body = http.NoBody // it holds on to the server's buffers
	a.held()
	return true
}

// unread returns what was read from a connection and not used.
func unread(r *bufio.Reader) []byte {
	rest, _ := r.Peek(r.Buffered())
	return append([]byte(nil), rest...)
}

// run does what is left and ends the call. What goes wrong in it ends nothing
// else.
func (a *apart) run() {
	c, g := a.call, a.call.gateway
	defer g.sockets.open.Done()
	defer context.AfterFunc(g.sockets.ctx, func() { a.cancel(errStopping) })()
	defer a.attend()()
	defer func() {
		if p := recover(); p != nil {
			g.config.Log.Error("the end of a stream failed", "id", c.id, "error", parley.PanicError(p))
		}
	}()
	defer g.finish(c)
	g.attempt(c, func(*call) error { return a.rest() })
	if c.stream == nil || !c.stream.broken {
		_ = a.conn.SetWriteDeadline(time.Now().Add(c.gateway.config.WriteWaitMax))
		a.well = a.write.end() == nil && a.ctx.Err() == nil
	}
	_ = a.conn.SetDeadline(time.Now().Add(idleMax))
	a.cancel(nil)
}

// attend sees to it that the stream ends when its client leaves. The caller must call
// over when it has ended.
func (a *apart) attend() (over func()) {
	leaving := &a.call.gateway.sockets.leaving
	watched := leaving.watch(a)
	if !watched {
		go a.await()
	}
	return func() {
		if watched {
			leaving.unwatch(a)
		}
		if !a.well {
			_ = a.conn.Close() // nobody knows where in an answer it is
		}
		close(a.over)
		if watched && a.well {
			go a.await()
		}
	}
}

// await waits until the client sends something or leaves, which ends the stream if
// that has not ended. Once it has, the connection is given back with the next
// request.
func (a *apart) await() {
	first := a.early
	if len(first) == 0 {
		first = make([]byte, 1)
		if _, err := a.conn.Read(first); err != nil {
			a.cancel(clientGone(err))
			first = nil
		}
	}
	<-a.over
	if first == nil || !a.well {
		_ = a.conn.Close()
		return
	}
	_ = a.conn.SetDeadline(time.Time{})
	if !a.to.take(&begun{Conn: a.conn, read: first}) {
		_ = a.conn.Close()
	}
}
