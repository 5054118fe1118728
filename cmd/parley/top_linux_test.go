package main

import (
	"os/exec"
	"strings"
	"testing"

	"parley/internal/testkit"
)

// TestTopInATerminal watches a real server, and ends by each of the keys.
func TestTopInATerminal(t *testing.T) {
	s := startServer(t, "--model", "polly-mini")
	exe, err := exec.LookPath("parley")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"q", "\x1b", "\x03"} {
		x := testkit.StartTerminal(t, 80, 24, exec.CommandContext(t.Context(), exe, "top", "--url", s.url))
		x.WaitFor("polly-mini")
		x.Type("x" + key)
		if code := x.Exit(); code != 0 {
			t.Errorf("%q ends it with exit code %d", key, code)
		}
		if raw := x.Raw(); !strings.HasPrefix(raw, "\x1b[?1049h") || !strings.HasSuffix(raw, "\x1b[?1049l") {
			t.Errorf("%q does not give the screen back: %q", key, raw[max(0, len(raw)-60):])
		}
	}
}
