package load

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"parley/sim/traffic"
)

func TestOnlyThisMachineIsPutUnderLoad(t *testing.T) {
	for url, want := range map[string]string{
		"http://127.0.0.1:8080/v1":    "http://127.0.0.1:8080/v1",
		"http://127.0.0.1:8080":       "http://127.0.0.1:8080/v1",
		"http://localhost:8080/api/":  "http://localhost:8080/api",
		"https://[::1]:8080/v1":       "https://[::1]:8080/v1",
		"http://[::ffff:127.0.0.1]/x": "http://[::ffff:127.0.0.1]/x",
		"http://10.0.0.1:8080/v1":     "",
		"http://example.com/v1":       "",
		"http://localhost.example/v1": "",
		"http://0.0.0.0:8080":         "",
		"127.0.0.1:8080":              "",
		"ftp://127.0.0.1":             "",
		"http://user:pw@127.0.0.1/v1": "",
		"http://127.0.0.1/v1?x=1":     "",
		"http://":                     "",
	} {
		c, err := NewClient(Target{URL: url, Send: Chat})
		switch {
		case want == "" && err == nil:
			t.Errorf("%s was taken", url)
		case want != "" && (err != nil || c.URL() != want):
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
	_, err := NewClient(Target{URL: "http://10.0.0.1/v1", Send: Chat})
	if err == nil || !strings.Contains(err.Error(), "--allow-remote") {
		t.Errorf("the way out is not named: %v", err)
	}
	if _, err := NewClient(Target{URL: "http://10.0.0.1/v1", Send: Chat, AllowRemote: true}); err != nil {
		t.Error(err)
	}
}

// A name that leads away from this machine is refused when it is dialled,
// before any packet leaves.
func TestDialsStayOnThisMachine(t *testing.T) {
	resp, err := newHTTP(false).Get("http://192.0.2.1:9/")
	if err == nil {
		resp.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "not this machine") {
		t.Errorf("%v", err)
	}
}

func TestModels(t *testing.T) {
	var status int
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	c, err := NewClient(Target{URL: server.URL, Send: Chat, Key: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	status, body = 200, `{"data":[{"id":"a","max_model_len":2048},{"id":"b"}]}`
	models, err := c.Models(t.Context())
	if err != nil || len(models) != 2 || models[0] != (Model{"a", 2048}) || models[1] != (Model{"b", 0}) {
		t.Errorf("%+v, %v", models, err)
	}
	status, body = 401, `{"error":{"message":"who are you?"}}`
	if _, err := c.Models(t.Context()); err == nil || !strings.Contains(err.Error(), "http 401: who are you?") {
		t.Errorf("%v", err)
	}
	status, body = 200, "<html>"
	if _, err := c.Models(t.Context()); err == nil || errors.Is(err, ErrNoServer) {
		t.Errorf("%v", err)
	}
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	c, err := NewClient(Target{URL: "http://" + l.Addr().String(), Send: Chat})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Models(t.Context()); !errors.Is(err, ErrNoServer) {
		t.Errorf("%v", err)
	}
	r := traffic.Request{Prompt: []traffic.Part{{Role: traffic.User, Tokens: 1}}, OutputTokens: 1}
	if got := c.Send(t.Context(), &r, time.Now()); got.Outcome != Failed || got.Kind != "no connection" {
		t.Errorf("%+v", got)
	}
}
