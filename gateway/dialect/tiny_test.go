package dialect

import (
	"encoding/json"
	"os"
	"sync"
	"testing"

	"parley/internal/testkit"
	"parley/token"
)

var tinyTokenizer = sync.OnceValue(func() *token.Tokenizer {
	t, err := token.Load(testkit.Golden("tiny-llama"))
	if err != nil {
		panic(err)
	}
	return t
})

// tinyTokenizerWith has further special tokens.
func tinyTokenizerWith(t *testing.T, marks ...string) *token.Tokenizer {
	raw, err := os.ReadFile(testkit.Golden("tiny-llama", "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	next, added := float64(tinyTokenizer().Size()), file["added_tokens"].([]any)
	for i, mark := range marks {
		added = append(added, map[string]any{"id": next + float64(i), "content": mark, "special": true,
			"single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
	}
	file["added_tokens"] = added
	changed, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/tokenizer.json", changed, 0o600); err != nil {
		t.Fatal(err)
	}
	tokenizer, err := token.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tokenizer
}
