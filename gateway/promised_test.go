package gateway

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/tenant"
	"parley/limit"

	"github.com/coder/websocket"
)

// TestAnswersEndWithinASecondOfTheirKey deletes a key as another gateway does, at several
// moments between two looks at the store, in virtual time: a stream over SSE, one over a
// WebSocket and an idle WebSocket end within a second.
func TestAnswersEndWithinASecondOfTheirKey(t *testing.T) {
	for _, after := range []time.Duration{0, 100 * time.Millisecond, 249 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			w := &worker{script: speak(t, strings.Repeat("word ", 9000)+"<|im_end|>", 20*time.Millisecond)}
			s, rig := startGuarded(t, w, newStoreName(t))
			secret, id := rig.key(tenant.NewKey{Organization: "acme", Tier: new(parley.Pro)})
			stream := s.streamOf(secret)
			socket, idle := s.mustDial("/v1/chat/completions", bearer(secret)...), s.mustDial("/v1/responses",
				bearer(secret)...)
			sendFrame(t, socket, chatBody(""))
			framesUntil(t, socket, "delta")
			time.Sleep(after)
			if err := rig.store.DeleteKey(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			deleted := time.Now()
			read := func(conn *websocket.Conn) func() error {
				return func() error {
					for {
						if _, _, err := conn.Read(t.Context()); err != nil {
							return nil
						}
					}
				}
			}
			for what, end := range map[string]func() error{
				"the stream":      func() error { _, err := io.ReadAll(stream); return err },
				"the socket":      read(socket),
				"the idle socket": read(idle),
			} {
				if err := end(); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				if took := time.Since(deleted); took > time.Second {
					t.Errorf("%s ended after %v", what, took)
				}
			}
			t.Logf("all had ended after %v", time.Since(deleted))
		})
	}
}

// TestFramesAreLimited sends more frames over WebSockets than the rate of a key allows:
// those beyond it are refused with the error of HTTP, and nothing is computed for them;
// the connection stays, and what it asks for later is answered.
func TestFramesAreLimited(t *testing.T) {
	for path, row := range map[string]struct{ frame, last string }{
		"/v1/chat/completions": {chatBody(""), "[DONE]"},
		"/v1/responses":        {`{"type":"response.create","model":"` + modelID + `","input":"Hi"}`, "response.completed"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &worker{script: speak(t, "Yes<|im_end|>", 0)}
			s, rig := startKeyed(t, w)
			secret, _ := rig.key(tenant.NewKey{Organization: "acme", Tier: new(parley.Pro),
				Limits: limit.Limits{RequestsPerSecond: 2}})
			conn := s.mustDial(path, bearer(secret)...)
			time.Sleep(5 * time.Second) // what connecting took is there again
			for range 2 {
				sendFrame(t, conn, row.frame)
				framesUntil(t, conn, row.last)
			}
			for range 3 {
				sendFrame(t, conn, row.frame)
				got := strings.Join(framesUntil(t, conn, "error"), "\n")
				if !strings.Contains(got, "rate_limit_exceeded") ||
					!strings.Contains(got, "Rate limit of your key reached") {
					t.Errorf("%s: beyond the limit came %s", path, got)
				}
			}
			if n := len(w.asked); n != 2 {
				t.Errorf("%s: the worker was asked %d times, want 2", path, n)
			}
			time.Sleep(5 * time.Second)
			sendFrame(t, conn, row.frame)
			framesUntil(t, conn, row.last)
		})
	}
}
