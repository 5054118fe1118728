package token

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"parley"
)

// checkStream decodes ids one by one and compares with decoding them at once.
func checkStream(t *testing.T, tok *Tokenizer, ids []parley.Token) {
	t.Helper()
	checkAnswer(t, tok, ids)
	for _, skip := range []bool{false, true} {
		d := tok.NewDecoder(skip)
		var streamed strings.Builder
		for _, id := range ids {
			text := d.Push(id)
			if !utf8.ValidString(text) {
				t.Fatalf("pushing %d of %v gave %q, which is not UTF-8", id, ids, text)
			}
			streamed.WriteString(text)
		}
		streamed.WriteString(d.Flush())
		if whole := tok.Decode(ids, skip); streamed.String() != whole {
			t.Fatalf("%v\nstreamed %q\n   whole %q", ids, streamed.String(), whole)
		}
	}
}

// checkAnswer decodes ids as an answer, twice: what is remembered of their texts by
// then must change nothing.
func checkAnswer(t *testing.T, tok *Tokenizer, ids []parley.Token) {
	t.Helper()
	for range 2 {
		d, plain := tok.NewAnswerDecoder(), tok.newDecoder(func(id parley.Token) bool { return !tok.IsSaid(id) })
		for _, id := range ids {
			if got, want := d.Push(id), plain.Push(id); got != want {
				t.Fatalf("pushing %d of %v gave %q, want %q", id, ids, got, want)
			}
		}
		if got, want := d.Flush(), plain.Flush(); got != want {
			t.Fatalf("%v ends with %q, want %q", ids, got, want)
		}
	}
}

// oneOf returns the variant of that name.
func oneOf(t testing.TB, name string) *Tokenizer {
	t.Helper()
	for _, v := range variants(t) {
		if v.Name == name {
			return v.tokenizer(t)
		}
	}
	t.Fatalf("no variant %q", name)
	return nil
}

func TestStreamKeepsCharactersWhole(t *testing.T) {
	tok := oneOf(t, "llama3")
	want := "a 😀é你\U00020000"
	ids := encode(t, tok, want)
	d := tok.NewDecoder(false)
	var got strings.Builder
	for _, id := range ids {
		text := d.Push(id)
		if strings.ContainsRune(text, utf8.RuneError) {
			t.Fatalf("half a character came out: %q", text)
		}
		got.WriteString(text)
	}
	if got.WriteString(d.Flush()); got.String() != want {
		t.Fatalf("got %q, want %q", got.String(), want)
	}
}

func TestStreamUnfinishedCharacter(t *testing.T) {
	tok := oneOf(t, "llama3")
	ids := encode(t, tok, "😀")
	if len(ids) < 2 {
		t.Fatalf("the tokenizer knows 😀 as one token; the test needs several")
	}
	d := tok.NewDecoder(false)
	if got := d.Push(ids[0]); got != "" {
		t.Fatalf("the first part of a character gave %q", got)
	}
	if got := d.Flush(); got != "\uFFFD" {
		t.Fatalf("an unfinished character flushed as %q", got)
	}
}

// TestLossy compares with the rule stated for single sequences: one
// replacement per longest beginning of a character.
func TestLossy(t *testing.T) {
	for in, want := range map[string]string{
		"a\xFFb":           "a\uFFFDb",
		"\xE2\x96":         "\uFFFD",
		"\xE2\x96a":        "\uFFFDa",
		"\xF0\x9F\x98":     "\uFFFD",
		"\xF0\x9F\xE2\x96": "\uFFFD\uFFFD",
		"\xED\xA0\x80":     "\uFFFD\uFFFD\uFFFD",
		"\xC0\x80":         "\uFFFD\uFFFD",
		"\xF4\x90\x80\x80": "\uFFFD\uFFFD\uFFFD\uFFFD",
		"\uFFFDx":          "\uFFFDx",
		"\xE2\x96\x81\xE2": "▁\uFFFD",
	} {
		if got, _ := appendLossy(nil, []byte(in), true); string(got) != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestBytesRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	tok := oneOf(t, "o200k")
	for range 500 {
		text := make([]byte, random.IntN(60))
		for i := range text {
			text[i] = byte(random.Uint32())
		}
		var back []byte
		for _, id := range encode(t, tok, string(text)) {
			back = append(back, tok.Bytes(id)...)
		}
		if string(back) != string(text) {
			t.Fatalf("%q came back as %q", text, back)
		}
	}
}

func TestByteFallbackRoundTrip(t *testing.T) {
	tok := oneOf(t, "template")
	text := "ok \xFF\xE2\x96 \xF0\x9F end 😀"
	var back []byte
	for _, id := range encode(t, tok, text) {
		back = append(back, tok.Bytes(id)...)
	}
	if string(back) != " "+text {
		t.Fatalf("got %q, want a space and %q", back, text)
	}
}

func FuzzDecoder(f *testing.F) {
	toks := []*Tokenizer{oneOf(f, "llama3"), oneOf(f, "template"), oneOf(f, "spm-always"), oneOf(f, "spm-rx"),
		oneOf(f, "spm-nounk")}
	f.Add([]byte{0, 1, 2, 250, 255, 100, 3, 4, 5, 230, 190, 20, 90})
	f.Add([]byte("\xe2\x96\x81<0x0A>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, tok := range toks {
			ids := make([]parley.Token, 0, len(data))
			for i, b := range data {
				// Small ids are byte tokens, the interesting ones.
				id := int(b)
				if i%3 == 2 {
					id = int(b) * 7
				}
				ids = append(ids, parley.Token(id%(tok.Size()+2)-1))
			}
			checkStream(t, tok, ids)
		}
	})
}
