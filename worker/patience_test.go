package worker

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

// TestWakingTakesItsTime has a worker take longer to fall asleep and to wake than it
// may be silent: it loads gigabytes.
func TestWakingTakesItsTime(t *testing.T) {
	const silence = 50 * time.Millisecond
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(4 * silence) }))
	defer s.Close()
	r := dial(t, Config{URL: s.URL, Kind: Parley, Silence: silence})
	for what, do := range map[string]func(context.Context) error{"sleep": r.Sleep, "wake": r.Wake} {
		if err := do(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), silence)
	defer cancel()
	if err := r.Wake(ctx); parley.CodeOf(err) != parley.DeadlineExceeded {
		t.Errorf("in too short a time: %v", err)
	}
}

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
		l.look()
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

// TestAConnectionThatNobodyWaitsFor comes about after its client was closed, and ends.
func TestAConnectionThatNobodyWaitsFor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := dial(t, Config{URL: "http://" + l.Addr().String(), Kind: Parley, Silence: 8 * time.Second})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := r.links.open(ctx)
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
			"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + wireProtocol +
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
		door := &Door{To: echoing{}, closing: true}
		v := &visit{door: door, out: outbox{to: deaf{}}, answers: map[uint64]*answering{}}
		v.begin(plainContext{context.Background(), make(chan struct{})}, 1, []byte(`{"Prompt":[5],"Window":1}`))
		v.working.Wait()
	}) // which fails if something still waits
}

// TestLongLinesTakeNoRoom that is kept.
func TestLongLinesTakeNoRoom(t *testing.T) {
	lines := bufio.NewReader(strings.NewReader(strings.Repeat("x", 4*roomKept) + "\nshort\n"))
	var room []byte
	for _, want := range []int{4 * roomKept, len("short")} {
		if line, err := readLine(lines, lineMax, &room); err != nil || len(line) != want {
			t.Fatalf("a line of %d, want %d: %v", len(line), want, err)
		}
	}
	if cap(room) > roomKept {
		t.Errorf("%d bytes are kept", cap(room))
	}
}
