package host

import (
	"net/http"
	"strings"
	"testing"
)

// TestOpenWorkerRefusesWebPages sends what a web page can send to a worker without a
// key: cross-site requests, DNS rebinding, and bodies that need no consent.
func TestOpenWorkerRefusesWebPages(t *testing.T) {
	_, url := startWorker(t, ServerConfig{}, Config{KVTokens: 512, ContextTokens: 256})
	const ask = `{"prompt":"x","max_tokens":1}`
	for _, c := range []struct {
		name, method, path, body string
		want                     int
		header                   []string
	}{
		{"program", "POST", "/v1/completions", ask, 200, nil},
		{"foreign page puts it to sleep", "POST", "/sleep", "", 403, []string{"Origin", "https://evil.com"}},
		{"page of another port", "POST", "/sleep", "", 403, []string{"Origin", "http://127.0.0.1:3000"}},
		{"sandboxed page", "POST", "/wake_up", "", 403, []string{"Origin", "null"}},
		{"image", "GET", "/metrics", "", 403, []string{"Sec-Fetch-Site", "cross-site"}},
		{"rebinding lists models", "GET", "/v1/models", "", 403, []string{"Host", "evil.com"}},
		{"rebinding takes a snapshot", "GET", "/parley/v1/snapshot", "", 403, []string{"Host", "evil.com"}},
		{"rebinding reads metrics", "GET", "/metrics", "", 403, []string{"Host", "evil.com"}},
		{"rebinding reads health", "GET", "/health", "", 403, []string{"Host", "evil.com:8000"}},
		{"proxy", "GET", "/v1/models", "", 403, []string{"X-Forwarded-For", "9.9.9.9"}},
		{"text", "POST", "/v1/completions", ask, 400, []string{"Content-Type", "text/plain"}},
		{"form", "POST", "/v1/completions", ask, 400, []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{"sleep as text", "POST", "/sleep", "x", 400, []string{"Content-Type", "text/plain"}},
		{"JSON with a charset", "POST", "/v1/completions", ask, 200,
			[]string{"Content-Type", "application/json; charset=utf-8"}},
	} {
		if status, body := call(t, c.method, url+c.path, c.body, c.header...); status != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, status, body, c.want)
		}
	}
	if _, body := call(t, "GET", url+"/is_sleeping", ""); strings.TrimSpace(body) != `{"is_sleeping":false}` {
		t.Errorf("it sleeps: %s", body)
	}
}

// TestCredentials has a worker that registers answer who shows a credential of a
// gateway, and nobody else.
func TestCredentials(t *testing.T) {
	s, url := startWorker(t, ServerConfig{Registers: true}, Config{KVTokens: 512, ContextTokens: 256})
	models := func(bearer string) int {
		status, _ := call(t, http.MethodGet, url+"/v1/models", "", "Authorization", "Bearer "+bearer)
		return status
	}
	s.Accept("http://one", "first")
	s.Accept("http://two", "second")
	s.Accept("http://one", "third")
	for bearer, want := range map[string]int{"": 401, "first": 401, "second": 200, "third": 200, "other": 401} {
		if got := models(bearer); got != want {
			t.Errorf("with %q: %d, want %d", bearer, got, want)
		}
	}
	if status, _ := call(t, http.MethodGet, url+"/health", ""); status != 200 {
		t.Errorf("health: %d", status)
	}
}
