package main

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"parley/cli/monitor"
	"parley/internal/load"
)

// told runs the program and returns what it printed.
func told(t *testing.T, args ...string) string {
	t.Helper()
	exe, err := exec.LookPath("parley") // testscript.Main put this test binary there
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), exe, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestPs looks at a server while it answers.
func TestPs(t *testing.T) {
	s := startServer(t)
	body := s.stream(t, 1500)
	defer body.Close()
	if _, err := body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	var state monitor.ServerState
	if err := json.Unmarshal([]byte(told(t, "ps", "--url", s.url, "--json")), &state); err != nil {
		t.Fatal(err)
	}
	if state.URL != s.url || len(state.Models) != 2 || state.UptimeSeconds < 0 {
		t.Fatalf("%+v", state)
	}
	if m := state.Models[0]; m.Model != "polly" || m.State != "ready" || m.Running != 1 || m.Waiting != 0 ||
		m.KVUsed <= 0 || m.TokensPerSecond <= 0 {
		t.Errorf("%+v", m)
	}
	text := told(t, "ps", "--url", s.url)
	for _, part := range []string{"MODEL", "RUNNING", "KV USED", "TOKENS/S", "polly-mini", s.url} {
		if !strings.Contains(text, part) {
			t.Errorf("ps does not say %q:\n%s", part, text)
		}
	}
	if text := told(t, "models", "--url", s.url); !strings.Contains(text, "polly-mini  2048 tokens  parley") {
		t.Errorf("models says\n%s", text)
	}
	if text := told(t, "__complete", "chat", "--url", s.url, "--model", ""); !strings.Contains(text, "polly-mini\n") {
		t.Errorf("completion says\n%s", text)
	}
}

// TestShellCompletes has bash complete a model's name with a colon, which it
// takes for the end of a word.
func TestShellCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	s := startServer(t, "--model", "org/one:tag=polly-mini")
	script := `eval "$(parley completion bash)"
COMP_LINE="parley chat --url ` + s.url + ` --model org/one:t"
COMP_POINT=${#COMP_LINE}
COMP_WORDS=(parley chat --url "` + s.url + `" --model org/one : t)
COMP_CWORD=7
_get_comp_words_by_ref() { cur="org/one:t"; prev="--model"; words=(parley chat --url "` + s.url +
		`" --model org/one:t); cword=5; }
_init_completion() { _get_comp_words_by_ref; }
__start_parley
printf '%s\n' "${COMPREPLY[@]}"`
	out, err := exec.CommandContext(t.Context(), bash, "-c", script).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "tag") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestUntrustedCertificate wants a server whose certificate nobody vouches for to be
// told apart from no server.
func TestUntrustedCertificate(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	_, err := invoke(t, "ps", "--url", s.URL)
	if err == nil || errors.Is(err, load.ErrNoServer) || !strings.Contains(err.Error(), "is not trusted") ||
		!strings.Contains(err.Error(), "SSL_CERT_FILE") {
		t.Errorf("it says %v", err)
	}
}
