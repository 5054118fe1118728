package token

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"parley"
	"parley/internal/testkit"
)

// A reference is one vocabulary with what the reference tokenizers make of
// test texts.
type reference struct{ dir string }

func references(t testing.TB) []reference {
	t.Helper()
	found, err := os.ReadDir(testkit.SharedData(t, "tokenizers"))
	if err != nil {
		t.Fatal(err)
	}
	var all []reference
	for _, entry := range found {
		if entry.IsDir() {
			all = append(all, reference{testkit.SharedData(t, "tokenizers", entry.Name())})
		}
	}
	return all
}

func (r reference) has(name string) bool {
	_, err := os.Stat(filepath.Join(r.dir, name))
	return err == nil
}

// tokenizers returns the vocabulary as read from each file that holds it.
func (r reference) tokenizers(t testing.TB) map[string]*Tokenizer {
	t.Helper()
	all := map[string]*Tokenizer{}
	if r.has("tokenizer.json") {
		tok, err := Load(r.dir)
		if err != nil {
			t.Fatal(err)
		}
		all["tokenizer.json"] = tok
	}
	if r.has("vocab.gguf") {
		tok, err := FromGGUF(readGGUF(t, filepath.Join(r.dir, "vocab.gguf")))
		if err != nil {
			t.Fatal(err)
		}
		all["vocab.gguf"] = tok
	}
	return all
}

// sameWords says whether two tokenizers give ordinary tokens the same ids.
func sameWords(a, b *Tokenizer) bool {
	for id := range min(a.Size(), b.Size()) {
		id := parley.Token(id)
		x, _ := a.Text(id)
		y, _ := b.Text(id)
		if x != y && !a.IsSpecial(id) && !b.IsSpecial(id) {
			return false
		}
	}
	return true
}

func TestVectors(t *testing.T) {
	for _, r := range references(t) {
		t.Run(filepath.Base(r.dir), func(t *testing.T) {
			if !r.has("vectors.inp") {
				t.Skip("no vectors")
			}
			all := r.tokenizers(t)
			// The vectors are of the GGUF vocabulary where the two files differ.
			if a, b := all["tokenizer.json"], all["vocab.gguf"]; a != nil && b != nil && !sameWords(a, b) {
				t.Log("tokenizer.json holds another vocabulary than vocab.gguf; the vectors belong to the latter")
				delete(all, "tokenizer.json")
			}
			texts, want := readVectors(t, r.dir)
			for name, tok := range all {
				for i, text := range texts {
					if got := encode(t, tok, text); !slices.Equal(got, want[i]) {
						t.Errorf("%s: %q\n got %v\nwant %v", name, text, got, want[i])
					}
				}
			}
		})
	}
}

func readVectors(t *testing.T, dir string) (texts []string, ids [][]parley.Token) {
	t.Helper()
	in, err := os.ReadFile(filepath.Join(dir, "vectors.inp"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(filepath.Join(dir, "vectors.out"))
	if err != nil {
		t.Fatal(err)
	}
	texts = strings.Split(string(in), "\n__ggml_vocab_test__\n")
	lines := strings.Split(string(out), "\n")
	if len(lines) < len(texts) || len(texts) < 10 {
		t.Fatalf("%d texts and %d lines of ids", len(texts), len(lines))
	}
	for i := range texts {
		row := []parley.Token{}
		for field := range strings.FieldsSeq(lines[i]) {
			id, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			row = append(row, parley.Token(id))
		}
		ids = append(ids, row)
	}
	return texts, ids
}

func encode(t testing.TB, tok *Tokenizer, text string) []parley.Token {
	t.Helper()
	ids, err := tok.Encode(text, Options{ParseSpecial: true})
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return ids
}

// An example is a text with its ids and what these decode to.
type example struct {
	Text    string
	IDs     []parley.Token
	Decoded string
}

func (e example) check(t *testing.T, tok *Tokenizer) {
	t.Helper()
	if got := encode(t, tok, e.Text); !slices.Equal(got, e.IDs) {
		t.Errorf("%q\n got %v\nwant %v", e.Text, got, e.IDs)
	}
	if got := tok.Decode(e.IDs, false); got != e.Decoded {
		t.Errorf("decoding %v\n got %q\nwant %q", e.IDs, got, e.Decoded)
	}
	d := tok.NewDecoder(false)
	var streamed strings.Builder
	for _, id := range e.IDs {
		streamed.WriteString(d.Push(id))
	}
	streamed.WriteString(d.Flush())
	if streamed.String() != e.Decoded {
		t.Errorf("streaming %v\n got %q\nwant %q", e.IDs, streamed.String(), e.Decoded)
	}
}

func TestRandomStrings(t *testing.T) {
	for _, r := range references(t) {
		t.Run(filepath.Base(r.dir), func(t *testing.T) {
			if !r.has("fuzz.jsonl.gz") {
				t.Skip("no random strings")
			}
			all := r.tokenizers(t)
			if a, b := all["tokenizer.json"], all["vocab.gguf"]; a != nil && b != nil && !sameWords(a, b) {
				delete(all, "vocab.gguf")
			}
			for _, e := range readExamples(t, filepath.Join(r.dir, "fuzz.jsonl.gz")) {
				for _, tok := range all {
					e.check(t, tok)
				}
			}
		})
	}
}

func readExamples(t *testing.T, path string) (all []example) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e example
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	if lines.Err() != nil || len(all) < 100 {
		t.Fatalf("%d examples, %v", len(all), lines.Err())
	}
	return all
}

func TestGolden(t *testing.T) {
	models := map[string]string{}
	for _, name := range []string{"tiny-llama", "tiny-qwen2", "tiny-qwen3"} {
		models[name] = testkit.Golden(name)
	}
	models["polly"] = filepath.Join(testkit.Root(), "..", "shared", "models", "polly")
	for name, dir := range models {
		t.Run(name, func(t *testing.T) {
			if !(reference{dir}).has("tokenizer.json") {
				t.Skipf("needs the tokenizer of %s, which is not part of the repository", name)
			}
			tok, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(testkit.Golden(name, "golden.json"))
			if err != nil {
				t.Fatal(err)
			}
			var golden struct {
				Encodings []example
				Chats     []struct {
					Rendered string
					IDs      []parley.Token
				}
			}
			if err := json.Unmarshal(raw, &golden); err != nil {
				t.Fatal(err)
			}
			if len(golden.Encodings) == 0 || len(golden.Chats) == 0 {
				t.Fatal("golden.json has no examples")
			}
			for _, e := range golden.Encodings {
				e.check(t, tok)
			}
			for _, c := range golden.Chats {
				if got := encode(t, tok, c.Rendered); !slices.Equal(got, c.IDs) {
					t.Errorf("%q\n got %v\nwant %v", c.Rendered, got, c.IDs)
				}
			}
		})
	}
}
