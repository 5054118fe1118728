package worker

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"parley"
)

// TestClosedConnectionsAreNotFailures asks an engine that closes a connection
// when its second request comes, as servers do with those that were idle: the
// request is sent again on a new one.
func TestClosedConnectionsAreNotFailures(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { answerOnce(conn) })
		}
	})
	defer serving.Wait()
	defer l.Close()
	r := dial(t, Config{URL: "http://" + l.Addr().String(), Kind: OpenAI, Model: "m", Text: spell})
	for range 10 {
		var said strings.Builder
		for d, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}}) {
			if err != nil {
				t.Fatal(err)
			}
			said.WriteString(d.Text)
		}
		if said.String() != "a" {
			t.Errorf("it said %q", said.String())
		}
	}
	r.Close()
}

// answerOnce answers one request and hangs up at the second.
func answerOnce(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	req, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, req.Body)
	const body = "data: {\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	resp := http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(body)),
		Body: io.NopCloser(strings.NewReader(body))}
	if resp.Write(conn) == nil {
		_, _ = in.Peek(1) // the second request has begun
	}
}
