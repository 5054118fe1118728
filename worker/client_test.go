package worker

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"parley"
)

// TestRedirectsAreNotFollowed has workers of all kinds redirect requests: neither key
// nor prompt reaches another server.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var reached atomic.Int64
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer thief.Close()
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, thief.URL+r.URL.Path, status)
		}))
		for _, kind := range Kinds() {
			r := dial(t, Config{URL: s.URL, Kind: kind, Key: "secret", Text: spell, Model: "m"})
			if _, err := r.Probe(t.Context()); err == nil {
				t.Errorf("a %s worker that redirects with %d is said to be well", kind, status)
			}
			var last error
			for _, err := range r.Generate(t.Context(),
				&parley.Request{Prompt: []parley.Token{1}, Model: "m", MaxTokens: 1}) {
				last = err
			}
			if last == nil {
				t.Errorf("a %s worker that redirects with %d answers", kind, status)
			}
		}
		s.Close()
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("%d requests were sent elsewhere", n)
	}
}

// TestWorkersStayInTheirNetworks connects to a worker by a name: what it resolves to
// must be in the networks, for HTTP and for the native wire.
func TestWorkersStayInTheirNetworks(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{}`))
	}))
	defer s.Close()
	byName := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	for network, allowed := range map[string]bool{"127.0.0.0/8": true, "10.0.0.0/8": false} {
		r := dial(t, Config{URL: byName, Kind: Parley, Networks: []netip.Prefix{netip.MustParsePrefix(network)}})
		_, err := r.Probe(t.Context())
		if refused := err != nil && strings.Contains(err.Error(), "not in an allowed network"); refused == allowed {
			t.Errorf("%s: %v", network, err)
		}
		var last error
		for _, err := range r.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}}) {
			last = err
		}
		if refused := strings.Contains(last.Error(), "not in an allowed network"); refused == allowed {
			t.Errorf("%s, native: %v", network, last)
		}
	}
}

// TestRejectedKeys has engines reject the key of a gateway: the error names the engine, and where its key is set.
func TestRejectedKeys(t *testing.T) {
	for _, c := range []struct {
		status int
		key    string
		says   string
	}{
		{http.StatusUnauthorized, "", "No key is sent to it: set key or key_file of its entry in pools"},
		{http.StatusForbidden, "wrong", "It does not accept the key that it is sent: set key or key_file"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error":"Unauthorized"}`, c.status)
		}))
		defer s.Close()
		r := dial(t, Config{URL: s.URL, Kind: VLLM, Key: c.key})
		for _, err := range r.Generate(t.Context(), &parley.Request{Model: "m", Prompt: []parley.Token{1}}) {
			if _, ok := errors.AsType[*KeyError](err); !ok || parley.CodeOf(err) != parley.Unavailable ||
				!strings.Contains(err.Error(), s.URL) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%d: %v", c.status, err)
			}
		}
	}
}
