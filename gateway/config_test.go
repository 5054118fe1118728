package gateway

import (
	"strings"
	"testing"
	"time"

	"parley/gateway/exchange"
	"parley/gateway/hijack"
	"parley/gateway/models"
)

func TestConfigProblems(t *testing.T) {
	config := Config{
		KeepAlive: time.Minute, BodyBytesMax: -1, WriteWaitMax: -1,
		Models: []models.Config{
			{}, {ID: "a"}, {ID: "a", Worker: &worker{}, Default: true},
			{ID: "b", Worker: &worker{}, Tokenizer: tinyTokenizer(), Default: true},
		},
	}
	_, err := New(config)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"KeepAlive is 1m0s", "BodyBytesMax is -1", "WriteWaitMax -1ns", "the ID is empty",
		"there is no Worker",
		"there is no Tokenizer", "the context is unknown", `"a" is used twice`, "2 models are marked"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	if _, err := New(Config{}); err == nil || !strings.Contains(err.Error(), "no model is served") {
		t.Errorf("got %v", err)
	}
}

func TestServerTimeouts(t *testing.T) {
	s := hijack.NewServer(":1", nil)
	if s.WriteTimeout != 0 || s.ReadTimeout != 0 || s.IdleTimeout < 120*time.Second || s.ReadHeaderTimeout == 0 ||
		s.MaxHeaderBytes == 0 {
		t.Errorf("got %+v", s)
	}
}

func TestClientRequestID(t *testing.T) {
	r := mustRequest(t, t.Context(), "")
	r.Header["X-Client-Request-Id"] = []string{"a\nlevel=ERROR \x1b[31m é" + strings.Repeat("x", 200)}
	if got := exchange.ClientRequestID(r); strings.ContainsAny(got, "\n\x1bé") || len(got) > 128 ||
		!strings.HasPrefix(got, "alevel") {
		t.Errorf("got %q", got)
	}
}
