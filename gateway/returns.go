package gateway

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// Serve has a server answer those who connect to l, as server.Serve does, and
// lets streams leave it: a stream of events holds its connection for as long as
// somebody writes, and has no use for what the server keeps for each request that
// it answers. When it has ended its connection comes back, and the next request on
// it is the server's again.
func Serve(server *http.Server, l net.Listener) error {
	r := &returns{Listener: l, came: make(chan arrival), closed: make(chan struct{})}
	server.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, returnsKey{}, r)
	}
	go r.accept()
	return server.Serve(r)
}

// returnsKey finds in a request's context where its connection can come back.
type returnsKey struct{}

// returns is a listener to which connections come back. Once it is closed those
// are closed, too.
type returns struct {
	net.Listener
	came   chan arrival
	once   sync.Once
	closed chan struct{}
}

// An arrival is a connection, or why there are no more.
type arrival struct {
	conn net.Conn
	err  error
}

// accept hands out new connections, and errors as they come: some pass.
func (r *returns) accept() {
	for {
		conn, err := r.Listener.Accept()
		select {
		case r.came <- arrival{conn, err}:
		case <-r.closed:
			if conn != nil {
				_ = conn.Close()
			}
			return
		}
	}
}

// Accept waits for a connection that is new or comes back.
func (r *returns) Accept() (net.Conn, error) {
	select {
	case a := <-r.came:
		return a.conn, a.err
	case <-r.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (r *returns) Close() error {
	r.once.Do(func() { close(r.closed) })
	return r.Listener.Close()
}

// take gives a connection back; it reports false if nobody takes it any more.
func (r *returns) take(conn net.Conn) bool {
	select {
	case r.came <- arrival{conn: conn}:
		return true
	case <-r.closed:
		return false
	}
}

// A begun connection is one of which something was read already.
type begun struct {
	net.Conn
	read []byte
}

// Read returns what was read first.
func (b *begun) Read(into []byte) (int, error) {
	if len(b.read) == 0 {
		return b.Conn.Read(into)
	}
	n := copy(into, b.read)
	b.read = b.read[n:]
	return n, nil
}
