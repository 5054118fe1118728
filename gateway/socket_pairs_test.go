package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/gateway/hijack"
	"parley/internal/tlsfile"

	"github.com/coder/websocket"
)

// TestFramesAreHalted has answers over WebSockets halted by a safety policy.
func TestFramesAreHalted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "The sun is up. "+insult+". And more of it.", time.Millisecond)}
		s := start(t, w, withPolicy(t, strictPolicy), roomy)
		for path, c := range map[string]struct{ frame, want, last string }{
			"/v1/chat/completions": {
				strings.Replace(userSays("Hi"), `"max_tokens":60`, `"max_tokens":60,"stream":true`, 1),
				`"finish_reason":"content_filter"`,
				"[DONE]",
			},
			"/v1/responses": {
				`{"type":"response.create","model":"` + modelID + `","input":"Hi"}`,
				`"reason":"content_filter"`,
				"response.incomplete",
			},
		} {
			conn := s.mustDial(path)
			for range 2 { // a halted answer does not end the connection
				sendFrame(t, conn, c.frame)
				answer := strings.Join(framesUntil(t, conn, c.last), "\n")
				if !strings.Contains(answer, c.want) || strings.Contains(answer, "fuck") ||
					!strings.Contains(answer, "No.") {
					t.Errorf("%s: %s", path, answer)
				}
			}
		}
		synctest.Wait()
		if n := w.active.Load(); n != 0 {
			t.Errorf("%d requests are still with the worker", n)
		}
	})
}

// TestFramesOverTLS has a request answered on a WebSocket that is encrypted.
func TestFramesOverTLS(t *testing.T) {
	s := start(t, &worker{script: speak(t, "A b<|im_end|>", time.Millisecond)})
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, certFile, keyFile, 7)
	c := must(tlsfile.LoadCertificate(certFile, keyFile, slog.Default()))(t)
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := hijack.NewServer("", s.gateway)
	go hijack.Serve(server, c.Listen(l, nil))
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must(os.ReadFile(certFile))(t))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	conn, _, err := websocket.Dial(t.Context(), "wss://"+l.Addr().String()+"/v1/chat/completions",
		&websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	for range 2 {
		sendFrame(t, conn, chatBody(`,"stream":true`))
		if answer := strings.Join(framesUntil(t, conn, "[DONE]"), ""); !strings.Contains(answer, `" b"`) {
			t.Errorf("the answer is %s", answer)
		}
	}
}
