package zmq

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Publisher sends messages to all who subscribed to their topic, which is the
// first frame. One that does not keep up loses messages, and the publisher does not wait for it.
type Publisher struct {
	listener net.Listener
	pending  int
	mu       sync.Mutex
	conns    map[*subscriber]bool
	closed   bool
	work     sync.WaitGroup
	dropped  atomic.Uint64
}

// NewPublisher publishes on a listener, which it owns. For each subscriber at
// most pending messages wait.
func NewPublisher(l net.Listener, pending int) *Publisher {
	p := &Publisher{listener: l, pending: pending, conns: map[*subscriber]bool{}}
	p.work.Go(p.accept)
	return p
}

// Dropped counts messages that subscribers lost because they did not keep up.
func (p *Publisher) Dropped() uint64 { return p.dropped.Load() }

// Publish sends a message. The frames must not be changed afterwards. It never
// blocks.
func (p *Publisher) Publish(frames ...[]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.conns {
		if !s.wants(frames[0]) {
			continue
		}
		select {
		case s.queue <- frames:
		default:
			p.dropped.Add(1)
		}
	}
}

// Close ends all connections.
func (p *Publisher) Close() error {
	err := p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for s := range p.conns {
		s.raw.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
	return err
}

// connectionsMax bounds the connections of one socket that listens: each has buffers and
// a queue of its own. One more is closed at once.
const connectionsMax = 64

// acceptAgain is how long it takes until connections are taken again after one could
// not be.
const acceptAgain = 50 * time.Millisecond

// accept returns the next connection. That there is no room for one now, as when too
// many files are open, ends nothing.
func accept(l net.Listener) (net.Conn, error) {
	for {
		raw, err := l.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return raw, err
		}
		time.Sleep(acceptAgain)
	}
}

func (p *Publisher) accept() {
	for {
		raw, err := accept(p.listener)
		if err != nil {
			return
		}
		s := &subscriber{raw: raw, gone: make(chan struct{})}
		p.mu.Lock()
		if p.closed || len(p.conns) >= connectionsMax {
			p.mu.Unlock()
			raw.Close()
			continue
		}
		s.queue = make(chan [][]byte, p.pending)
		p.conns[s] = true
		p.work.Go(func() { p.serve(s) })
		p.mu.Unlock()
	}
}

// serve greets a subscriber, writes to it what it wants and reads what that is.
func (p *Publisher) serve(s *subscriber) {
	defer func() {
		s.raw.Close()
		p.mu.Lock()
		delete(p.conns, s)
		p.mu.Unlock()
	}()
	conn, err := Greet(s.raw, Pub)
	if err != nil {
		return
	}
	p.work.Go(func() { s.write(conn) })
	defer close(s.gone)
	for {
		m, err := conn.Receive()
		if err != nil || len(m) != 1 || len(m[0]) == 0 || len(m[0]) > 1+topicBytesMax {
			return
		}
		s.subscribe(m[0][0] == 1, m[0][1:])
	}
}

// A subscriber is one connection to a publisher.
type subscriber struct {
	raw    net.Conn
	queue  chan [][]byte
	gone   chan struct{}
	mu     sync.Mutex
	topics [][]byte
}

// topicsMax bounds what one connection subscribes to.
const topicsMax = 64

func (s *subscriber) subscribe(on bool, topic []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on && len(s.topics) < topicsMax {
		s.topics = append(s.topics, topic)
	}
	if !on {
		s.topics = slices.DeleteFunc(s.topics, func(t []byte) bool { return bytes.Equal(t, topic) })
	}
}

func (s *subscriber) wants(topic []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.topics, func(t []byte) bool { return bytes.HasPrefix(topic, t) })
}

// write sends what is queued, in as few writes as it comes in.
func (s *subscriber) write(conn *Conn) {
	defer s.raw.Close()
	for {
		select {
		case frames := <-s.queue:
			if s.drain(conn, frames) != nil {
				return
			}
		case <-s.gone:
			return
		}
	}
}

func (s *subscriber) drain(conn *Conn, frames [][]byte) error {
	conn.wmu.Lock()
	defer conn.wmu.Unlock()
	conn.write(frames)
	for {
		select {
		case more := <-s.queue:
			conn.write(more)
		default:
			return conn.flush()
		}
	}
}
