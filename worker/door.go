package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"parley"
)

// A Door answers requests of our wire with a worker. Connections that speak the
// wire are no longer the HTTP server's: they end with [Door.Shutdown] or
// [Door.Close].
type Door struct {
	// To is the worker. Log gets what clients do not; nil discards it.
	To  parley.Worker
	Log *slog.Logger
	// Traced is told of each answer that belongs to a trace which is kept; nil for
	// no listener. It must not wait.
	Traced func(Answer)

	mu      sync.Mutex
	visits  map[*visit]struct{}
	closing bool
	open    sync.WaitGroup
}

// A visit is a connection on which a client has requests answered.
type visit struct {
	door *Door
	conn net.Conn
	out  outbox
	// answers are those under way, by the ids of their requests, guarded by the
	// door.
	answers map[uint64]*answering
	working sync.WaitGroup
}

// An answering is a request under way.
type answering struct {
	id     uint64
	visit  *visit
	window *credit
	stay   stay
	cancel context.CancelCauseFunc
}

// answersMax bounds the requests of one connection.
const answersMax = 1 << 16

// Serve makes a connection of HTTP/1.1 one of the wire, and returns when the
// client has left. An error is one that the client can still be told of.
func (d *Door) Serve(w http.ResponseWriter, r *http.Request) error {
	if r.Header.Get("Upgrade") != wireProtocol || r.ProtoMajor != 1 {
		return &parley.Error{Code: parley.InvalidRequest,
			Message: "this route needs HTTP/1.1 and the headers 'Connection: Upgrade' and 'Upgrade: " + wireProtocol +
				"'"}
	}
	control := http.NewResponseController(w)
	conn, buffered, err := control.Hijack()
	if err != nil {
		return parley.Errorf(parley.InvalidRequest, "this connection cannot be upgraded: %v", err)
	}
	v := &visit{door: d, conn: conn, out: outbox{to: conn}, answers: map[uint64]*answering{}}
	if !d.enter(v) {
		return errors.Join(conn.Close(), nil)
	}
	defer d.leave(v)
	_ = conn.SetDeadline(time.Time{}) // the server's own no longer holds
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
		wireProtocol); err != nil {
		return nil // the client has left
	}
	v.listen(r.Context(), buffered.Reader)
	return nil
}

func (d *Door) enter(v *visit) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return false
	}
	if d.visits == nil {
		d.visits = map[*visit]struct{}{}
	}
	d.visits[v] = struct{}{}
	d.open.Add(1)
	return true
}

func (d *Door) leave(v *visit) {
	_ = v.conn.Close()
	d.mu.Lock()
	delete(d.visits, v)
	d.mu.Unlock()
	d.open.Done()
}

// Shutdown lets answers that are under way end and closes all connections. It
// returns early with the error of ctx if that ends before.
func (d *Door) Shutdown(ctx context.Context) error {
	d.mu.Lock()
	d.closing = true
	for v := range d.visits {
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
func (d *Door) Close() {
	d.end()
	d.open.Wait()
}

func (d *Door) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closing = true
	for v := range d.visits {
		_ = v.conn.Close()
	}
}

// begin notes that a visit has a request more, or says why it must not.
func (d *Door) begin(a *answering) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch v := a.visit; {
	case d.closing:
		return parley.Errorf(parley.Unavailable, "this worker is shutting down")
	case len(v.answers) >= answersMax:
		return parley.Errorf(parley.Overloaded, "this connection has reached the limit of %d requests", answersMax)
	case v.answers[a.id] != nil:
		return parley.Errorf(parley.InvalidRequest, "request %d is already running", a.id)
	}
	a.visit.answers[a.id] = a
	return nil
}

// done notes that an answer has ended.
func (d *Door) done(a *answering) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := a.visit
	if delete(v.answers, a.id); d.closing && len(v.answers) == 0 {
		v.part()
	}
}

// partMax is how long a client may take to leave that was told that no more comes.
const partMax = 2 * time.Second

