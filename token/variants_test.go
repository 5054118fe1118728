package token

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"parley/internal/testkit"
)

// A variant is one of two small tokenizers with parts replaced, and what
// Hugging Face tokenizers 0.23.2 makes of random texts with it. The variants
// cover the parts and flags of tokenizer.json files in use: patterns of all
// families, normalizers, Metaspace, added tokens, decoders, model options.
type variant struct {
	Name    string
	Base    string
	Patch   map[string]json.RawMessage
	Cases   []example
	Decodes []example
}

func variants(t testing.TB) []variant {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "variants.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []variant
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// document returns the variant's tokenizer.json.
func (v variant) document(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join("testdata", "spm.json")
	if v.Base == "tiny" {
		path = testkit.Golden("tiny-llama", "tokenizer.json")
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]json.RawMessage{}
	model := map[string]json.RawMessage{}
	for _, step := range []error{json.Unmarshal(raw, &parts), json.Unmarshal(parts["model"], &model)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	maps.Copy(parts, v.Patch)
	if changed, ok := v.Patch["model"]; ok {
		if err := json.Unmarshal(changed, &model); err != nil {
			t.Fatal(err)
		}
		if parts["model"], err = json.Marshal(model); err != nil {
			t.Fatal(err)
		}
	}
	out, err := json.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (v variant) tokenizer(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := Parse(v.document(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestVariants(t *testing.T) {
	for _, v := range variants(t) {
		t.Run(v.Name, func(t *testing.T) {
			tok := v.tokenizer(t)
			for _, e := range v.Cases {
				got, err := tok.Encode(e.Text, Options{AddSpecial: true, ParseSpecial: true})
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, e.IDs) {
					t.Errorf("%q\n got %v\nwant %v", e.Text, got, e.IDs)
				}
			}
			for _, e := range slices.Concat(v.Cases, v.Decodes) {
				if got := tok.Decode(e.IDs, false); got != e.Decoded {
					t.Errorf("decoding %v\n got %q\nwant %q", e.IDs, got, e.Decoded)
				}
			}
		})
	}
}

// TestStreaming cuts streams of random tokens at every place and expects the
// whole each time.
func TestStreaming(t *testing.T) {
	for _, v := range variants(t) {
		t.Run(v.Name, func(t *testing.T) {
			tok := v.tokenizer(t)
			for _, e := range slices.Concat(v.Decodes, v.Cases) {
				checkStream(t, tok, e.IDs)
			}
		})
	}
}
