package hijack

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// Serve accepts connections from l as server.Serve does, and lets streams leave the
// server: see [Detach]. When a stream has ended, its connection returns, and the next
// request on it is the server's again.
func Serve(server *http.Server, l net.Listener) error {
	r := &returningListener{Listener: l, conns: make(chan arrival), closed: make(chan struct{})}
	server.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, listenerKey{}, r)
	}
	go r.accept()
	return server.Serve(r)
}

// listenerKey finds in a request's context the listener to which its connection can
// return.
type listenerKey struct{}

// A returningListener is a listener to which connections return. Once it is closed,
// they are closed, too.
type returningListener struct {
	net.Listener
	conns  chan arrival
	once   sync.Once
	closed chan struct{}
}

// An arrival is a connection, or why there are no more.
type arrival struct {
	conn net.Conn
	err  error
}

// accept hands out new connections, and errors as they come: some pass.
func (r *returningListener) accept() {
	for {
		conn, err := r.Listener.Accept()
		select {
		case r.conns <- arrival{conn, err}:
		case <-r.closed:
			if conn != nil {
				_ = conn.Close()
			}
			return
		}
	}
}

// Accept waits for a connection that is new or returns.
func (r *returningListener) Accept() (net.Conn, error) {
	select {
	case a := <-r.conns:
		return a.conn, a.err
	case <-r.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (r *returningListener) Close() error {
	r.once.Do(func() { close(r.closed) })
	return r.Listener.Close()
}

// take gives a connection back. It reports false if the listener is closed.
func (r *returningListener) take(conn net.Conn) bool {
	select {
	case r.conns <- arrival{conn: conn}:
		return true
	case <-r.closed:
		return false
	}
}

// A prefixedConn is a connection of which something was read already.
type prefixedConn struct {
	net.Conn
	prefix []byte
}

// Read returns what was read already, and then reads from the connection.
func (b *prefixedConn) Read(into []byte) (int, error) {
	if len(b.prefix) == 0 {
		return b.Conn.Read(into)
	}
	n := copy(into, b.prefix)
	b.prefix = b.prefix[n:]
	return n, nil
}
