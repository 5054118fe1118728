package token

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// memoryPerByte is how many bytes tokenizing may take for each byte of the text,
// everything counted that is ever allocated: a prompt is refused by its bytes where they
// cannot fit the context, so this bounds the memory by a multiple of the context.
const memoryPerByte = 640

// hostileTexts are texts of about n bytes that tokenizers find hard: one word without an
// end, words that merge in every way or in none, characters that normalizers change,
// text that nearly is a control token, and bytes that are no text.
func hostileTexts(n int) map[string]string {
	rng := rand.New(rand.NewPCG(1, 2))
	letters, noise := make([]byte, n), make([]byte, n)
	for i := range n {
		letters[i], noise[i] = byte('a'+rng.IntN(26)), byte(rng.IntN(256))
	}
	repeated := func(s string) string { return strings.Repeat(s, n/len(s)) }
	return map[string]string{
		"one letter":        repeated("a"),
		"one word":          string(letters),
		"spaces":            repeated(" "),
		"line ends":         repeated("\r\n"),
		"digits":            repeated("1234567890"),
		"punctuation":       repeated("({[<!?>]})"),
		"marks":             "e" + repeated("\u0301"),
		"ligatures":         repeated("\ufb03\u3392\ufdfa"),
		"hangul":            repeated("\u1100\u1161\u11a8"),
		"emoji":             repeated("\U0001f468\u200d\U0001f469\u200d\U0001f467"),
		"control tokens":    repeated("<|im_start|>"),
		"half of a control": repeated("<|im_star"),
		"not text":          string(noise),
		"zero bytes":        repeated("\x00"),
	}
}

// TestHostileTextsTakeLittleMemory tokenizes hostile texts with all kinds of tokenizers.
// What is allocated for one is at most a constant for each of its bytes, and for one four
// times as long about four times as much.
func TestHostileTextsTakeLittleMemory(t *testing.T) {
	files, err := filepath.Glob("testdata/hf/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tokenizers: %v", err)
	}
	const short, long = 16 << 10, 64 << 10
	shorts, longs := hostileTexts(short), hostileTexts(long)
	worst, where := 0.0, ""
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		tokenizer, err := Parse(raw, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range longs {
			few, many := allocated(tokenizer, shorts[name]), allocated(tokenizer, text)
			if per := many / long; per > worst {
				worst, where = per, filepath.Base(path)+", "+name
			}
			if many > memoryPerByte*long || many > 6*max(few, short) {
				t.Errorf("%s, %s: %.0f bytes for %d of text, and %.0f for %d", path, name, few, short, many, long)
			}
		}
	}
	t.Logf("at most %.1f bytes for each byte of text: %s", worst, where)
}

// allocated returns how many bytes it takes to tokenize a text, whether that succeeds or
// not.
func allocated(t *Tokenizer, text string) float64 {
	t.scratch = sync.Pool{} // what was kept of the last text does not help this one
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _ = t.Encode(text, Options{})
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc - before.TotalAlloc)
}
