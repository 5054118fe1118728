package answer

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/gateway/dialect"
	"parley/internal/testkit"
	"parley/token"
)

func TestTextAroundCallsKeepsItsOrder(t *testing.T) {
	box := dialect.Tools{Syntax: dialect.Table[0], Thoughts: dialect.Thinking[0]}
	r := box.Reader([]dialect.Tool{{Name: "f"}}, false, false)()
	r.Read(
		"<think>a</think>b<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>c<tool_call>{\"name\": \"g\", " +
			"\"arguments\": {}}</tool_call>")
	pieces := piecesOf(r.Parts())
	for _, p := range pieces {
		p.Calls[0].ID = ""
	}
	want := []Piece{
		{Reasoning: "a", Text: "b", Calls: []CallPiece{{Name: "f", Arguments: "{}"}}},
		{Text: "c", Calls: []CallPiece{{Index: 1, Name: "g", Arguments: "{}"}}},
	}
	if diff := cmp.Diff(want, pieces, cmp.AllowUnexported(Piece{}, CallPiece{})); diff != "" {
		t.Error(diff)
	}
}

// TestSpecialMarks has vocabularies in which marks are special tokens: they are
// part of answers all the same.
func TestSpecialMarks(t *testing.T) {
	raw, err := os.ReadFile(testkit.Golden("tiny-llama", "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	next := float64(tinyTokenizer().Size())
	added := file["added_tokens"].([]any)
	for i, mark := range []string{"[TOOL_CALLS]", "[ARGS]", "<|hidden|>"} {
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
	ids, err := tokenizer.Encode("Hm[TOOL_CALLS]f[ARGS]{}<|hidden|>", token.Options{ParseSpecial: true})
	if err != nil {
		t.Fatal(err)
	}
	text := newText(tokenizer.NewAnswerDecoder(), nil)
	var said strings.Builder
	for _, id := range ids {
		said.WriteString(text.push(id))
	}
	said.WriteString(text.flush())
	if said.String() != "Hm[TOOL_CALLS]f[ARGS]{}" || tokenizer.Decode(ids, true) != "Hmf{}" {
		t.Errorf("said %q, without special tokens %q", said.String(), tokenizer.Decode(ids, true))
	}
}
