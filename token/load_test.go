package token

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley"
)

const smallest = `{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}}`

func TestParseRefuses(t *testing.T) {
	for name, document := range map[string]string{
		"nothing":        ``,
		"not an object":  `[]`,
		"no model":       `{}`,
		"trailing text":  smallest + `x`,
		"unfinished":     smallest[:40],
		"WordPiece":      `{"model": {"type": "WordPiece", "vocab": {}}}`,
		"dropout":        `{"model": {"type": "BPE", "dropout": 0.5, "vocab": {}, "merges": []}}`,
		"huge id":        `{"model": {"type": "BPE", "vocab": {"a": 8000000}, "merges": []}}`,
		"overflowing id": `{"model": {"type": "BPE", "vocab": {"a": 99999999999999999999}, "merges": []}}`,
		"negative id":    `{"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}}`,
		"unknown merge":  `{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}}`,
		"merge of three": `{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a a a"]}}`,
		"merge of one":   `{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a"]]}}`,
		"bad escape":     `{"model": {"type": "BPE", "vocab": {"\q": 0}, "merges": []}}`,
		"not UTF-8":      "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"\xff\": 0}, \"merges\": []}}",
		"deep":           `{"normalizer": ` + strings.Repeat("[", 1000) + `}`,
		"normalizer":     strings.Replace(smallest, "{", `{"normalizer": {"type": "Magic"}, `, 1),
		"pre-tokenizer":  strings.Replace(smallest, "{", `{"pre_tokenizer": {"type": "Magic"}, `, 1),
		"pattern": strings.Replace(smallest, "{",
			`{"pre_tokenizer": {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "("}}, `, 1),
		"no pattern": strings.Replace(smallest, "{",
			`{"pre_tokenizer": {"type": "Split", "behavior": "Isolated"}, `, 1),
		"behavior": strings.Replace(smallest, "{",
			`{"pre_tokenizer": {"type": "Split", "behavior": "Odd", "pattern": {"String": "a"}}, `, 1),
		"scheme": strings.Replace(smallest, "{",
			`{"pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "odd"}, `, 1),
		"replacement": strings.Replace(smallest, "{",
			`{"pre_tokenizer": {"type": "Metaspace", "replacement": "__"}, `, 1),
		"decoder":        strings.Replace(smallest, "{", `{"decoder": {"type": "Magic"}, `, 1),
		"post-processor": strings.Replace(smallest, "{", `{"post_processor": {"type": "Magic"}, `, 1),
		"undefined special": strings.Replace(smallest, "{",
			`{"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}]}, `, 1),
		"special id": strings.Replace(smallest, "{",
			`{"post_processor": {"type": "RobertaProcessing", "cls": ["x", 99], "sep": ["y", 0]}, `, 1),
		"unigram unk":   `{"model": {"type": "Unigram", "unk_id": 5, "vocab": [["a", -1.5]]}}`,
		"unigram empty": `{"model": {"type": "Unigram", "vocab": []}}`,
	} {
		if _, err := Parse([]byte(document), nil); err == nil {
			t.Errorf("%s was accepted", name)
		} else if !strings.HasPrefix(err.Error(), "tokenizer.json: ") {
			t.Errorf("%s: the error does not name the file: %v", name, err)
		}
	}
}

