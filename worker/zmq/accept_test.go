package zmq

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
)

// A crowded listener has no room for the first connections.
type crowded struct {
	net.Listener
	fails atomic.Int64
}

func (c *crowded) Accept() (net.Conn, error) {
	if c.fails.Add(-1) >= 0 {
		return nil, errors.New("too many open files")
	}
	return c.Listener.Accept()
}

// TestCrowdedSocketsRecover has both sockets without room for a while: those who come
// later are served.
func TestCrowdedSocketsRecover(t *testing.T) {
	l, endpoint := listen(t)
	full := &crowded{Listener: l}
	full.fails.Store(3)
	p := NewPublisher(full, 10)
	defer p.Close()
	subscribed(t, p, connect(t, endpoint, Sub), "")
	l, endpoint = listen(t)
	full = &crowded{Listener: l}
	full.fails.Store(3)
	r := NewResponder(full, func(_ [][]byte, send func(frames ...[]byte) error) { _ = send([]byte("yes")) })
	defer r.Close()
	c := connect(t, endpoint, Dealer)
	if err := c.Send([]byte("there?")); err != nil {
		t.Fatal(err)
	}
	if m, err := c.Receive(); err != nil || string(m[0]) != "yes" {
		t.Errorf("%q, %v", m, err)
	}
}
