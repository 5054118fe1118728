package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"parley"
)

// A Server answers requests of the wire with a worker. Connections that speak the
// wire are no longer the HTTP server's: they end with [Server.Shutdown] or
// [Server.Close].
type Server struct {
	// To is the worker. Log gets what clients do not; nil discards it.
	To  parley.Worker
	Log *slog.Logger
	// Traced is told of each answer that belongs to a trace which is kept; nil for
	// no listener. It must not wait.
	Traced func(Answer)

	mu      sync.Mutex
	conns   map[*serverConn]struct{}
	closing bool
	open    sync.WaitGroup
}

// A serverConn is a connection on which a client has requests answered.
type serverConn struct {
	server *Server
	conn   net.Conn
	out    outbox
	// answers are those under way, by the ids of their requests, guarded by the
	// server.
	answers map[uint64]*serverRequest
	working sync.WaitGroup
}

// A serverRequest is a request under way.
type serverRequest struct {
	id     uint64
	conn   *serverConn
	window *credit
	stay   timing
	cancel context.CancelCauseFunc
	// withdrawal is asked when the client wants the request back.
	withdrawal parley.Withdrawal
}

// answersMax bounds the requests of one connection.
const answersMax = 1 << 16

// Serve makes a connection of HTTP/1.1 one of the wire, and returns when the
// client has left. An error is one that the client can still be told of.
func (d *Server) Serve(w http.ResponseWriter, r *http.Request) error {
	if r.Header.Get("Upgrade") != Protocol || r.ProtoMajor != 1 {
		return &parley.Error{Code: parley.InvalidRequest,
			Message: fmt.Sprintf("this route needs HTTP/1.1 and the headers 'Connection: Upgrade' and 'Upgrade: %s', "+
				"and got %s with 'Upgrade: %s'", Protocol, r.Proto, r.Header.Get("Upgrade"))}
	}
	control := http.NewResponseController(w)
	conn, buffered, err := control.Hijack()
	if err != nil {
		return parley.Errorf(parley.InvalidRequest, "this connection cannot be upgraded: %v", err)
	}
	v := &serverConn{server: d, conn: conn, out: outbox{to: conn}, answers: map[uint64]*serverRequest{}}
	if !d.enter(v) {
		return errors.Join(conn.Close(), nil)
	}
	defer d.leave(v)
	_ = conn.SetDeadline(time.Time{}) // the server's own no longer holds
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
		Protocol); err != nil {
		return nil // the client has left
	}
	v.listen(r.Context(), buffered.Reader)
	return nil
}

func (d *Server) enter(v *serverConn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return false
	}
	if d.conns == nil {
		d.conns = map[*serverConn]struct{}{}
	}
	d.conns[v] = struct{}{}
	d.open.Add(1)
	return true
}

func (d *Server) leave(v *serverConn) {
	_ = v.conn.Close()
	d.mu.Lock()
	delete(d.conns, v)
	d.mu.Unlock()
	d.open.Done()
}

// Shutdown lets answers that are under way end and closes all connections. It
// returns early with the error of ctx if that ends before.
func (d *Server) Shutdown(ctx context.Context) error {
	d.mu.Lock()
	d.closing = true
	for v := range d.conns {
		if len(v.answers) == 0 {
			v.part()
		}
	}
	d.mu.Unlock()
	closed := make(chan struct{})
	go func() { d.open.Wait(); close(closed) }()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		d.end()
		<-closed
		return ctx.Err()
	}
}

// Close breaks all answers off.
func (d *Server) Close() {
	d.end()
	d.open.Wait()
}

func (d *Server) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closing = true
	for v := range d.conns {
		_ = v.conn.Close()
	}
}

// begin notes that a connection has a request more, or says why it must not.
func (d *Server) begin(a *serverRequest) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch v := a.conn; {
	case d.closing:
		return parley.Errorf(parley.Unavailable, "this worker is shutting down")
	case len(v.answers) >= answersMax:
		return parley.Errorf(parley.Overloaded, "this connection has reached the limit of %d requests", answersMax)
	case v.answers[a.id] != nil:
		return parley.Errorf(parley.InvalidRequest, "request %d is already running", a.id)
	}
	a.conn.answers[a.id] = a
	return nil
}

// done notes that an answer has ended.
func (d *Server) done(a *serverRequest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := a.conn
	if delete(v.answers, a.id); d.closing && len(v.answers) == 0 {
		v.part()
	}
}

// partMax is how long a client may take to leave that was told that no more comes.
const partMax = 2 * time.Second

// part signals the client after all that was sent that no more comes, and lets it
// leave. Closed at once, a connection on which it still acknowledges would be
// reset, and what it has not read be lost.
func (v *serverConn) part() {
	v.out.end(func() {
		half, ok := v.conn.(interface{ CloseWrite() error })
		if !ok || half.CloseWrite() != nil {
			_ = v.conn.Close()
			return
		}
		_ = v.conn.SetReadDeadline(time.Now().Add(partMax))
	})
}

// find returns the answer with an id, or nil.
func (d *Server) find(v *serverConn, id uint64) *serverRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	return v.answers[id]
}

