package suggest

import (
	"strings"
	"testing"
)

func TestRoute(t *testing.T) {
	known := []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/models", "/v1/messages"}
	for _, c := range []struct{ path, want string }{
		{"/chat/completions", "Did you mean /v1/chat/completions?"},
		{"//v1/chat/completions", "Did you mean /v1/chat/completions?"},
		{"/v1/v1/models", "Did you mean /v1/models?"},
		{"/v1/models/", "Did you mean /v1/models?"},
		{"/api/v1/chat/completions", "Did you mean /v1/chat/completions?"},
		{"/anthropic/v1/messages", "Did you mean /v1/messages?"},
		{"/v1/chat/completion", "Did you mean /v1/chat/completions?"},
		{"/completion", "Use POST /v1/completions"},
		{"/v1/image/x", ""},
		{"/v1/images/generations", "text only"},
		{"/v1/realtime", "no speech"},
		{"/v1/messages/batches", "POST /v1/batches"},
		{"/favicon.ico", ""},
		{"/", ""},
		{"", ""},
	} {
		got := Route(c.path, known)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%q: %q, want %q", c.path, got, c.want)
		}
	}
}

func TestName(t *testing.T) {
	known := []string{"addr", "model", "data", "kv-type", "queue-wait", "config"}
	for mistyped, want := range map[string]string{
		"adr":       "addr",
		"modle":     "model",
		"kvtype":    "kv-type",
		"queuewait": "queue-wait",
		"port":      "",
		"x":         "",
	} {
		if got := Name(mistyped, known); got != want {
			t.Errorf("for %q it suggests %q, want %q", mistyped, got, want)
		}
	}
}
