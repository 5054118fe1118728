package testkit

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// Listen returns a listener without sockets and a client that reaches it,
// whatever host it asks for. Both ends are [net.Pipe] connections, so a test
// inside a synctest bubble sees virtual time on them, deadlines included.
//
// A pipe holds no bytes: a write waits for the reader, which makes a client
// that does not read visible at once. The caller closes the listener and the
// client's idle connections.
func Listen() (net.Listener, *http.Client) {
	l := &pipeListener{dialed: make(chan net.Conn), closed: make(chan struct{})}
	transport := &http.Transport{DialContext: l.dial, DisableCompression: true, MaxIdleConnsPerHost: 64}
	return l, &http.Client{Transport: transport}
}

type pipeListener struct {
	dialed chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.dialed <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept waits for the next connection.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialed:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and refuses new connections.
func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr names the network, which has no addresses.
func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
