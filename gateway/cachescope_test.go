package gateway

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"parley"
	"parley/gateway/job"
	"parley/gateway/tenant"
)

// TestCacheScopes has two callers of one organisation ask the same. What the
// second gets of the first one's context and answer follows from the scope.
func TestCacheScopes(t *testing.T) {
	pro := parley.Pro
	for _, c := range []struct {
		scope         job.CacheScope
		first, second string
		shares        bool
	}{
		{"", "alice", "adam", false},
		{"", "alice", "alice", true},
		{"", "", "", true},
		{job.ScopeUser, "alice", "adam", false},
		{job.ScopeUser, "alice", "", false},
		{job.ScopeOrganization, "alice", "adam", true},
		{job.ScopeKey, "alice", "alice", false},
		{job.ScopeKey, "", "", false},
	} {
		t.Run(fmt.Sprintf("%s %q %q", c.scope, c.first, c.second), func(t *testing.T) {
			s, rig := startGuarded(t, newSlowEngine(t), newStoreName(t), func(config *Config) {
				config.CacheScope = c.scope
			})
			first, _ := rig.key(tenant.NewKey{Organization: "acme", User: c.first, Tier: &pro})
			second, _ := rig.key(tenant.NewKey{Organization: "acme", User: c.second, Tier: &pro})
			prompt := strings.Repeat("one two three four ", 12)
			s.probe(first, prompt)
			if s.probe(first, prompt+"five").cached == 0 {
				t.Fatal("the caller's own context is not found, so the test shows nothing")
			}
			if cached := s.probe(second, prompt+"six").cached; (cached > 0) != c.shares {
				t.Errorf("%d tokens of the first caller's context are found; shared is to be %t", cached, c.shares)
			}
			body := fmt.Sprintf(`{"model":%q,"prompt":%q,"max_tokens":1,"temperature":0}`, modelID, prompt)
			response, _ := s.do("POST", "/v1/completions", body, bearer(second)...)
			if got := response.Header.Get("X-Answer-Shared") != ""; got != c.shares {
				t.Errorf("the first caller's answer is shared: %t, want %t", got, c.shares)
			}
		})
	}
}

// TestSessionsBelongToIdentities is the attack by which one tenant ended another's
// completions: both name the same session, and show their keys in x-api-key.
func TestSessionsBelongToIdentities(t *testing.T) {
	pro := parley.Pro
	for _, c := range []struct {
		name          string
		first, second tenant.NewKey
		ends          bool
	}{
		{"another organisation", tenant.NewKey{Organization: "a"}, tenant.NewKey{Organization: "b"}, false},
		{"another user", tenant.NewKey{Organization: "a", User: "ann"}, tenant.NewKey{Organization: "a", User: "bob"},
			false},
		{"another key", tenant.NewKey{Organization: "a", User: "ann"}, tenant.NewKey{Organization: "a", User: "ann"},
			false},
		{"the same key in another header", tenant.NewKey{Organization: "a"}, tenant.NewKey{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &worker{script: speak(t, "one two three", 200*time.Millisecond)}
			s, rig := startGuarded(t, w, newStoreName(t))
			c.first.Tier, c.second.Tier = &pro, &pro
			first, _ := rig.key(c.first)
			header := []string{"Authorization", "Bearer " + first}
			if !c.ends {
				second, _ := rig.key(c.second)
				header = []string{"X-Api-Key", second}
			}
			body := fimBody(`,"prompt":"a","suffix":"c","user":"dev"`)
			begun, done := make(chan struct{}), make(chan string)
			go func() {
				response := s.open(t.Context(), "POST", "/v1/fim/completions",
					strings.Replace(body, "{", `{"stream":true,`, 1), "X-Api-Key", first)
				defer response.Body.Close()
				reader := bufio.NewReader(response.Body)
				line, _ := reader.ReadString('\n')
				close(begun)
				rest, err := io.ReadAll(reader)
				if err != nil {
					t.Error(err)
				}
				done <- line + string(rest)
			}()
			<-begun
			if response, text := s.do("POST", "/v1/fim/completions", body, header...); response.StatusCode != 200 {
				t.Errorf("the newest gets %d: %s", response.StatusCode, text)
			}
			if got := strings.Contains(<-done, `"code":"superseded"`); got != c.ends {
				t.Errorf("the one before was ended: %t, want %t", got, c.ends)
			}
		})
	}
}
