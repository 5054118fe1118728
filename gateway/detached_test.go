package gateway

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/hijack"
)

// A wire is one connection to a server, as a client has it.
type wire struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func (s *server) wire() *wire {
	s.t.Helper()
	conn, err := s.proof.inner.(*http.Transport).DialContext(s.t.Context(), "", "")
	if err != nil {
		s.t.Fatal(err)
	}
	return &wire{s.t, conn, bufio.NewReader(conn)}
}

// send writes a request as it travels.
func (w *wire) send(version, method, path, body string) {
	w.t.Helper()
	if _, err := fmt.Fprintf(w,
		"%s %s HTTP/%s\r\nHost: parley\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method,
		path, version, len(body), body); err != nil {
		w.t.Error(err)
	}
}

// receive reads one whole answer.
func (w *wire) receive() (*http.Response, string) {
	w.t.Helper()
	response, err := http.ReadResponse(w.in, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return response, string(body)
}

const chatPath = "/v1/chat/completions"

func TestStreamGivesItsConnectionBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "Hello there", time.Second)})
		w := s.wire()
		defer w.Close()
		for range 3 {
			w.send("1.1", "POST", chatPath, chatBody(`,"stream":true`))
			response, body := w.receive()
			if streamedText(body) != "Hello there" || !strings.HasSuffix(body, "data: [DONE]\n\n") || response.Close ||
				response.Header.Get("Date") == "" || response.Header.Get("X-Request-Id") == "" {
				t.Fatalf("%v: %s", response.Header, body)
			}
			w.send("1.1", "GET", "/v1/models", "")
			if response, _ := w.receive(); response.StatusCode != 200 {
				t.Fatal(response.Status)
			}
			time.Sleep(hijack.IdleMax / 2) // it waits for as long as any other
		}
		w.send("1.1", "POST", chatPath, chatBody(`,"stream":true`))
		w.receive()
		time.Sleep(hijack.IdleMax)
		if _, err := w.in.ReadByte(); err != io.EOF {
			t.Errorf("nothing came for as long as a connection is kept, and then %v", err)
		}
	})
}

func TestRequestsBehindAStreamAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "Hello there", time.Second)})
		w := s.wire()
		defer w.Close()
		go func() {
			w.send("1.1", "POST", chatPath, chatBody(`,"stream":true`))
			time.Sleep(1500 * time.Millisecond)
			w.send("1.1", "GET", "/v1/models", "") // the stream has not ended
		}()
		if _, body := w.receive(); streamedText(body) != "Hello there" {
			t.Error(body)
		}
		if response, body := w.receive(); response.StatusCode != 200 || !strings.Contains(body, modelID) {
			t.Errorf("%s: %s", response.Status, body)
		}
	})
}

func TestStreamEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := &worker{script: speak(t, "Hello there", time.Hour)}
		s := start(t, on)
		w := s.wire()
		w.send("1.1", "POST", chatPath, chatBody(`,"stream":true`))
		time.Sleep(time.Second)
		if on.active.Load() != 1 {
			t.Fatal("nobody works")
		}
		w.Close()
		synctest.Wait()
		if on.active.Load() != 0 || !strings.Contains(s.log.String(), "status=499") {
			t.Errorf("%d still work; the log: %s", on.active.Load(), s.log)
		}
	})
}

func TestStreamThatFailsBeforeItBeginsHasItsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: func(*parley.Request) []say { return []say{{panic: "ouch"}} }})
		w := s.wire()
		defer w.Close()
		w.send("1.1", "POST", chatPath, chatBody(`,"stream":true`))
		if response, body := w.receive(); response.StatusCode != 500 || !strings.Contains(body, "error") {
			t.Errorf("%s: %s", response.Status, body)
		}
		w.send("1.1", "GET", "/v1/models", "")
		if response, _ := w.receive(); response.StatusCode != 200 {
			t.Error(response.Status)
		}
		old := s.wire() // HTTP/1.0 has no chunks
		defer old.Close()
		old.send("1.0", "POST", chatPath, chatBody(`,"stream":true`))
		if response, _ := old.receive(); response.StatusCode != 500 {
			t.Error(response.Status)
		}
	})
}

func TestCloseWaitsForStreams(t *testing.T) {
	for _, patience := range []time.Duration{time.Minute, 1500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, &worker{script: speak(t, "Hello there", time.Second)})
			w := s.wire()
			defer w.Close()
			w.send("1.1", "POST", chatPath, chatBody(`,"stream":true`))
			time.Sleep(time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			ended := make(chan struct{})
			go func() { s.gateway.Close(ctx); close(ended) }()
			_, body := w.receive()
			<-ended
			if whole := streamedText(body) == "Hello there"; whole != (patience == time.Minute) ||
				!whole && !strings.Contains(body, "was stopped") {
				t.Errorf("with %v: %s", patience, body)
			}
		})
	}
}

// TestEveryStreamLeavesItsHandler opens a stream at each endpoint: none keeps the
// server's goroutine while it is written, and each gives its connection back.
func TestEveryStreamLeavesItsHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startKept(t, &worker{script: speak(t, "Hello there", time.Second)}, untitled)
		talk := s.converse("")
		model := `{"model":"` + modelID + `","stream":true,`
		for _, r := range []struct{ path, body string }{
			{chatPath, chatBody(`,"stream":true`)},
			{"/v1/completions", model + `"prompt":"Hi"}`},
			{"/v1/messages", model + `"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`},
			{"/v1/responses", model + `"input":"Hi"}`},
			{talk + "/messages", model + `"content":"Hi"}`},
		} {
			w := s.wire()
			w.send("1.1", "POST", r.path, r.body)
			time.Sleep(time.Second / 2)
			stacks := make([]byte, 8<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			if bytes.Contains(stacks, []byte("(*Gateway).ServeHTTP(")) {
				t.Errorf("%s: its handler has not returned", r.path)
			}
			if response, body := w.receive(); response.StatusCode != 200 || !strings.Contains(body, "there") {
				t.Errorf("%s: %s: %s", r.path, response.Status, body)
			}
			w.send("1.1", "GET", "/v1/models", "")
			if response, _ := w.receive(); response.StatusCode != 200 {
				t.Errorf("%s: then %s", r.path, response.Status)
			}
			w.Close()
		}
	})
}
