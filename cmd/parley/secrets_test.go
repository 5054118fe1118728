package main

import (
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"parley/cli/settings"
)

// TestSecretsAreNotShown gives a server secrets as flags, and looks for them in what it
// logs and in its profile of itself.
func TestSecretsAreNotShown(t *testing.T) {
	const secret = "0123456789abcdef-the-secret"
	front := startServerIn(t, t.TempDir(), "--model", "polly-mini", "--worker", "http://127.0.0.1:9", "--log-level",
		"debug",
		"--fleet-join-token", secret, "--salt-key="+secret, "--worker-key", secret, "--fleet-operate-token", secret)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.url+"/debug/pprof/cmdline", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+secret)
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || strings.Contains(string(text), secret) {
		t.Errorf("%v: %s", err, text)
	}
	args := []string{"parley", "serve", "--worker-key", secret, "--salt-key=" + secret, "--pools", secret, "--addr",
		"a"}
	settings.RedactArguments(args)
	if joined := strings.Join(args, " "); strings.Contains(joined, secret) || !strings.HasSuffix(joined, "--addr a") {
		t.Error(joined)
	}
}

// TestShortSecretsAreRefused gives tokens of one character, with a fleet and without.
func TestShortSecretsAreRefused(t *testing.T) {
	exe, err := exec.LookPath("parley")
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--fleet-token", "--fleet-join-token", "--fleet-operate-token", "--worker-key",
		"--salt-key"} {
		out, err := exec.CommandContext(t.Context(), exe, "serve", "--addr", "127.0.0.1:0", "--model", "polly-mini",
			"--data", t.TempDir(), flag, "%").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "16 characters") || !strings.Contains(string(out), flag) ||
			strings.Contains(string(out), "%") {
			t.Errorf("%s: %v: %s", flag, err, out)
		}
	}
}
