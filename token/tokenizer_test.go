package token

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/text/unicode/norm"
	"parley"
	"parley/internal/testkit"
)

func tiny(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := Load(testkit.Golden("tiny-llama"))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestSpecialTokensInText(t *testing.T) {
	tok := tiny(t)
	start, _ := tok.ID("<|im_start|>")
	text := "say <|im_start|>user"
	parsed := encode(t, tok, text)
	plain, err := tok.Encode(text, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(parsed, start) || slices.Contains(plain, start) {
		t.Fatalf("parsed %v, plain %v, special %d", parsed, plain, start)
	}
	if got := tok.Decode(plain, true); got != text {
		t.Fatalf("plain text came back as %q", got)
	}
	if got := tok.Decode(parsed, true); got != "say user" {
		t.Fatalf("without special tokens: %q", got)
	}
}

func TestAddSpecial(t *testing.T) {
	tok := oneOf(t, "template")
	got, err := tok.Encode("", Options{AddSpecial: true})
	if err != nil || !slices.Equal(got, []parley.Token{1}) {
		t.Fatalf("got %v, %v", got, err)
	}
	dst := []parley.Token{42}
	if got, err = tok.AppendEncode(dst, "", Options{}); err != nil || !slices.Equal(got, dst) {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestKnownTokens(t *testing.T) {
	tok := tiny(t)
	s := tok.Special()
	want := map[string]parley.Token{"<|endoftext|>": s.BOS, "<|im_end|>": s.EOS[0], "<|fim_prefix|>": s.Gap.Prefix,
		"<|fim_suffix|>": s.Gap.Suffix, "<|fim_middle|>": s.Gap.Middle}
	for text, got := range want {
		if id, ok := tok.ID(text); !ok || id != got || !tok.IsSpecial(id) {
			t.Errorf("%s is %d, got %d", text, id, got)
		}
	}
	if end, _ := tok.ID("<|endoftext|>"); s.PAD != end || !slices.Contains(s.EOS, end) || s.Unknown != None {
		t.Errorf("got %+v", s)
	}
}

func TestOutsideTheVocabulary(t *testing.T) {
	tok := tiny(t)
	for _, id := range []parley.Token{-1, parley.Token(tok.Size()), 1 << 30} {
		if _, ok := tok.Text(id); ok || tok.Bytes(id) != nil || tok.IsSpecial(id) ||
			tok.Decode([]parley.Token{id}, false) != "" {
			t.Errorf("%d is taken for a token", id)
		}
	}
}

func TestConfiguration(t *testing.T) {
	document := variants(t)[slices.IndexFunc(variants(t), func(v variant) bool {
		return v.Name == "template"
	})].document(t)
	for config, want := range map[string][]parley.Token{
		`{}`: {1},
		`{"tokenizer_class": "LlamaTokenizer", "bos_token": {"content": "<s>"}, "add_bos_token": false}`:                                       {},
		`{"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "add_eos_token": true}`:                                {1, 2},
		`{"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": null, "add_bos_token": false, "add_eos_token": true}`: {1},
	} {
		tok, err := Parse(document, []byte(config))
		if err != nil {
			t.Fatal(err)
		}
		got, err := tok.Encode("", Options{AddSpecial: true})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %v, %v, want %v", config, got, err, want)
		}
	}
	if _, err := Parse(document, []byte("{")); err == nil {
		t.Error("a broken configuration was accepted")
	}
}

func TestFingerprint(t *testing.T) {
	sums := map[[32]byte]string{}
	for _, name := range []string{"llama3", "template", "unigram", "spm-normalized"} {
		sum := oneOf(t, name).Fingerprint()
		if other, ok := sums[sum]; ok {
			t.Errorf("%s and %s have the same fingerprint", name, other)
		}
		sums[sum] = name
		if again := oneOf(t, name).Fingerprint(); again != sum {
			t.Errorf("%s has two fingerprints", name)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	tok := tiny(t)
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 200 {
				text := fmt.Sprintf("worker %d says hello %d times, %s", worker, i, strings.Repeat("naïve ", i%5))
				ids, err := tok.Encode(text, Options{})
				if got := tok.Decode(ids, false); err != nil || got != text {
					t.Errorf("%q came back as %q, %v", text, got, err)
				}
			}
		})
	}
	group.Wait()
}

// TestLongRunsOfMarks: no joiner may appear inside a run of marks, however
// long.
func TestLongRunsOfMarks(t *testing.T) {
	normalize := unicodeForm(norm.NFC)
	for _, n := range []int{1, 29, 30, 31, 32, 100} {
		marks := strings.Repeat("\u0316", n)
		got, err := normalize("xe"+marks+"\u0301 e\u0301\u0323", nil)
		want := "xé" + marks + " ẹ\u0301"
		if err != nil || got != want {
			t.Errorf("%d marks: got %q, want %q", n, got, want)
		}
	}
	for _, form := range []norm.Form{norm.NFC, norm.NFD, norm.NFKC, norm.NFKD} {
		text := "각 가\u11a8 Å ﬁ e\u0323\u0301 \u0344 क़ ½"
		if got, want := normalizeByHand(text, form), form.String(text); got != want {
			t.Errorf("form %d: got %q, want %q", form, got, want)
		}
	}
}

func TestCharsmap(t *testing.T) {
	// A double array with the one entry "A" to "bc": the root's children start
	// at 'B', so that "A" is unit 3 and its value unit 3^2.
	units := make([]byte, 4*8)
	put := func(unit int, v uint32) {
		for i := range 4 {
			units[4*unit+i] = byte(v >> (8 * i))
		}
	}
	put(0, 0x42<<10)
	put(3, 2<<10|1<<8|'A')
	put(1, 1<<31|1)
	data := append([]byte{32, 0, 0, 0}, units...)
	data = append(data, "?bc\x00"...)
	normalize, err := parseCharsmap(data)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := normalize("xAyA\u0301", nil); err != nil || got != "xbcybc" {
		t.Fatalf("got %q, %v", got, err)
	}
	for _, bad := range [][]byte{nil, {1, 2}, {255, 255, 255, 255, 0}, {0, 0, 0, 0}} {
		if _, err := parseCharsmap(bad); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
}

func FuzzEncodeDecode(f *testing.F) {
	byteLevel := []*Tokenizer{oneOf(f, "llama3"), oneOf(f, "o200k"), oneOf(f, "deepseek3"), oneOf(f, "falcon"),
		oneOf(f, "starcoder")}
	others := []*Tokenizer{oneOf(f, "template"), oneOf(f, "unigram"), oneOf(f, "qwen2nfc"), oneOf(f, "gpt2nfd"),
		oneOf(f, "spm-rx")}
	for _, seed := range append(nasty, "Hello, world! it's 12345\r\n\n  x", "<|im_start|>user\n", "\xff\xe2\x96 ok",
		strings.Repeat("ab", 200)) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, tok := range byteLevel {
			var back []byte
			for _, id := range encode(t, tok, text) {
				back = append(back, tok.Bytes(id)...)
			}
			if string(back) != text {
				t.Fatalf("%q came back as %q", text, back)
			}
		}
		for _, tok := range others {
			checkStream(t, tok, encode(t, tok, text))
		}
	})
}
