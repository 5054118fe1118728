package hijack

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"time"

	"parley"
)

// A DetachedStream is a response that continues after its handler has returned, on a goroutine
// and with a writer of its own. See the package documentation for who owns what.
type DetachedStream struct {
	// ctx is the request's, which cancel ends; what an endpoint derives from it may end
	// sooner. unlink keeps it from ending with the handler.
	ctx    context.Context
	cancel context.CancelCauseFunc
	unlink func() bool

	conn     net.Conn
	listener *returningListener
	response *ResponseWriter
	// early is what the client has sent already behind its request.
	early []byte
	// over is closed when the response has ended, reusable set before that if the
	// connection can be used again.
	over     chan struct{}
	reusable bool
	// number is the hang-up watcher's name for it.
	number uint64
}

// Detach prepares the response to r to continue after its handler, if its connection
// can be taken and returned; otherwise it returns nil and r. The context of the
// returned request does not end with the handler's. It must come before anything is
// started that the context could end.
func Detach(r *http.Request) (*DetachedStream, *http.Request) {
	served := r.Context()
	listener, _ := served.Value(listenerKey{}).(*returningListener)
	if listener == nil || r.ProtoMajor != 1 || r.ProtoMinor == 0 || r.Close {
		return nil, r
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(served))
	s := &DetachedStream{
		ctx:      ctx,
		cancel:   cancel,
		listener: listener,
		over:     make(chan struct{}),
		unlink:   context.AfterFunc(served, func() { cancel(context.Cause(served)) }),
	}
	return s, r.WithContext(ctx)
}

// Cancel ends the stream.
func (s *DetachedStream) Cancel(cause error) { s.cancel(cause) }

// Hijack takes the connection of w from the server and returns what writes to it now;
// nil if it cannot be had. The caller must call Serve after it, and should release the
// request's body, which refers to the server's buffers.
func (s *DetachedStream) Hijack(of *Connections, w http.ResponseWriter) *ResponseWriter {
	if !of.Enter() {
		return nil
	}
	header := w.Header()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		of.Leave()
		return nil
	}
	if again, ok := conn.(*prefixedConn); ok && len(again.prefix) == 0 { // it has had a stream before
		conn = again.Conn
	}
	s.conn, s.early = conn, unread(buffered.Reader)
	s.response = &ResponseWriter{conn: conn, header: header}
	s.unlink()
	return s.response
}

// unread returns what was read from a connection and not used.
func unread(r *bufio.Reader) []byte {
	rest, _ := r.Peek(r.Buffered())
	return append([]byte(nil), rest...)
}

// Serve runs send, which writes the response and reports whether nothing that it wrote
// was lost; then it completes the response within writeWait, and runs finish. The
// connection is returned if all went well, and else closed.
func (s *DetachedStream) Serve(of *Connections, writeWait time.Duration, send func() (intact bool), finish func()) {
	defer of.Leave()
	defer of.OnStop(s.cancel)()
	defer s.watch(of)()
	defer finish()
	if send() {
		_ = s.conn.SetWriteDeadline(time.Now().Add(writeWait))
		s.reusable = s.response.end() == nil && s.ctx.Err() == nil
	}
	_ = s.conn.SetDeadline(time.Now().Add(IdleMax))
	s.cancel(nil)
}

// watch ends the stream when its client hangs up. The caller must call over when the
// response has ended.
func (s *DetachedStream) watch(of *Connections) (over func()) {
	watched := of.hangups.watch(s)
	if !watched {
		go s.await()
	}
	return func() {
		if watched {
			of.hangups.unwatch(s)
		}
		if !s.reusable {
			_ = s.conn.Close() // it may have ended in the middle of a response
		}
		close(s.over)
		if watched && s.reusable {
			go s.await()
		}
	}
}

// await waits until the client sends something or hangs up, which ends the stream if it
// is still open. Once it has ended, the connection is returned with the next request.
func (s *DetachedStream) await() {
	first := s.early
	if len(first) == 0 {
		first = make([]byte, 1)
		if _, err := s.conn.Read(first); err != nil {
			s.cancel(ClientGone(err))
			first = nil
		}
	}
	<-s.over
	if first == nil || !s.reusable {
		_ = s.conn.Close()
		return
	}
	_ = s.conn.SetDeadline(time.Time{})
	if !s.listener.take(&prefixedConn{Conn: s.conn, prefix: first}) {
		_ = s.conn.Close()
	}
}

// ClientGone is the error for a response that could not be delivered, because of err.
func ClientGone(err error) error {
	return &parley.Error{Code: parley.Cancelled, Message: "the client is gone: " + err.Error()}
}
