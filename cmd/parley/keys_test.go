package main

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"parley/cli"
)

// invoke runs a command line of parley and returns what it printed.
func invoke(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&bytes.Buffer{})
	err := root.ExecuteContext(t.Context())
	return strings.TrimSpace(out.String()), err
}

// statusWith asks a server with a key.
func statusWith(t *testing.T, url, key string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// TestKeysOfARunningServer makes keys beside a server that runs, and through it.
func TestKeysOfARunningServer(t *testing.T) {
	data := t.TempDir()
	s := startServerIn(t, data, "--model", "polly-mini")
	if status := statusWith(t, s.url, ""); status != 200 {
		t.Fatalf("without keys: %d", status)
	}
	until := func(key string, want int) {
		t.Helper()
		for statusWith(t, s.url, key) != want {
			time.Sleep(20 * time.Millisecond)
		}
	}
	admin, err := invoke(t, "keys", "create", "me", "--admin", "--data", data)
	if err != nil {
		t.Fatal(err)
	}
	until("", 401)
	until(admin, 200)
	os.Setenv("PARLEY_API_KEY", admin)
	t.Cleanup(func() { os.Unsetenv("PARLEY_API_KEY") })
	site, err := invoke(t, "keys", "create", "site", "--org", "acme", "--url", s.url)
	if err != nil || statusWith(t, s.url, site) != 200 {
		t.Fatalf("a key by the server: %v", err)
	}
	if list, err := invoke(t, "keys", "list", "--url", s.url); err != nil || !strings.Contains(list, "site") ||
		!strings.Contains(list, "admin") || strings.Contains(list, site) {
		t.Errorf("%v: %s", err, list)
	}
	fresh, err := invoke(t, "keys", "rotate", "site", "--url", s.url)
	if err != nil || statusWith(t, s.url, site) != 401 || statusWith(t, s.url, fresh) != 200 {
		t.Errorf("rotated: %v", err)
	}
	if status, _ := s.spendOne(t, fresh); status != 200 {
		t.Errorf("an answer for the key: %d", status)
	}
	whose := regexp.MustCompile(`key_\S+ +site +acme +1 `)
	for who, secret := range map[string]string{"the admin": admin, "the key's holder": fresh} {
		os.Setenv("PARLEY_API_KEY", secret)
		if used, err := invoke(t, "usage", "--by", "key", "--url", s.url); err != nil || !whose.MatchString(used) {
			t.Errorf("%s is told, %v: %s", who, err, used)
		}
	}
	tagged := regexp.MustCompile(`(?m)^ *tag:project .*\n *search +1 `)
	if used, err := invoke(t, "usage", "--by", "tag:project", "--url", s.url); err != nil || !tagged.MatchString(used) {
		t.Errorf("by tag, %v: %s", err, used)
	}
	if _, err := invoke(t, "usage", "--by", "tag:", "--url", s.url); !errors.Is(err, cli.ErrUsage) {
		t.Errorf("by a tag without a key: %v", err)
	}
	os.Setenv("PARLEY_API_KEY", admin)
	if _, err := invoke(t, "keys", "block", "site", "--data", data); err != nil {
		t.Error(err)
	}
	until(fresh, 401)
	if _, err := invoke(t, "keys", "unblock", "site", "--url", s.url); err != nil ||
		statusWith(t, s.url, fresh) != 200 {
		t.Errorf("unblocked: %v", err)
	}
	os.Setenv("PARLEY_API_KEY", fresh)
	if _, err := invoke(t, "keys", "list", "--url", s.url); err == nil ||
		!strings.Contains(err.Error(), "admin right") {
		t.Errorf("with a plain key: %v", err)
	}
	os.Setenv("PARLEY_API_KEY", admin)
	if _, err := invoke(t, "keys", "delete", "site", "--url", s.url); err != nil || statusWith(t, s.url, fresh) != 401 {
		t.Errorf("deleted: %v", err)
	}
	named := regexp.MustCompile(`key_\S+ +site \(deleted\) +acme +1 `)
	if used, err := invoke(t, "usage", "--by", "key", "--url", s.url); err != nil || !named.MatchString(used) {
		t.Errorf("usage of a deleted key, %v: %s", err, used)
	}
}
