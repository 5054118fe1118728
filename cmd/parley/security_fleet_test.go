package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestSecurityJoinToken has a host that knows the join token try to do more than join:
// operate the fleet, register an engine of another kind or in another network, take the
// name of a worker and be sent what others ask.
func TestSecurityJoinToken(t *testing.T) {
	const join, operate = "join-token-0123456789", "operate-token-0123456789"
	path := filepath.Join(t.TempDir(), "parley.yaml")
	config := "model: polly-mini\nfleet_join_token: " + join + "\nfleet_operate_token: " + operate +
		"\npools: [{name: own, purpose: any, workers: [{register: true}]}]\n"
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	if _, err := invoke(t, "keys", "create", "me", "--admin", "--data", data); err != nil {
		t.Fatal(err)
	}
	front := startServerIn(t, data, "--config", path)
	go func() {
		for range front.lines {
		}
	}()
	var stolen atomic.Pointer[string]
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen := r.URL.Path + " " + r.Header.Get("Authorization") + " " + string(body)
		stolen.Store(&seen)
	}))
	defer thief.Close()
	call := func(method, path, token, body string) (int, string) {
		return callFleet(t, method, front.url+path, token, body)
	}
	status, text := call("POST", "/fleet/register", join, place("w", "http://127.0.0.1:9", "parley"))
	var given struct{ Credential string }
	if err := json.Unmarshal([]byte(text), &given); err != nil || status != 200 || given.Credential == "" {
		t.Fatalf("%d %s", status, text)
	}
	if status, text := call("POST", "/fleet/register", given.Credential,
		place("w", "http://127.0.0.1:9", "parley")); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	for _, c := range []struct {
		name, method, path, token, body string
		want                            int
	}{
		{"lists workers", "GET", "/fleet/workers", join, "", 401},
		{"reads findings", "GET", "/fleet/findings", join, "", 401},
		{"drains", "POST", "/fleet/workers/w/drain", join, "", 401},
		{"drains with a worker's credential", "POST", "/fleet/workers/w/drain", given.Credential, "", 401},
		{"registers with the operate token", "POST", "/fleet/register", operate,
			place("x", "http://127.0.0.1:9", "parley"), 401},
		{"registers without", "POST", "/fleet/register", "", place("x", "http://127.0.0.1:9", "parley"), 401},
		{"registers another kind", "POST", "/fleet/register", join, place("evil", thief.URL, "openai"), 403},
		{"registers in another network", "POST", "/fleet/register", join,
			place("evil", "http://192.0.2.66:8000", "parley"), 403},
		{"registers the cloud's secrets", "POST", "/fleet/register", join,
			place("evil", "http://169.254.169.254", "parley"), 403},
		{"takes the name", "POST", "/fleet/register", join, place("w", thief.URL, "parley"), 409},
		{"removes it", "DELETE", "/fleet/register", join, `{"name":"w"}`, 403},
		{"operator lists", "GET", "/fleet/workers", operate, "", 200},
	} {
		if status, text := call(c.method, c.path, c.token, c.body); status != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, status, text, c.want)
		}
	}
	if seen := stolen.Load(); seen != nil {
		t.Errorf("the thief was sent %s", *seen)
	}
}

// place is the registration of a worker.
func place(name, url, kind string) string {
	return fmt.Sprintf(`{"name":%q,"url":%q,"kind":%q}`, name, url, kind)
}

// callFleet calls a route of the fleet with a token.
func callFleet(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}