// leaveAll ends all answers of a connection.
func (d *Server) leaveAll(v *serverConn, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range v.answers {
		a.cancel(why)
	}
}

// listen reads what the client sends until it leaves. That ends its requests.
func (v *serverConn) listen(ctx context.Context, from *bufio.Reader) {
	var room []byte
	for {
		f, err := readFrame(from, frameMax, &room)
		if err == nil {
			err = v.receive(ctx, f)
		}
		if err != nil {
			v.server.leaveAll(v, fmt.Errorf("the client left: %w", err))
			_ = v.conn.Close()
			v.working.Wait()
			return
		}
	}
}

// receive takes a frame: a request, how much was read of its answer, that it is
// cancelled or wanted back, or a ping.
func (v *serverConn) receive(ctx context.Context, f frame) error {
	switch f.kind {
	case kindPing:
		go func() { _ = v.out.send(shortFrame(kindPong, 0)) }() // reading must not wait for writing
	case kindRequest:
		v.begin(ctx, f.id, f.payload)
	case kindCancel:
		if a := v.server.find(v, f.id); a != nil {
			a.cancel(errLeft)
		}
	case kindWithdraw:
		if a := v.server.find(v, f.id); a != nil {
			a.withdrawal.Ask()
		}
	case kindAck:
		d := decoder{rest: f.payload}
		n := d.uvarint()
		if err := d.end(); err != nil || n > math.MaxInt32 {
			return errMalformed
		}
		if a := v.server.find(v, f.id); a != nil { // else its answer has ended meanwhile
			a.window.refill(int(n))
		}
	default:
		return fmt.Errorf("%w: clients send no frames of the kind %q", errMalformed, f.kind)
	}
	return nil
}

var errLeft = errors.New("the client left")

// begin answers a request.
func (v *serverConn) begin(ctx context.Context, id uint64, body []byte) {
	a := &serverRequest{id: id, conn: v, stay: timing{Answer: Answer{Came: time.Now()}}}
	c, err := parseRequest(body)
	if err == nil {
		if t, ok := parley.ParseTrace(c.Trace); ok {
			ctx = parley.WithTrace(ctx, t)
		}
		ctx, a.cancel = context.WithCancelCause(parley.WithWithdrawal(ctx, &a.withdrawal))
		a.window = newCredit(c.Window)
		a.stay.window = a.window
		if err = v.server.begin(a); err != nil {
			a.cancel(err)
		}
	}
	v.working.Go(func() {
		if err != nil {
			_ = a.sendError(err, nil) // a client that left misses it
			return
		}
		defer v.server.done(a)
		defer a.cancel(nil)
		if err := a.answer(ctx, c.request(time.Now())); err != nil && v.server.Log != nil {
			v.server.Log.Error("request failed", "path", Path, "error", err)
		}
	})
}

// answer streams an answer as far as the window allows. The delta with the usage
// is the last, and so is an error. It returns errors of ours, for the log.
func (a *serverRequest) answer(ctx context.Context, q *parley.Request) (err error) {
	told := a.conn.server.Traced
	a.stay.admit(ctx, q, told != nil)
	defer a.stay.end(told)
	defer func() {
		if p := recover(); p != nil {
			err = parley.PanicError(p)
			_ = a.fail(err) // a client that left misses it
		}
	}()
	for d, err := range a.conn.server.To.Generate(ctx, q) {
		if err != nil {
			return errors.Join(unsendable(a.fail(err)), internal(err))
		}
		if err := a.window.take(ctx, cost(&d)); err != nil {
			a.stay.Err = err
			return nil // the client has left
		}
		a.stay.note(&d)
		sent := a.sendDelta(&d)
		if err := unsendable(sent); err != nil { // the client must not wait for it
			return errors.Join(err, unsendable(a.fail(err)))
		}
		if sent != nil || d.Usage != nil {
			return nil
		}
	}
	return unsendable(a.fail(
		parley.Errorf(parley.Unavailable, "the worker ended the answer without a delta that carries usage")))
}

// fail says why there is no more.
func (a *serverRequest) fail(err error) error { return a.sendError(err, a.stay.fail(err)) }

func (a *serverRequest) sendError(err error, stay *parley.WorkerTimings) error {
	return a.conn.out.send(endFrame(appendError(beginFrame(nil, kindError, a.id), FaultOf(err), stay), 0))
}

func (a *serverRequest) sendDelta(d *parley.Delta) error {
	room := make([]byte, 0, 32)
	if members(d) == hasTokens {
		e := encoder{to: beginFrame(room, kindTokens, a.id)}
		for _, id := range d.Tokens {
			e.uvarint(uint64(uint32(id)))
		}
		return a.conn.out.send(endFrame(e.to, 0))
	}
	frame, err := appendDelta(beginFrame(room, kindDelta, a.id), d)
	if err != nil {
		return err
	}
	return a.conn.out.send(endFrame(frame, 0))
}

// internal returns the error if it is one of ours, for the log.
func internal(err error) error {
	if parley.CodeOf(err) == parley.Internal {
		return err
	}
	return nil
}

// unsendable keeps the error of what cannot be sent; that a client left
// is not one.
func unsendable(err error) error {
	if _, network := errors.AsType[net.Error](err); network || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
