package wire

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

// TestAClientThatWasStopped for longer than a worker may be silent looks before it
// has read what came meanwhile. It reads first; a worker that gives no sign then is
// given up.
func TestAClientThatWasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		l := newLink(near, silenceDefault)
		l.out.to = deaf{}
		in := l.open()
		l.watch.Stop()
		l.born = l.born.Add(-time.Hour)
		l.check()
		l.mu.Lock()
		if l.err != nil {
			t.Errorf("given up: %v", l.err)
		}
		l.mu.Unlock()
		time.Sleep(silenceDefault)
		if err := in.take(); err != errNoSign {
			t.Errorf("an hour and %v later: %v", silenceDefault, err)
		}
	})
}

// TestAConnectionThatNoRequestWaitsFor comes about after its client was closed, and ends.
func TestAConnectionThatNoRequestWaitsFor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := dial(t, "http://"+l.Addr().String(), ClientConfig{Silence: 8 * time.Second})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, _, err := r.open(ctx)
		left <- err
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	leave()
	if err := <-left; parley.CodeOf(err) != parley.Cancelled {
		t.Errorf("who left: %v", err)
	}
	r.Close()
	lines := bufio.NewReader(conn)
	if _, err := http.ReadRequest(lines); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(
		[]byte(
			"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + Protocol +
				"\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := lines.ReadByte(); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("the connection stays: %v", err)
	}
}

// A plainContext ends never, and has a goroutine for each that waits for it.
type plainContext struct {
	context.Context
	done chan struct{}
}

func (c plainContext) Done() <-chan struct{} { return c.done }

// TestRefusedRequestsLeaveNothing behind while their connection is open.
func TestRefusedRequestsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &Server{To: echoing{}, closing: true}
		v := &serverConn{server: server, out: outbox{to: deaf{}}, answers: map[uint64]*serverRequest{}}
		v.begin(plainContext{context.Background(), make(chan struct{})}, 1, []byte("\x01\x05{\"Window\":1}"))
		v.working.Wait()
	}) // which fails if something still waits
}
