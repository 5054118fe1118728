//go:build linux || darwin

package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley"
	"parley/internal/testkit"
	"parley/model/weights"
)

// TestTruncatedFileFailsRequestsOnly cuts a model file short while it is
// served, as `cp` over it does first. Requests fail with a reason; the process
// and a model in another file are unharmed.
func TestTruncatedFileFailsRequestsOnly(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(testkit.Root(), "internal/builtin/polly-mini.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "live.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	ck, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	h := startHost(t, ck, Config{Name: "live"})
	other := startHost(t, openBuiltin(t, "polly-mini"), Config{Name: "other"})
	prompt := chatPrompt(t, h, "What is the capital of France?")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}

	for range 2 {
		var failure error
		for _, err := range h.Generate(t.Context(), &parley.Request{Prompt: prompt, MaxTokens: 8}) {
			failure = err
		}
		if parley.CodeOf(failure) != parley.Unavailable || !strings.Contains(failure.Error(), "rename") {
			t.Fatalf("a request on a truncated file: %v", failure)
		}
	}
	if got := ask(t, other, "What is 7 + 5?"); got == "" {
		t.Error("a model in another file does not answer")
	}
}