func TestParseSmallest(t *testing.T) {
	tok, err := Parse([]byte(smallest), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := encode(t, tok, "abba"); !slices.Equal(got, []parley.Token{2, 1, 0}) {
		t.Errorf("got %v", got)
	}
	if got := tok.Decode([]parley.Token{2, 1}, false); got != "ab b" {
		t.Errorf("without a decoder tokens are joined by spaces, got %q", got)
	}
}

func TestParseEscapes(t *testing.T) {
	document := `{"model": {"type": "BPE", "vocab": {"\u0041\n\"\\\/": 0, "\ud83d\ude00": 1, "\ud83dx": 2}, "merges": []}}`
	tok, err := Parse([]byte(document), nil)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range []string{"A\n\"\\/", "😀", "\uFFFDx"} {
		if got, _ := tok.Text(parley.Token(id)); got != want {
			t.Errorf("%d is %q, want %q", id, got, want)
		}
	}
}

func TestLoadNothing(t *testing.T) {
	if _, err := Load(t.TempDir()); err == nil {
		t.Fatal("an empty directory was accepted")
	}
}

func TestUnigramWithoutUnknown(t *testing.T) {
	tok, err := Parse([]byte(`{"model": {"type": "Unigram", "vocab": [["a", -1], ["b", -2], ["ab", -1.5]]}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := encode(t, tok, "aab"); !slices.Equal(got, []parley.Token{0, 2}) {
		t.Errorf("got %v", got)
	}
	dst := []parley.Token{7}
	if got, err := tok.AppendEncode(dst, "axb", Options{}); err == nil || !slices.Equal(got, dst) {
		t.Errorf("got %v, %v", got, err)
	}
}

func ggufMeta(changes map[string]any) func(string) (any, bool) {
	meta := map[string]any{"model": "llama",
		"tokens": []string{"<unk>", "<s>", "</s>", "<0x0A>", "▁", "a", "b", "▁a", "ab", "[T]"},
		"scores": []float32{0, 0, 0, 0, -5, -6, -7, -1, -2, 0}, "token_type": []int32{2, 3, 3, 6, 1, 1, 1, 1, 1, 4}}
	maps.Copy(meta, changes)
	return func(key string) (any, bool) {
		v, ok := meta[strings.TrimPrefix(key, "tokenizer.ggml.")]
		return v, ok && v != nil
	}
}

func TestGGUFLlama(t *testing.T) {
	tok, err := FromGGUF(ggufMeta(nil))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]parley.Token{
		"ab":     {1, 7, 6},
		"a\nb":   {1, 7, 3, 6},
		"[T]a":   {1, 9, 7},
		"</s>ab": {1, 2, 7, 6},
		"":       {1},
	} {
		got, err := tok.Encode(text, Options{AddSpecial: true, ParseSpecial: true})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	if plain, err := tok.Encode("</s>", Options{}); err != nil || slices.Contains(plain, 2) {
		t.Errorf("text became a control token: %v, %v", plain, err)
	}
	if got := tok.Special(); got.BOS != 1 || !slices.Equal(got.EOS, []parley.Token{2}) || got.Unknown != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestGGUFWishes(t *testing.T) {
	tok, err := FromGGUF(
		ggufMeta(map[string]any{"add_bos_token": false, "add_eos_token": true, "add_space_prefix": false,
			"eos_token_id": uint32(9), "eot_token_id": int64(2), "fim_pre_token_id": uint16(5),
			"token_type": []uint8{2, 3, 3, 6, 1, 1, 1, 1, 1, 3}}))
	if err != nil {
		t.Fatal(err)
	}
	got, err := tok.Encode("ab", Options{AddSpecial: true})
	if err != nil || !slices.Equal(got, []parley.Token{8, 9}) {
		t.Errorf("got %v, %v", got, err)
	}
	if s := tok.Special(); !slices.Equal(s.EOS, []parley.Token{9, 2}) || s.Gap.Prefix != 5 {
		t.Errorf("got %+v", s)
	}
}

func TestGGUFRefuses(t *testing.T) {
	for name, changes := range map[string]map[string]any{
		"model":        {"model": "rwkv"},
		"no tokens":    {"tokens": nil},
		"token kind":   {"tokens": []int32{1}},
		"types":        {"token_type": []int32{1}},
		"type kind":    {"token_type": "x"},
		"scores":       {"scores": []float32{1}},
		"no scores":    {"scores": nil},
		"pre":          {"model": "gpt2", "pre": "magic"},
		"merges":       {"model": "gpt2", "merges": []string{"ab"}},
		"merge tokens": {"model": "gpt2", "merges": []string{"x y"}},
	} {
		if _, err := FromGGUF(ggufMeta(changes)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// TestGGUFPatterns: every pre-tokenizer type must build and split.
func TestGGUFPatterns(t *testing.T) {
	var tokens []string
	for _, c := range byteToChar {
		tokens = append(tokens, string(c))
	}
	for pre := range ggufSplits {
		tok, err := FromGGUF(ggufMeta(map[string]any{"model": "gpt2", "pre": pre, "tokens": tokens, "token_type": nil,
			"merges": []string{}}))
		if err != nil {
			t.Errorf("%s: %v", pre, err)
			continue
		}
		text := strings.Join(nasty, " x1")
		if got := tok.Decode(encode(t, tok, text), false); got != text {
			t.Errorf("%s: text came back as %q", pre, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(smallest), []byte(`{"bos_token": {"content": "a"}, "add_bos_token": true}`))
	small, err := os.ReadFile(filepath.Join("testdata", "spm.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(small, []byte(`{}`))
	for _, v := range variants(f) {
		var part strings.Builder
		part.WriteString(`{"model": {"type": "BPE", "vocab": {"a": 0, "Ġ": 1}, "merges": []}`)
		for _, key := range []string{"normalizer", "pre_tokenizer", "decoder", "added_tokens"} {
			if raw, ok := v.Patch[key]; ok {
				part.WriteString(`, "` + key + `": ` + string(raw))
			}
		}
		f.Add([]byte(part.String()+"}"), []byte(nil))
	}
	f.Fuzz(func(t *testing.T, document, config []byte) {
		tok, err := Parse(document, config)
		if err != nil {
			return
		}
		ids, err := tok.Encode("a Hello 1 \xff你", Options{AddSpecial: true, ParseSpecial: true})
		if err != nil {
			return
		}
		checkStream(t, tok, ids)
		tok.Fingerprint()
	})
}
