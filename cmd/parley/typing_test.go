package main

import (
	"os"
	"path/filepath"
	"testing"

	"parley/internal/load"
	"parley/model/weights"
)

// TestTypingReadsLittleAgain types into the middle of a long file: hardly any of
// it is read again for a keystroke. How many tokens are cached does not depend on
// the size of the model, so a small one with a long context serves.
func TestTypingReadsLittleAgain(t *testing.T) {
	shape, err := weights.ShapeNamed("tiny-llama")
	if err != nil {
		t.Fatal(err)
	}
	shape.Config.Context = 8192
	path := filepath.Join(t.TempDir(), "long.gguf")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := weights.WriteRandom(file, shape, weights.Q8_0, 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, "--model", "long="+path)
	client, err := load.NewClient(load.Target{URL: s.url, Model: "long", Send: load.Text})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	typing := load.Typing{Tokens: 6000, Keystrokes: 50, OutputTokens: 1, AfterFirst: true}
	got, err := client.Type(t.Context(), typing)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d tokens were cached: %.2f%%", got.CachedTokens, got.PromptTokens, 100*got.CachedShare())
	if mean := got.PromptTokens / typing.Keystrokes; mean < 5500 || mean > 6700 {
		t.Errorf("the file has %d tokens", mean)
	}
	if got.CachedShare() < 0.97 {
		t.Errorf("%.2f%% of the tokens were cached, want 97%%", 100*got.CachedShare())
	}
	typing.AfterFirst, typing.Keystrokes = false, 2
	if again, err := client.Type(t.Context(), typing); err != nil || again.CachedShare() > 0.7 {
		t.Errorf("with the text before the cursor first, %.2f%% were cached (%v): the measurement tells nothing",
			100*again.CachedShare(), err)
	}
}
