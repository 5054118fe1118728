package models

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"parley"
	"parley/gateway/openai"
	"parley/token"
)

// TestHugeTextsTakeTheMemoryOfTheirContext has prompts of 8 MiB refused that do not fit
// 4,096 tokens, for vocabularies of all kinds, also those whose bytes tell nothing: what
// is allocated meanwhile is bounded by the context, not by the text.
func TestHugeTextsTakeTheMemoryOfTheirContext(t *testing.T) {
	const context, bytes, most = 4096, 8 << 20, 64 << 20
	files, err := filepath.Glob("../../token/testdata/hf/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tokenizers: %v", err)
	}
	worst := uint64(0)
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		tokenizer, err := token.Parse(raw, nil)
		if err != nil {
			t.Fatal(err)
		}
		m := newModel(Config{ID: "m", Tokenizer: tokenizer, ContextTokens: context}, time.Now)
		m.BytesPerToken() // which is found out once
		for _, part := range []string{"xyzzy", "12345", "\u00e9\u4e16\U0001f600", "a\r\n", "!?;", "the cat sat "} {
			text := strings.Repeat(part, bytes/len(part))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := m.CheckPrompts([]openai.Prompt{{Param: "prompt", Text: text}}, nil, 0)
			runtime.ReadMemStats(&after)
			took := after.TotalAlloc - before.TotalAlloc
			if worst = max(worst, took); parley.CodeOf(err) != parley.ContextTooLong || took > most {
				t.Errorf("%s, %q: %v, with %d bytes allocated", filepath.Base(path), part, err, took)
			}
		}
	}
	t.Logf("at most %d KiB were allocated", worst>>10)
}

// TestTextsThatFitAreNotRefused counts texts of many bytes in few tokens.
func TestTextsThatFitAreNotRefused(t *testing.T) {
	raw, err := os.ReadFile("../../token/testdata/hf/qwen2.json")
	if err != nil {
		t.Fatal(err)
	}
	tokenizer, err := token.Parse(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{" ", "the ", "a\n", "\u4e16", "0"} {
		text := strings.Repeat(part, (200<<10)/len(part))
		ids, err := tokenizer.Encode(text, token.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m := newModel(Config{ID: "m", Tokenizer: tokenizer, ContextTokens: len(ids)}, time.Now)
		if err := m.CheckPrompts([]openai.Prompt{{Param: "prompt", Text: text}}, nil, 0); err != nil {
			t.Errorf("%q, of which %d bytes have %d tokens: %v", part, len(text), len(ids), err)
		}
	}
}
