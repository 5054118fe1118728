package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestChatWithKeys: a server that wants a key says so and what to do, whether it
// was named or found; the key in PARLEY_API_KEY is shown to it.
func TestChatWithKeys(t *testing.T) {
	data := t.TempDir()
	server := startServerIn(t, data)
	exe, err := exec.LookPath("parley")
	if err != nil {
		t.Fatal(err)
	}
	made, err := exec.CommandContext(t.Context(), exe, "keys", "create", "--name", "me", "--data", data).Output()
	if err != nil {
		t.Fatal(err)
	}
	key := strings.TrimSpace(string(made))
	c := newChatter(t)
	c.vars = []string{"PARLEY_API_KEY=", "TEST_DEFAULT_URL=" + server.url}
	var refused []byte
	for range 100 { // a running server hears of keys within a second
		if refused, err = c.command("--set", "max_tokens=1", "hello").CombinedOutput(); err != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err == nil || !strings.Contains(string(refused), "set PARLEY_API_KEY to an API key") {
		t.Fatalf("without a key: %v\n%s", err, refused)
	}
	if said, err := c.command("--url", server.url, "hello").CombinedOutput(); err == nil ||
		strings.Contains(string(said), "parley serve") {
		t.Errorf("a server that was named: %v\n%s", err, said)
	}
	c.vars = append(c.vars, "PARLEY_API_KEY="+key)
	said, err := c.command(append(exact, capital)...).CombinedOutput()
	if err != nil || !strings.Contains(string(said), "Paris") {
		t.Errorf("with the key: %v\n%s", err, said)
	}
}
