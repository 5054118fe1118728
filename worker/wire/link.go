package wire

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A link is a connection to a Parley worker, for all answers at once.
type link struct {
	conn    net.Conn
	frames  *bufio.Reader
	out     outbox
	silence time.Duration
	// most is how many bytes of an answer may wait for who reads it.
	most int
	// received is when something came, in nanoseconds since born.
	received atomic.Int64
	born     time.Time

	mu      sync.Mutex
	streams map[uint64]*recvStream
	last    uint64
	// err is why the link has ended; final is set if it ends with its last answer.
	err   error
	final bool
	watch *time.Timer
	// checkedAt is when watch was set, as received has it.
	checkedAt time.Duration
}

var (
	errNoSign   = errors.New("it does not respond to pings")
	errUnbidden = fmt.Errorf("it sent more than %d MiB beyond the flow-control window", frameMax>>20)
)

func newLink(conn net.Conn, silence time.Duration) *link {
	l := &link{
		conn:    conn,
		silence: silence,
		most:    frameMax,
		born:    time.Now(),
		streams: map[uint64]*recvStream{},
	}
	l.out.to, l.frames = conn, bufio.NewReaderSize(l, ioBytes)
	return l
}

// Read reads from the socket, and notes when something came.
func (l *link) Read(b []byte) (int, error) {
	n, err := l.conn.Read(b)
	l.noteReceived()
	return n, err
}

func (l *link) noteReceived() { l.received.Store(int64(time.Since(l.born))) }

// open makes room for an answer. It is nil if the link has ended.
func (l *link) open() *recvStream {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil
	}
	l.last++
	s := newRecvStream(l.last, l.most)
	if len(l.streams) == 0 {
		l.noteReceived() // no stream listened before
	}
	l.streams[s.id] = s
	if l.watch == nil {
		l.scheduleCheck()
	}
	return s
}

// scheduleCheck has the link checked a quarter of the silence later. The lock is held.
func (l *link) scheduleCheck() {
	l.checkedAt, l.watch = time.Since(l.born), time.AfterFunc(l.silence/4, l.check)
}

// drop lets go of an answer. One that was not read to its end is cancelled.
func (l *link) drop(s *recvStream, whole bool) {
	l.mu.Lock()
	delete(l.streams, s.id)
	over := l.final && len(l.streams) == 0
	dead := l.err != nil
	l.mu.Unlock()
	if !whole && !dead {
		_ = l.out.send(shortFrame(kindCancel, s.id)) // a link that fails cancels all
	}
	if over {
		l.fail(net.ErrClosed)
	}
}

// close lets a link end with its last answer, or now if there is none.
func (l *link) close() {
	l.mu.Lock()
	l.final = true
	over := len(l.streams) == 0
	l.mu.Unlock()
	if over {
		l.fail(net.ErrClosed)
	}
}

// endSoon lets a link end when the requests that wait for it have used it, or are gone.
func (l *link) endSoon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.final = true
	l.scheduleCheck()
}

// listen hands each frame to the answer it belongs to, until the link ends.
func (l *link) listen() {
	var room []byte
	for {
		if l.frames.Buffered() == 0 {
			runtime.Gosched() // the readers of what came run first: meanwhile more comes, which one read takes
		}
		f, err := readFrame(l.frames, frameMax, &room)
		if err != nil {
			l.fail(err)
			return
		}
		l.mu.Lock()
		s := l.streams[f.id]
		l.mu.Unlock()
		if s == nil { // it may have been left meanwhile
			continue
		}
		if !s.add(f) {
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

// check asks a worker that is silent while it has requests for a sign of life, and
// gives one up that gives none.
func (l *link) check() {
	now := time.Since(l.born)
	quiet := now - time.Duration(l.received.Load())
	l.mu.Lock()
	late := now-l.checkedAt > l.silence/2 // this process was stopped, and may have more to read
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
		go func() { _ = l.out.send(shortFrame(kindPing, 0)) }() // a link that fails is given up
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watch = nil; l.err == nil && len(l.streams) > 0 {
		l.scheduleCheck()
	}
}