// part signals the client after all that was sent that no more comes, and lets it
// leave. Closed at once, a connection on which it still acknowledges would be
// reset, and what it has not read be lost.
func (v *visit) part() {
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
func (d *Door) find(v *visit, id uint64) *answering {
	d.mu.Lock()
	defer d.mu.Unlock()
	return v.answers[id]
}

// leaveAll ends all answers of a visit.
func (d *Door) leaveAll(v *visit, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range v.answers {
		a.cancel(why)
	}
}

// listen reads what the client says until it leaves. That ends its requests.
func (v *visit) listen(ctx context.Context, from *bufio.Reader) {
	var room []byte
	for {
		line, err := readLine(from, lineMax, &room)
		if err == nil {
			err = v.hear(ctx, line)
		}
		if err != nil {
			v.door.leaveAll(v, fmt.Errorf("the client left: %w", err))
			_ = v.conn.Close()
			v.working.Wait()
			return
		}
	}
}

// hear takes a line: a request, how much was read of its answer, that it is
// cancelled, or a ping.
func (v *visit) hear(ctx context.Context, line []byte) error {
	id, rest, ok := cutID(line)
	switch {
	case !ok || len(rest) == 0:
		return fmt.Errorf("%.40q is not a line of the protocol", line)
	case id == 0 && rest[0] == pingMark:
		go func() { _ = v.out.send(lineOf(0, []byte{pongMark})) }() // who hears must not wait for who reads
		return nil
	case rest[0] == '{':
		v.begin(ctx, id, rest)
		return nil
	}
	a := v.door.find(v, id)
	if a == nil {
		return nil // its answer has ended meanwhile
	}
	if rest[0] == cancelMark {
		a.cancel(errLeft)
		return nil
	}
	n, err := parseAck(rest)
	if err != nil {
		return fmt.Errorf("%.40q is not an acknowledgement", rest)
	}
	a.window.refill(n)
	return nil
}

var errLeft = errors.New("the client left")

// begin answers a request.
func (v *visit) begin(ctx context.Context, id uint64, body []byte) {
	a := &answering{id: id, visit: v, stay: stay{Answer: Answer{Came: time.Now()}}}
	c, err := parseCall(body)
	if err == nil {
		if t, ok := parley.ParseTrace(c.Trace); ok {
			ctx = parley.WithTrace(ctx, t)
		}
		ctx, a.cancel = context.WithCancelCause(ctx)
		a.window = newCredit(c.Window)
		a.stay.window = a.window
		if err = v.door.begin(a); err != nil {
			a.cancel(err)
		}
	}
	v.working.Go(func() {
		if err != nil {
			_ = a.send(&frame{Error: faultOf(err)}) // who left misses it
			return
		}
		defer v.door.done(a)
		defer a.cancel(nil)
		if err := a.answer(ctx, c.request(time.Now())); err != nil && v.door.Log != nil {
			v.door.Log.Error("request failed", "path", GeneratePath, "error", err)
		}
	})
}

// answer streams an answer as far as the window allows. The delta with the usage
// is the last, and so is an error. It returns errors of ours, for the log.
func (a *answering) answer(ctx context.Context, q *parley.Request) (err error) {
	told := a.visit.door.Traced
	a.stay.admit(ctx, q, told != nil)
	defer a.stay.end(told)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			_ = a.sendFault(err) // who left misses it
		}
	}()
	for d, err := range a.visit.door.To.Generate(ctx, q) {
		if err != nil {
			return errors.Join(unsendable(a.sendFault(err)), internal(err))
		}
		if err := a.window.take(ctx, cost(&d)); err != nil {
			a.stay.Err = err
			return nil // the client has left
		}
		a.stay.note(&d)
		sent := a.send(&frame{Delta: &d})
		if err := unsendable(sent); err != nil { // the client must not wait for it
			return errors.Join(err, unsendable(a.sendFault(err)))
		}
		if sent != nil || d.Usage != nil {
			return nil
		}
	}
	return unsendable(a.sendFault(
		parley.Errorf(parley.Unavailable, "the worker ended the answer without a delta that carries usage")))
}

// sendFault says why there is no more.
func (a *answering) sendFault(err error) error {
	return a.send(&frame{Error: faultOf(err), Stay: a.stay.fail(err)})
}

// unsendable keeps the error of what cannot be sent; that a client left
// is not one.
func unsendable(err error) error {
	if _, network := errors.AsType[net.Error](err); network || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (a *answering) send(f *frame) error {
	line, err := appendFrame(append(strconv.AppendUint(nil, a.id, 10), ' '), f)
	if err != nil {
		return err
	}
	return a.visit.out.send(line)
}
