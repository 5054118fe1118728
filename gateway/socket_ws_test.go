package gateway

import (
	"context"
	"encoding/binary"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"

	"github.com/coder/websocket"
)

// dial opens a WebSocket.
func (s *server) dial(path string, headers ...string) (*websocket.Conn, *http.Response, error) {
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return websocket.Dial(s.t.Context(), "ws://parley"+path,
		&websocket.DialOptions{HTTPClient: s.client, HTTPHeader: h})
}

func (s *server) mustDial(path string, headers ...string) *websocket.Conn {
	s.t.Helper()
	conn, _, err := s.dial(path, headers...)
	if err != nil {
		s.t.Fatal(err)
	}
	conn.SetReadLimit(1 << 20)
	s.t.Cleanup(func() { conn.CloseNow() })
	return conn
}

func sendFrame(t *testing.T, conn *websocket.Conn, frame string) {
	t.Helper()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		t.Fatal(err)
	}
}

// framesUntil reads frames up to and with one that holds last.
func framesUntil(t *testing.T, conn *websocket.Conn, last string) (frames []string) {
	t.Helper()
	for {
		_, frame, err := conn.Read(t.Context())
		if err != nil {
			t.Fatalf("%v after %q", err, frames)
		}
		frames = append(frames, string(frame))
		if strings.Contains(string(frame), last) {
			return frames
		}
	}
}

func TestResponseSocket(t *testing.T) {
	published := loadSchema(t)
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "A b<|im_end|>", time.Second)}
		s := startKept(t, w)
		conn := s.mustDial("/v1/responses")
		previous := ""
		for range 2 {
			sendFrame(t, conn, `{"type":"response.create","model":"`+modelID+`","input":"Hi"`+previous+`}`)
			frames := framesUntil(t, conn, "response.completed")
			var names []string
			for n, frame := range frames {
				published.want(t, "ResponseStreamEvent", frame)
				o := parseObject(t, frame)
				if o["sequence_number"] != float64(n) {
					t.Errorf("frame %d: %s", n, frame)
				}
				names = append(names, o.text("type"))
			}
			if got := strings.Join(names, " "); got != textEvents {
				t.Errorf("got %s", got)
			}
			previous = `,"previous_response_id":"` + parseObject(t, frames[0]).text("response", "id") + `"`
		}
		if !strings.Contains(w.askedText(1), "A b<|im_end|>") {
			t.Errorf("the second prompt is %q", w.askedText(1))
		}
		sendFrame(t, conn, `{"type":"response.create","model":"`+modelID+`","input":"Hi","generate":false}`)
		frames := framesUntil(t, conn, "response.completed")
		last := parseObject(t, frames[len(frames)-1])
		if len(frames) != 3 || last.text("response", "status") != "completed" ||
			strings.Contains(frames[2], "output_text") {
			t.Errorf("a prompt without an answer gives %s", frames)
		}
		w.mu.Lock()
		got := w.asked[len(w.asked)-1].MaxTokens
		w.mu.Unlock()
		if got != 1 {
			t.Errorf("the worker was asked for %d tokens of an answer that is not wanted", got)
		}
		for frame, want := range map[string]string{
			`{"type":"response.create","input":7}`: `"param":"input"`,
			`{"type":"response.stop"}`:             `"param":"type"`,
			`{`:                                    `not valid JSON`,
			`{"type":"response.create","input":"x","background":true}`: `"param":"background"`,
		} {
			sendFrame(t, conn, frame)
			if got := framesUntil(t, conn, `"type":"error"`); len(got) != 1 || !strings.Contains(got[0], want) {
				t.Errorf("%s gives %s", frame, got)
			}
		}
		conn.Close(websocket.StatusNormalClosure, "")
		s.settled(w)
		s.wantMetric(`parley_http_requests_total{code="101",route="/v1/responses"}`, "1")
	})
}

func TestChatSocket(t *testing.T) {
	published := loadSchema(t)
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "A b<|im_end|>", 40*time.Second)}
		s := start(t, w)
		conn := s.mustDial("/v1/chat/completions")
		sendFrame(t, conn, chatBody(`,"stream":true,"stream_options":{"include_usage":true}`))
		sendFrame(t, conn, chatBody(``))
		for range 2 {
			frames := framesUntil(t, conn, "[DONE]")
			for _, frame := range frames[:len(frames)-1] {
				published.want(t, "CreateChatCompletionStreamResponse", frame)
			}
			if len(frames) < 5 || !strings.Contains(frames[1], `"content":"A"`) {
				t.Errorf("got %q", frames)
			}
		}
		sendFrame(t, conn, `{"messages":[]}`)
		if got := framesUntil(t, conn, "error"); !strings.Contains(got[0], `{"error":{"message"`) {
			t.Errorf("got %s", got)
		}
		conn.Close(websocket.StatusNormalClosure, "")
		s.settled(w)
	})
}

