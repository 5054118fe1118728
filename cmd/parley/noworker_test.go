package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestNoWorkerIsSaid serves with workers that cannot join, one because it has other models, one because it rejects the
// key: readiness, requests and the command say so, and operators are told the name and the reason of each.
func TestNoWorkerIsSaid(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"another","object":"model"}]}`)
	}))
	defer elsewhere.Close()
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"message":"wrong key","type":"invalid_request_error"}}`)
	}))
	defer locked.Close()
	data := t.TempDir()
	s := startServerIn(t, data, "--model", "polly-mini", "--worker", "openai-chat="+elsewhere.URL, "--worker",
		"openai-chat="+locked.URL, "--worker-wait", "1s")
	name := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }
	reasons := []string{
		name(elsewhere), "serves another, which is not a model of this server",
		name(locked), "wrong key",
	}
	ready := func(key string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, s.url+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	hasAll := func(text string, parts ...string) bool {
		for _, part := range parts {
			if !strings.Contains(text, part) {
				return false
			}
		}
		return true
	}
	const want = "No worker for the model 'polly-mini' can take your request now " +
		"(pool 'default': no worker has joined, 2 absent)"
	until(t, "readiness names both workers and the reasons", func() bool {
		code, body := ready("")
		return code == 503 && hasAll(body, append(reasons, want)...)
	})

	began := time.Now()
	resp, err := http.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(
		`{"model":"polly-mini","messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != 503 || !strings.Contains(string(body), want) ||
		strings.Contains(string(body), name(locked)) {
		t.Errorf("a client is told: %v, %d: %s", err, resp.StatusCode, body)
	}
	if took := time.Since(began); took > 30*time.Second { // a request may wait for a minute
		t.Errorf("it took %v to say so", took)
	}

	if out, err := invoke(t, "fleet", "status", "--url", s.url); err != nil || !hasAll(out, append(reasons, "absent",
		"cannot join")...) {
		t.Errorf("fleet status: %v\n%s", err, out)
	}

	// With keys, only operators are told names.
	admin, err := invoke(t, "keys", "create", "boss", "--admin", "--data", data)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "readiness counts the workers without their names", func() bool {
		code, body := ready("")
		return code == 503 && hasAll(body, want, "Workers that cannot join: 2") && !strings.Contains(body, name(locked))
	})
	if code, body := ready(strings.TrimSpace(admin)); code != 503 || !hasAll(body, reasons...) {
		t.Errorf("an operator is told: %d, %s", code, body)
	}
}
