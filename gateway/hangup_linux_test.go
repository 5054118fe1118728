package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"parley"
	"parley/gateway/hijack"
	"parley/internal/tlsfile"
)

// onSockets serves s on connections of the system, encrypted or not, and returns a
// client's way to it.
func (s *server) onSockets(secure bool) (dial func() *wire) {
	s.t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(s.t)
	address, server := l.Addr().String(), hijack.NewServer("", s.gateway)
	if secure {
		dir := s.t.TempDir()
		certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
		writeCertificate(s.t, certFile, keyFile, 7)
		l = must(tlsfile.LoadCertificate(certFile, keyFile, slog.Default()))(s.t).Listen(l, nil)
	}
	go hijack.Serve(server, l)
	s.t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		s.gateway.Close(now)
		server.Close()
	})
	return func() *wire {
		s.t.Helper()
		conn := must(net.Dial("tcp", address))(s.t)
		s.t.Cleanup(func() { conn.Close() })
		if secure { // HTTP/1.1, and who it is does not matter here
			conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
		}
		return &wire{s.t, conn, bufio.NewReader(conn)}
	}
}

// until waits for something that others do.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it has not happened: " + what)
		}
	}
}

// watched returns how many streams are watched for hang-ups now.
func (s *server) watched() int {
	now, _ := s.gateway.sockets.connections.Watched()
	return now
}

// TestHangupsAreSeen has many clients leave at once, in each way there is, and
// others stay.
func TestHangupsAreSeen(t *testing.T) {
	t.Run("plain", func(t *testing.T) { seeHangups(t, false) })
	t.Run("encrypted", func(t *testing.T) { seeHangups(t, true) })
}

func seeHangups(t *testing.T, secure bool) {
	on := &worker{script: speak(t, "Hello there", time.Hour)}
	s := start(t, on, func(c *Config) { c.Admission.Off = true })
	dial := s.onSockets(secure)
	const clients = 384 // three times what one system call returns
	wires := make([]*wire, clients)
	for i := range wires {
		wires[i] = dial()
		wires[i].send("1.1", "POST", chatPath, chatBody(`,"stream":true`))
	}
	working := func(n int) func() bool {
		return func() bool { return int(on.active.Load()) == n && s.watched() == n }
	}
	until(t, "all streams are open and watched", working(clients))
	wires[0].send("1.1", "GET", "/v1/models", "") // who asks for more stays
	for i, w := range wires[clients/2:] {
		leave(w.Conn, i%3)
	}
	until(t, "the streams of half of the clients end", working(clients/2))
	time.Sleep(50 * time.Millisecond)
	if !working(clients / 2)() {
		t.Errorf("%d of the %d streams whose clients stayed are left", on.active.Load(), clients/2)
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	s.gateway.Close(now)
	until(t, "all streams end with the gateway", working(0))
}

// leave ends a connection in one of the ways there are.
func leave(conn net.Conn, way int) {
	socket := conn
	if secure, ok := conn.(*tls.Conn); ok {
		socket = secure.NetConn()
	}
	switch way {
	case 0:
		conn.Close()
	case 1:
		socket.(*net.TCPConn).CloseWrite()
	default: // a reset
		socket.(*net.TCPConn).SetLinger(0)
		socket.Close()
	}
}

// TestSocketsComeBack has many requests answered one after the other on a connection
// of the system, streams and others, some sent before the stream in front of them has
// ended.
func TestSocketsComeBack(t *testing.T) {
	t.Run("plain", func(t *testing.T) { comeBack(t, false) })
	t.Run("encrypted", func(t *testing.T) { comeBack(t, true) })
}

func comeBack(t *testing.T, secure bool) {
	s := start(t, &worker{script: speak(t, "Hello there", time.Millisecond)})
	w := s.onSockets(secure)()
	for i := range 20 {
		w.send("1.1", "POST", chatPath, chatBody(`,"stream":true`))
		if i%2 == 0 {
			w.send("1.1", "GET", "/v1/models", "")
		}
		if _, body := w.receive(); streamedText(body) != "Hello there" {
			t.Fatal(body)
		}
		if i%2 == 0 {
			if response, _ := w.receive(); response.StatusCode != 200 {
				t.Fatal(response.Status)
			}
		}
	}
	until(t, "nothing is watched once all is answered", func() bool { return s.watched() == 0 })
}

// TestBrokenStreamsHoldNoConnection gives a client up that does not read, and expects
// its connection to be closed at once.
func TestBrokenStreamsHoldNoConnection(t *testing.T) {
	much := func(*parley.Request) []say {
		words := make([]say, 200_000)
		for i := range words {
			words[i] = say{delta: parley.Delta{Tokens: tokensOf(t, "Hello")}}
		}
		return words
	}
	s := start(t, &worker{script: much}, func(c *Config) { c.WriteWaitMax = 50 * time.Millisecond })
	w := s.onSockets(false)()
	w.send("1.1", "POST", chatPath, chatBody(`,"stream":true`))
	until(t, "the stream is open", func() bool {
		_, ever := s.gateway.sockets.connections.Watched()
		return ever == 1
	})
	until(t, "the client is given up", func() bool { return s.watched() == 0 })
	_ = w.SetReadDeadline(time.Now().Add(hijack.IdleMax / 2))
	for {
		if _, err := w.in.Discard(1 << 10); err != nil {
			if nerr, ok := err.(net.Error); ok && nerr.Timeout() {
				t.Error("the connection is kept, though nobody knows where in an answer it is")
			}
			return
		}
	}
}

// TestStreamsLetGoOfTheirRequests has streams open for requests of a megabyte that say
// little to the model, and looks how much of that is still in memory.
func TestStreamsLetGoOfTheirRequests(t *testing.T) {
	said := func(r *parley.Request) []say {
		words := speak(t, "Hello there", 0)(r)
		words[len(words)-1].after = time.Hour
		return words
	}
	s := start(t, &worker{script: said}, func(c *Config) { c.Admission.Off = true })
	dial := s.onSockets(false)
	long := strings.Repeat("x", 900<<10)
	for name, extra := range map[string]string{
		"an unknown member": `,"whatever":"` + long + `"`,
		"a tool":            `,"tool_choice":"none","tools":[{"type":"function","function":{"name":"f","description":"` + long + `"}}]`,
		"a schema": `,"response_format":{"type":"json_schema","json_schema":{"name":"f","description":"` +
			long + `","schema":{"type":"object"}}}`,
	} {
		before := heapAfterAll()
		const streams = 8
		for range streams {
			w := dial()
			w.send("1.1", "POST", chatPath, chatBody(`,"stream":true`+extra))
			if first, err := w.in.ReadString('}'); err != nil || !strings.Contains(first, "200 OK") {
				t.Fatal(name, first, err)
			}
		}
		until(t, name+" is let go of", func() bool { // by goroutines that have to get their turn for that
			each := (heapAfterAll() - before) / streams
			t.Logf("%s: each stream holds %d KB", name, each>>10)
			return each <= 256<<10
		})
	}
}

// heapAfterAll is what is in use when all is collected, pools included.
func heapAfterAll() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
