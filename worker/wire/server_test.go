package wire

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley"
)

// TestAClosingServerLetsItsClientsRead shuts the server down when an answer is on its way to
// a client that has read none of it, and has the client acknowledge what it could
// not yet know to be the end. It still gets all of the answer.
func TestAClosingServerLetsItsClientsRead(t *testing.T) {
	const tokens = 1 << 12
	w := &counting{left: make(chan error, 1)}
	server := &Server{To: w}
	conn := knock(t, serveServer(t, server))
	if _, err := conn.Write(asks(1, tokens, tokens, 5)); err != nil {
		t.Fatal(err)
	}
	<-w.left
	shut := make(chan error)
	go func() { shut <- server.Shutdown(t.Context()) }()
	for !parted(server) {
		time.Sleep(time.Millisecond)
	}
	for range 3 {
		if _, err := conn.Write(shortFrame(kindAck, 1, 1)); err != nil {
			t.Fatalf("the client cannot acknowledge: %v", err)
		}
		time.Sleep(time.Millisecond) // each by itself, as a reader's are
	}
	frames := bufio.NewReader(conn)
	if status, err := http.ReadResponse(frames, nil); err != nil || status.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(status, err)
	}
	said, err := io.ReadAll(frames)
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

// asks is the frame of a request.
func asks(id uint64, most, window int, prompt ...parley.Token) []byte {
	frame, err := requestFrame(nil, id, newCall(&parley.Request{Prompt: prompt, MaxTokens: most}, window, time.Time{}))
	if err != nil {
		panic(err)
	}
	return frame
}

// knock connects to a server as the simplest client would.
func knock(t *testing.T, url string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: worker\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
		Path, Protocol); err != nil {
		t.Fatal(err)
	}
	return conn
}

// parted reports whether a server has let all its clients go.
func parted(d *Server) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for v := range d.conns {
		if len(v.answers) > 0 {
			return false
		}
	}
	return d.closing
}

// TestAnOutboxEndsAfterItsFrames has many send while one of them writes, more than
// that one writes itself. The end comes after the last frame.
func TestAnOutboxEndsAfterItsFrames(t *testing.T) {
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
