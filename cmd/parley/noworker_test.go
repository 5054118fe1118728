package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestNoWorkerIsSaid serves with a worker that cannot join, because it has other models:
// readiness and requests say so, and name no other cause.
func TestNoWorkerIsSaid(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"another","object":"model"}]}`)
	}))
	defer elsewhere.Close()
	s := startServer(t, "--model", "polly-mini", "--worker", "openai-chat="+elsewhere.URL, "--worker-wait", "1s")
	const want = "No worker for the model 'polly-mini' can take your request now (pool 'default': no worker has joined)"
	for _, ask := range []func() (*http.Response, error){
		func() (*http.Response, error) { return http.Get(s.url + "/readyz") },
		func() (*http.Response, error) {
			return http.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(
				`{"model":"polly-mini","messages":[{"role":"user","content":"hi"}]}`))
		},
	} {
		began := time.Now()
		resp, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != 503 || !strings.Contains(string(body), want) {
			t.Errorf("%v, %d: %s", err, resp.StatusCode, body)
		}
		if took := time.Since(began); took > 30*time.Second { // a request may wait for a minute
			t.Errorf("it took %v to say so", took)
		}
	}
}
