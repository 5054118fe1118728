package token

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley"
)

// A trained is what Hugging Face tokenizers made of one text; testdata/hf/make.py
// wrote it.
type trained struct {
	Text        string
	IDs         []parley.Token
	Decoded     string
	WithSpecial []parley.Token `json:"with_special"`
	DecodedSkip *string        `json:"decoded_skip"`
}

// TestTrainedVocabularies compares tokenizers of many kinds, trained for this
// test, with the reference implementation on random strings.
func TestTrainedVocabularies(t *testing.T) {
	files, err := filepath.Glob("testdata/hf/*.fuzz.jsonl.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no data: %v", err)
	}
	for _, file := range files {
		base := strings.TrimSuffix(file, ".fuzz.jsonl.gz")
		t.Run(filepath.Base(base), func(t *testing.T) {
			text, err := os.ReadFile(base + ".json")
			if err != nil {
				t.Fatal(err)
			}
			tok, err := Parse(text, nil)
			if err != nil {
				t.Fatal(err)
			}
			checkTrained(t, tok, readTrained(t, file))
		})
	}
}

func readTrained(t *testing.T, file string) (rows []trained) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for scan := bufio.NewScanner(z); scan.Scan(); {
		var row trained
		if err := json.Unmarshal(scan.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

func checkTrained(t *testing.T, tok *Tokenizer, rows []trained) {
	failures := 0
	fail := func(format string, args ...any) {
		if failures++; failures <= 5 {
			t.Errorf(format, args...)
		}
	}
	for _, row := range rows {
		got, err := tok.Encode(row.Text, Options{ParseSpecial: true})
		if err != nil || !slices.Equal(got, row.IDs) {
			fail("%q: %v, %v; want %v", row.Text, got, err, row.IDs)
		}
		if text := tok.Decode(row.IDs, false); text != row.Decoded {
			fail("%v decode to %q, want %q", row.IDs, text, row.Decoded)
		}
		if row.WithSpecial != nil {
			if got, err := tok.Encode(row.Text, Options{ParseSpecial: true, AddSpecial: true}); err != nil ||
				!slices.Equal(got, row.WithSpecial) {
				fail("%q with special tokens: %v, %v; want %v", row.Text, got, err, row.WithSpecial)
			}
			if text := tok.Decode(row.IDs, true); text != *row.DecodedSkip {
				fail("%v without special tokens decode to %q, want %q", row.IDs, text, *row.DecodedSkip)
			}
		}
	}
	if failures > 5 {
		t.Errorf("and %d more of %d", failures-5, len(rows))
	}
}
