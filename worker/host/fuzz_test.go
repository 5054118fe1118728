package host

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/internal/builtin"
	"parley/worker"
	"parley/worker/wire"
)

// fuzzKey is the key of the worker: what is tried here is what a client can do that has
// the right one.
const fuzzKey = "fuzz-key-0123456789"

// fuzzRoutes are tried with a body each; the wire and the stream of events have seeds of
// their own.
var fuzzRoutes = []string{
	"POST /v1/completions", "POST /v1/chat/completions", "POST /tokenize", "POST /detokenize",
	"GET " + worker.SnapshotPath, "GET " + worker.AboutPath, "GET " + worker.EventsPath,
}

// FuzzWorkerWire sends anything to a worker with a valid key: lines of the native wire
// after its upgrade, bodies to HTTP routes, and queries for events. The worker must keep
// answering, and let go of everything when the client leaves.
func FuzzWorkerWire(f *testing.F) {
	f.Add(uint8(0), slices.Concat(wireFrame('R', 1, "\x03\x05\x06\x07{\"MaxTokens\":2,\"Window\":4}"),
		wireFrame('A', 1, "\x02"), wireFrame('P', 0, ""), wireFrame('C', 1, "")))
	f.Add(uint8(0), wireFrame('R', 1, "\x01\x05{\"MaxTokens\":1,\"Window\":1,\"Choices\":3,\"Grammar\":{}}"))
	f.Add(uint8(0), []byte("18446744073709551615 {\"Prompt\":[-1]}\n0 {\"Window\":-1}\nx\n"))
	f.Add(uint8(0), slices.Concat(
		wireFrame('R', 1, "\x01\x05{\"Salt\":[1],\"Class\":9,\"Embed\":true,\"SinkTokens\":-4,\"Window\":1}"),
		wireFrame('R', 1, "\x00{}"), wireFrame('A', 1, "\xff")))
	f.Add(uint8(1), []byte(`{"prompt":[5,6],"max_tokens":2,"n":2,"logprobs":1,"stop":["x"]}`))
	f.Add(uint8(2), []byte(`{"messages":[{"role":"user","content":"hi"}],"max_tokens":1}`))
	f.Add(uint8(4), []byte(`{"tokens":[1,2,-1,99999999]}`))
	f.Add(uint8(7), []byte("from=1&instance=x"))
	f.Add(uint8(7), []byte("from=18446744073709551615"))
	s, base := startFuzzed(f)
	f.Fuzz(func(t *testing.T, at uint8, data []byte) {
		if at == 0 {
			speakWire(t, base, data)
		} else {
			askRoute(t, base, fuzzRoutes[int(at-1)%len(fuzzRoutes)], data)
		}
		for until := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			if a := s.about(); a.Running == 0 && a.Waiting == 0 {
				return
			}
			if time.Now().After(until) {
				t.Fatalf("the worker still has %d requests that nobody reads", s.about().Running)
			}
		}
	})
}

func startFuzzed(f *testing.F) (*Server, string) {
	f.Helper()
	s, err := NewServer(ServerConfig{Key: fuzzKey, Open: func() (Candidate, error) {
		m, _ := builtin.Find("polly-mini")
		ck, err := m.Open()
		return Candidate{Checkpoint: ck, Config: Config{Name: "polly-mini", KVTokens: 1024, ContextTokens: 256}}, err
	}})
	if err != nil {
		f.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	front := s.NewHTTPServer()
	go front.Serve(l)
	f.Cleanup(func() { front.Close(); s.Close() })
	return s, "http://" + l.Addr().String()
}

// wireFrame is a frame of the protocol of package wire.
func wireFrame(kind, id byte, payload string) []byte {
	frame := binary.BigEndian.AppendUint32(nil, uint32(2+len(payload)))
	return append(append(frame, kind, id), payload...)
}

// speakWire upgrades a connection, sends frames, and leaves after what is answered at once.
func speakWire(t *testing.T, base string, frames []byte) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn,
		"GET %s HTTP/1.1\r\nHost: w\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: "+
			wire.Protocol+"\r\n\r\n", wire.Path, fuzzKey)
	answer := make([]byte, 4096)
	if n, err := conn.Read(answer); err != nil || !bytes.Contains(answer[:n], []byte(" 101 ")) {
		t.Fatalf("no upgrade: %q, %v", answer[:n], err)
	}
	_, _ = conn.Write(frames) // it may be cut
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	_, _ = conn.Read(answer) // whether something came does not matter
}

// askRoute sends a body, or a query with GET, and reads the beginning of the answer.
func askRoute(t *testing.T, base, route string, data []byte) {
	method, path, _ := strings.Cut(route, " ")
	to := base + path
	if method == http.MethodGet {
		to += "?" + url.PathEscape(string(data))
	}
	request, err := http.NewRequestWithContext(t.Context(), method, to, bytes.NewReader(data))
	if err != nil {
		return // no URL
	}
	request.Header.Set("Authorization", "Bearer "+fuzzKey)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusInternalServerError {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		t.Fatalf("%s %q: %s", route, data, text)
	}
	if path != worker.EventsPath {
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
	}
}
