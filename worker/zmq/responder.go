package zmq

import (
	"net"
	"sync"
)

// A Responder is a router: it answers each question with any number of
// messages.
type Responder struct {
	listener net.Listener
	answer   func(question [][]byte, send func(frames ...[]byte) error)
	mu       sync.Mutex
	conns    map[net.Conn]bool
	closed   bool
	work     sync.WaitGroup
}

// NewResponder answers questions on a listener, which it owns. The questions of
// one connection are answered in order, those of several side by side.
func NewResponder(l net.Listener, answer func(question [][]byte, send func(frames ...[]byte) error)) *Responder {
	r := &Responder{listener: l, answer: answer, conns: map[net.Conn]bool{}}
	r.work.Go(r.accept)
	return r
}

// Close ends all connections.
func (r *Responder) Close() error {
	err := r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for raw := range r.conns {
		raw.Close()
	}
	r.mu.Unlock()
	r.work.Wait()
	return err
}

func (r *Responder) accept() {
	for {
		raw, err := accept(r.listener)
		if err != nil {
			return
		}
		r.mu.Lock()
		if r.closed || len(r.conns) >= connectionsMax {
			r.mu.Unlock()
			raw.Close()
			continue
		}
		r.conns[raw] = true
		r.work.Go(func() { r.serve(raw) })
		r.mu.Unlock()
	}
}

func (r *Responder) serve(raw net.Conn) {
	defer func() {
		raw.Close()
		r.mu.Lock()
		delete(r.conns, raw)
		r.mu.Unlock()
	}()
	conn, err := Greet(raw, Router)
	if err != nil {
		return
	}
	for {
		question, err := conn.Receive()
		if err != nil {
			return
		}
		r.answer(question, conn.Send)
	}
}
