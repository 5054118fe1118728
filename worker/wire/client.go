package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"sync"
	"time"

	"parley"
)

// A ClientConfig says how a worker is reached. All of it is needed.
type ClientConfig struct {
	// Worker is what errors call the worker: its URL.
	Worker string
	// Window is how many tokens of an answer may be under way.
	Window int
	// Silence is how long a worker may be silent while it has requests, or connects.
	Silence time.Duration
	// Dial connects to the worker, Request prepares a request to a path of it.
	Dial    func(ctx context.Context) (net.Conn, error)
	Request func(ctx context.Context, path string) (*http.Request, error)
	// Refusal makes an error of a response that is not an upgrade, Unreachable of
	// why the worker could not be asked, or why its answer ended early.
	Refusal     func(*http.Response) error
	Unreachable func(ctx context.Context, err error) error
}

// A Client has one worker answer requests, all on one connection, which is made
// when it is needed. It is safe for concurrent use.
type Client struct {
	cfg ClientConfig
	mu  sync.Mutex
	now *link
	// dialing is closed when an attempt has ended, with err.
	dialing chan struct{}
	err     error
	closed  bool
}

// NewClient returns a client. It connects with the first request.
func NewClient(cfg ClientConfig) *Client { return &Client{cfg: cfg} }

// Generate has the worker answer q; see [parley.Worker].
func (c *Client) Generate(ctx context.Context, q *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) { c.generate(ctx, q, yield) }
}

func (c *Client) generate(ctx context.Context, q *parley.Request, yield func(parley.Delta, error) bool) {
	sent := newCall(q, c.cfg.Window, time.Now())
	l, in, err := c.open(ctx)
	if err != nil {
		fail(yield, err)
		return
	}
	stop := context.AfterFunc(ctx, func() { in.end(context.Cause(ctx)) })
	defer stop()
	whole := false
	defer func() { l.drop(in, whole) }()
	if whole, err = c.ask(ctx, l, in, sent); err != nil {
		fail(yield, err)
		return
	}
	if w := parley.WithdrawalOf(ctx); w != nil {
		w.OnAsk(func() { _ = l.out.send(shortFrame(kindWithdraw, in.id)) }) // a link that fails ends the answer
		defer w.OnAsk(nil)
	}
	whole = c.readAnswer(ctx, l, in, yield)
}

// ask sends a request. It reports whether the worker has certainly not heard of it.
func (c *Client) ask(ctx context.Context, l *link, in *recvStream, sent *call) (unheard bool, err error) {
	if trace, ok := parley.TraceOf(ctx); ok {
		sent.Trace = trace.String()
	}
	room := frameRoom.Get().(*[]byte)
	defer func() {
		if cap(*room) <= ioBytes {
			frameRoom.Put(room)
		}
	}()
	if *room, err = requestFrame((*room)[:0], in.id, sent); err != nil {
		return true, err
	}
	if err := l.out.send(*room); err != nil {
		return false, c.cfg.Unreachable(ctx, err)
	}
	return false, nil
}

// fail yields an error. It is not inlined: its delta would make the frame of the caller larger,
// which stays on the stack of every open stream.
//
//go:noinline
func fail(yield func(parley.Delta, error) bool, err error) { yield(parley.Delta{}, err) }

// frameRoom is room for frames of requests, which an outbox copies.
var frameRoom = sync.Pool{New: func() any { return new([]byte) }}

// requestFrame is the frame of a request, in room if that is large enough.
func requestFrame(room []byte, id uint64, sent *call) ([]byte, error) {
	frame, err := appendRequest(beginFrame(room, kindRequest, id), sent)
	if err == nil && len(frame) > frameMax {
		err = parley.Errorf(parley.TooLarge, "the request takes %d bytes: at most %d can be sent to a worker",
			len(frame), frameMax)
	}
	if err != nil {
		return nil, err
	}
	return endFrame(frame, 0), nil
}

// readAnswer yields the deltas of an answer and acknowledges them. It reports
// whether the answer was read to its end.
func (c *Client) readAnswer(ctx context.Context, l *link, in *recvStream,
	yield func(parley.Delta, error) bool) bool {
	// unread is how many tokens were not acknowledged; least are, together.
	unread, least := 0, max(1, c.cfg.Window/2)
	for {
		f, err := in.read()
		switch {
		case err != nil:
			err = c.broken(ctx, err)
		case f.fault != nil:
			err = f.fault.Err()
		}
		if !yield(f.delta, err) || err != nil || f.delta.Usage != nil {
			return f.fault != nil || f.delta.Usage != nil
		}
		if unread += cost(&f.delta); unread >= least {
			l.acknowledge(in.id, unread)
			unread = 0
		}
	}
}

// acknowledge lets the worker send more. A link that fails ends the answer.
func (l *link) acknowledge(id uint64, tokens int) {
	_ = l.out.send(shortFrame(kindAck, id, binary.AppendUvarint(nil, uint64(tokens))...))
}

// cost is how much of the window a delta takes.
func cost(d *parley.Delta) int { return max(1, d.Count()) }

// broken says why an answer could not be read on.
func (c *Client) broken(ctx context.Context, err error) error {
	if garbled, ok := errors.AsType[*garbledError](err); ok {
		return parley.Errorf(parley.Unavailable, "worker %s sent an invalid answer: %v", c.cfg.Worker, garbled.err)
	}
	return c.cfg.Unreachable(ctx, err)
}

// open makes room for an answer on the connection, which is made if need be.
func (c *Client) open(ctx context.Context) (*link, *recvStream, error) {
	for {
		c.mu.Lock()
		if c.now != nil {
			if l, in := c.now, c.now.open(); in != nil {
				c.mu.Unlock()
				return l, in, nil
			}
			c.now = nil
		}
		if c.dialing == nil {
			c.dialing, c.err = make(chan struct{}), nil
			go c.dial(c.dialing)
		}
		dialing := c.dialing
		c.mu.Unlock()
		select {
		case <-dialing:
		case <-ctx.Done():
			return nil, nil, c.cfg.Unreachable(ctx, context.Cause(ctx))
		}
		c.mu.Lock()
		err := c.err
		c.mu.Unlock()
		if err != nil {
			return nil, nil, err
		}
	}
}

// dial makes the connection, for all requests that wait for it.
func (c *Client) dial(done chan struct{}) {
	l, err := c.connect()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now, c.err, c.dialing = l, err, nil; l != nil && c.closed {
		l.endSoon()
	}
	close(done)
}

// Close closes the connection, or lets it end with its last answer.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.now != nil {
		c.now.close()
	}
}

// connect opens a connection and makes it a link.
func (c *Client) connect() (*link, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Silence)
	defer cancel()
	conn, err := c.cfg.Dial(ctx)
	if err != nil {
		return nil, c.cfg.Unreachable(context.Background(), err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	l, err := c.upgrade(ctx, conn)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		if _, ours := errors.AsType[*parley.Error](err); !ours {
			err = c.cfg.Unreachable(context.Background(), err)
		}
		return nil, err
	}
	go l.listen()
	return l, nil
}

// upgrade asks the worker to speak the wire on a connection.
func (c *Client) upgrade(ctx context.Context, conn net.Conn) (*link, error) {
	req, err := c.cfg.Request(ctx, Path)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", Protocol)
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	l := newLink(conn, c.cfg.Silence)
	resp, err := http.ReadResponse(l.frames, req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer resp.Body.Close()
		return nil, c.cfg.Refusal(resp)
	}
	if got := resp.Header.Get("Upgrade"); got != Protocol {
		return nil, fmt.Errorf("it speaks %q, not %s", got, Protocol)
	}
	return l, nil
}
