package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"parley"
)

// wireProtocol is what a connection is upgraded to, from HTTP/1.1.
const wireProtocol = "parley-wire"

// linkBuffer is how much is read from a connection at once. What came together,
// for many answers, costs one call of the system.
const linkBuffer = 64 << 10

// A link is a connection to a Parley worker, for all answers at once.
type link struct {
	conn    net.Conn
	lines   *bufio.Reader
	out     outbox
	silence time.Duration
	// most is how many bytes of an answer may wait for who reads it.
	most int
	// heard is when something came, in nanoseconds since born.
	heard atomic.Int64
	born  time.Time

	mu      sync.Mutex
	streams map[uint64]*inflow
	last    uint64
	// err is why the link has ended; final is set if it ends with its last answer.
	err   error
	final bool
	watch *time.Timer
	// looked is when watch was set, as heard has it.
	looked time.Duration
}

var (
	errNoSign   = errors.New("it does not respond to pings")
	errUnbidden = fmt.Errorf("it sent more than %d MiB beyond the flow-control window", lineMax>>20)
)

func newLink(conn net.Conn, silence time.Duration) *link {
	l := &link{
		conn:    conn,
		silence: silence,
		most:    lineMax,
		born:    time.Now(),
		streams: map[uint64]*inflow{},
	}
	l.out.to, l.lines = conn, bufio.NewReaderSize(l, linkBuffer)
	return l
}

// Read reads from the socket, and notes when something came.
func (l *link) Read(b []byte) (int, error) {
	n, err := l.conn.Read(b)
	l.hear()
	return n, err
}

func (l *link) hear() { l.heard.Store(int64(time.Since(l.born))) }

// open makes room for an answer. It is nil if the link has ended.
func (l *link) open() *inflow {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil
	}
	l.last++
	s := &inflow{link: l, id: l.last, more: make(chan struct{}, 1)}
	if len(l.streams) == 0 {
		l.hear() // no stream listened before
	}
	l.streams[s.id] = s
	if l.watch == nil {
		l.lookSoon()
	}
	return s
}

// lookSoon has the link looked at. The lock is held.
func (l *link) lookSoon() {
	l.looked, l.watch = time.Since(l.born), time.AfterFunc(l.silence/4, l.look)
}

// drop lets go of an answer. One that was not read to its end is cancelled.
func (l *link) drop(s *inflow, whole bool) {
	l.mu.Lock()
	delete(l.streams, s.id)
	over := l.final && len(l.streams) == 0
	dead := l.err != nil
	l.mu.Unlock()
	if !whole && !dead {
		_ = l.out.send(lineOf(s.id, []byte{cancelMark})) // a link that fails cancels all
	}
	if over {
		l.fail(net.ErrClosed)
	}
}

// endSoon lets a link end when the requests that wait for it have used it, or are gone.
func (l *link) endSoon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.final = true
	l.lookSoon()
}

// listen hands each line to the answer it belongs to, until the link ends.
func (l *link) listen() {
	var room []byte
	for {
		line, err := readLine(l.lines, lineMax, &room)
		if err != nil {
			l.fail(err)
			return
		}
		id, rest, ok := cutID(line)
		if !ok {
			l.fail(fmt.Errorf("%.40q is not a line of the protocol", line))
			return
		}
		l.mu.Lock()
		s := l.streams[id]
		l.mu.Unlock()
		if s == nil { // it may have been left meanwhile
			continue
		}
		if !s.add(rest) {
			l.fail(errUnbidden)
			return
		}
	}
}

// fail ends the link, and with it all answers on it.
func (l *link) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = err
	_ = l.conn.Close()
	if l.watch != nil {
		l.watch.Stop()
	}
	for _, s := range l.streams {
		s.end(err)
	}
}

// look asks a worker that is silent while it has requests for a sign of life, and
// gives one up that gives none.
func (l *link) look() {
	now := time.Since(l.born)
	quiet := now - time.Duration(l.heard.Load())
	l.mu.Lock()
	late := now-l.looked > l.silence/2 // this process was stopped, and may have more to read
	unwanted := l.final && len(l.streams) == 0
	l.mu.Unlock()
	switch {
	case unwanted:
		l.fail(net.ErrClosed)
		return
	case quiet >= l.silence && !late:
		l.fail(errNoSign)
		return
	}
	if quiet >= l.silence/2 {
		go func() { _ = l.out.send(lineOf(0, []byte{pingMark})) }() // who cannot be asked gives no sign
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watch = nil; l.err == nil && len(l.streams) > 0 {
		l.lookSoon()
	}
}

// links is the connection to one worker, and how it comes about.
type links struct {
	remote *Remote
	mu     sync.Mutex
	now    *link
	// dialing is closed when an attempt has ended, with err.
	dialing chan struct{}
	err     error
	closed  bool
}

// open makes room for an answer on the connection, which is made if need be.
func (s *links) open(ctx context.Context) (*inflow, error) {
	for {
		s.mu.Lock()
		if s.now != nil {
			if in := s.now.open(); in != nil {
				s.mu.Unlock()
				return in, nil
			}
			s.now = nil
		}
		if s.dialing == nil {
			s.dialing, s.err = make(chan struct{}), nil
			go s.dial(s.dialing)
		}
		dialing := s.dialing
		s.mu.Unlock()
		select {
		case <-dialing:
		case <-ctx.Done():
			return nil, s.remote.unreachable(ctx, context.Cause(ctx))
		}
		s.mu.Lock()
		err := s.err
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
}

// dial makes the connection, for all who wait for it.
func (s *links) dial(done chan struct{}) {
	l, err := s.remote.connect()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now, s.err, s.dialing = l, err, nil; l != nil && s.closed {
		l.endSoon()
	}
	close(done)
}

// close closes the connection, or lets it end with its last answer.
func (s *links) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if l := s.now; l != nil {
		l.mu.Lock()
		l.final = true
		over := len(l.streams) == 0
		l.mu.Unlock()
		if over {
			l.fail(net.ErrClosed)
		}
	}
}

// connect opens a connection and makes it a link.
func (r *Remote) connect() (*link, error) {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Silence)
	defer cancel()
	conn, err := r.dial(ctx)
	if err != nil {
		return nil, r.unreachable(context.Background(), err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	l, err := r.upgrade(ctx, conn)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		if _, ours := errors.AsType[*parley.Error](err); !ours {
			err = r.unreachable(context.Background(), err)
		}
		return nil, err
	}
	go l.listen()
	return l, nil
}

func (r *Remote) dial(ctx context.Context) (net.Conn, error) {
	u, err := url.Parse(r.cfg.URL)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "http" {
		return r.cfg.dialer().DialContext(ctx, "tcp", addressOf(u, "80"))
	}
	return r.cfg.dialTLS(ctx, "tcp", addressOf(u, "443"))
}

func addressOf(u *url.URL, port string) string {
	if p := u.Port(); p != "" {
		port = p
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// upgrade asks the worker to speak the wire on a connection.
func (r *Remote) upgrade(ctx context.Context, conn net.Conn) (*link, error) {
	req, err := r.request(ctx, http.MethodGet, GeneratePath, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", wireProtocol)
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	l := newLink(conn, r.cfg.Silence)
	resp, err := http.ReadResponse(l.lines, req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer resp.Body.Close()
		return nil, r.refusal(resp)
	}
	if got := resp.Header.Get("Upgrade"); got != wireProtocol {
		return nil, fmt.Errorf("it speaks %q, not %s", got, wireProtocol)
	}
	return l, nil
}
