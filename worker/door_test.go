package worker

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestAClosingDoorLetsItsClientsRead shuts the door when an answer is on its way to
// a client that has read none of it, and has the client acknowledge what it could
// not yet know to be the end. It still gets all of the answer.
func TestAClosingDoorLetsItsClientsRead(t *testing.T) {
	const tokens = 1 << 12
	w := &counting{left: make(chan error, 1)}
	door := &Door{To: w}
	conn := knock(t, serveDoor(t, door))
	if _, err := fmt.Fprintf(conn, "1 {\"Prompt\":[5],\"MaxTokens\":%d,\"Window\":%d}\n", tokens, tokens); err != nil {
		t.Fatal(err)
	}
	<-w.left
	shut := make(chan error)
	go func() { shut <- door.Shutdown(t.Context()) }()
	for !parted(door) {
		time.Sleep(time.Millisecond)
	}
	for range 3 {
		if _, err := conn.Write([]byte("1 1\n")); err != nil {
			t.Fatalf("the client cannot acknowledge: %v", err)
		}
		time.Sleep(time.Millisecond) // each by itself, as a reader's are
	}
	lines := bufio.NewReader(conn)
	if status, err := http.ReadResponse(lines, nil); err != nil || status.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(status, err)
	}
	said, err := io.ReadAll(lines)
	if err != nil {
		t.Errorf("the answer breaks off: %v", err)
	}
	if got := plainly(said, 1); len(got.tokens) != tokens || got.usage == nil {
		t.Errorf("%d of %d tokens came, %v", len(got.tokens), tokens, got.code)
	}
	conn.Close()
	if err := <-shut; err != nil {
		t.Error(err)
	}
}

// knock connects to a door as the simplest client would.
func knock(t *testing.T, url string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: worker\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
		GeneratePath, wireProtocol); err != nil {
		t.Fatal(err)
	}
	return conn
}

// parted reports whether a door has let all its clients go.
func parted(d *Door) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for v := range d.visits {
		if len(v.answers) > 0 {
			return false
		}
	}
	return d.closing
}

// TestAnOutboxEndsAfterItsLines has many send while one of them writes, more than
// that one writes itself. The end comes after the last line.
func TestAnOutboxEndsAfterItsLines(t *testing.T) {
	to := make(slowly)
	o := &outbox{to: to}
	sent := make(chan error)
	go func() { sent <- o.send([]byte("a")) }()
	ended := make(chan struct{})
	for i, want := range []string{"a", "b", "c"} {
		<-to // begins to write
		if i == 2 {
			if err := <-sent; err != nil { // who sent first has done enough
				t.Error(err)
			}
			o.end(func() { close(ended) })
		} else if err := o.send([]byte{'b' + byte(i)}); err != nil {
			t.Error(err)
		}
		select {
		case <-ended:
			t.Fatalf("ended before %s was written", want)
		default:
		}
		if got := <-to; got != want {
			t.Errorf("%q was written, want %q", got, want)
		}
	}
	<-ended
	o.end(func() { ended = nil })
	if ended != nil {
		t.Error("with nothing to write, the end does not come at once")
	}
}

// slowly says when a write begins, and takes it when it is asked for.
type slowly chan string

func (s slowly) Write(b []byte) (int, error) {
	s <- ""
	s <- string(b)
	return len(b), nil
}