// TestSocketCloseCancels leaves in the middle of an answer.
func TestSocketCloseCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "one two three four<|im_end|>", time.Second)}
		s := startKept(t, w)
		conn := s.mustDial("/v1/responses")
		sendFrame(t, conn, `{"type":"response.create","model":"`+modelID+`","input":"Hi"}`)
		first := framesUntil(t, conn, "output_text.delta")
		conn.CloseNow()
		s.settled(w)
		id := parseObject(t, first[0]).text("response", "id")
		if _, o := s.call("GET", "/v1/responses/"+id, ""); o.text("status") != "cancelled" {
			t.Errorf("got %v", o)
		}
	})
}

// TestSocketSlowClient does not read: the write deadline frees the worker.
func TestSocketSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: func(r *parley.Request) []say {
			return speech(t, r, time.Millisecond, strings.Repeat("word ", 3000))
		}}
		s := start(t, w)
		conn := s.mustDial("/v1/chat/completions")
		sendFrame(t, conn, chatBody(``))
		time.Sleep(writeWaitDefault + 10*time.Second)
		s.settled(w)
	})
}

func TestSocketTooManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "late<|im_end|>", time.Hour)}
		s := start(t, w)
		conn := s.mustDial("/v1/chat/completions")
		for range framesWaiting + 2 { // one is answered, one is too many
			sendFrame(t, conn, chatBody(``))
			synctest.Wait()
		}
		_, _, err := conn.Read(t.Context())
		if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
			t.Errorf("got %v", err)
		}
		s.settled(w)
	})
}

func TestSocketOrigins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{}, func(c *Config) { c.AllowOrigins = []string{"https://a.example"} })
		for origin, ok := range map[string]bool{"": true, "https://a.example": true, "http://parley": true,
			"https://b.example": false, "null": false} {
			var headers []string
			if origin != "" {
				headers = []string{"Origin", origin}
			}
			conn, response, err := s.dial("/v1/responses", headers...)
			if (err == nil) != ok || !ok && response.StatusCode != 403 {
				t.Errorf("%q: %v", origin, err)
			}
			if err == nil {
				conn.Close(websocket.StatusNormalClosure, "")
			}
		}
	})
}

func TestSocketDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "one two<|im_end|>", time.Second)}
		s := start(t, w)
		conn := s.mustDial("/v1/chat/completions")
		sendFrame(t, conn, chatBody(``))
		synctest.Wait()
		done := make(chan struct{})
		go func() { s.gateway.Close(context.Background()); close(done) }()
		if frames := framesUntil(t, conn, "[DONE]"); len(frames) < 4 {
			t.Errorf("got %q", frames)
		}
		if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Errorf("got %v", err)
		}
		<-done
		if _, response, err := s.dial("/v1/chat/completions"); err == nil || response.StatusCode != 503 {
			t.Errorf("a new connection: %v", err)
		}
	})
}

// TestSocketIsSmallWhileIdle counts the goroutines of a connection that has had an answer:
// the one that reads is left, and none of the HTTP server.
func TestSocketIsSmallWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "A b<|im_end|>", time.Second)}
		s := start(t, w)
		conn := s.mustDial("/v1/chat/completions")
		sendFrame(t, conn, chatBody(``))
		framesUntil(t, conn, "[DONE]")
		synctest.Wait()
		all := make([]byte, 4<<20)
		text := string(all[:runtime.Stack(all, true)])
		for of, want := range map[string]int{"gateway.(*socket)": 1, "http.(*conn).serve(": 0} {
			got := 0
			for one := range strings.SplitSeq(text, "\n\n") {
				if strings.Contains(one, of) {
					got++
				}
			}
			if got != want {
				t.Errorf("%d goroutines of %s, want %d, in\n%s", got, of, want, text)
			}
		}
		conn.Close(websocket.StatusNormalClosure, "")
		s.settled(w)
	})
}

// TestSocketEarlyFrame sends a frame together with the request that opens the connection.
func TestSocketEarlyFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "A b<|im_end|>", time.Second)}
		s := start(t, w)
		here := s.wire()
		defer here.Close()
		body := chatBody(``)
		early := "GET /v1/chat/completions HTTP/1.1\r\nHost: parley\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n" +
			"\x81\xfe" + string(binary.BigEndian.AppendUint16(nil, uint16(len(body)))) + "\x00\x00\x00\x00" + body
		go here.Write([]byte(early))
		for all := ""; !strings.HasSuffix(all, "[DONE]"); {
			all += string(must(here.in.ReadByte())(t))
		}
		here.Close()
		s.settled(w)
	})
}
