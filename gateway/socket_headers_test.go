package gateway

import (
	"net/http"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"parley/gateway/hijack"
	"parley/internal/testkit"

	"github.com/coder/websocket"
)

// TestFramesLeaveHeadersAlone has several frames answered on a connection: all share the headers of the request that
// opened it, so that what is written to them for one would be read by the next.
func TestFramesLeaveHeadersAlone(t *testing.T) {
	for path, c := range map[string]struct{ frame, last string }{
		"/v1/chat/completions": {chatBody(`,"stream":true`), "[DONE]"},
		"/v1/responses": {`{"type":"response.create","model":"` + modelID + `","input":"Hi"}`,
			"response.completed"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := startKept(t, &worker{script: speak(t, "A b<|im_end|>", time.Second)})
			var shared http.Header
			server := hijack.NewServer("", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				shared = r.Header
				s.gateway.ServeHTTP(w, r)
			}))
			listener, client := testkit.Listen()
			go hijack.Serve(server, listener)
			t.Cleanup(func() { server.Close() })
			conn, _, err := websocket.Dial(t.Context(), "ws://parley"+path, &websocket.DialOptions{
				HTTPClient: client, HTTPHeader: http.Header{"Idempotency-Key": {"one"}, "Cache-Control": {"no-cache"}}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.CloseNow() })
			synctest.Wait() // until the connection waits for its first frame
			before := shared.Clone()
			for range 2 {
				sendFrame(t, conn, c.frame)
				framesUntil(t, conn, c.last)
			}
			synctest.Wait()
			if !reflect.DeepEqual(shared, before) {
				t.Errorf("%s: the headers were %v and are %v", path, before, shared)
			}
		})
	}
}
