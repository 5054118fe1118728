package token

import (
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley"
	"parley/internal/testkit"
)

const mebibyte = 1 << 20

// prose returns several megabytes of English books.
func prose(tb testing.TB) string {
	tb.Helper()
	path := testkit.SharedData(tb, "corpora", "gutenberg_children.txt.xz")
	cmd := exec.Command("xz", "-dc", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Skipf("needs the xz command: %v", err)
	}
	text, err := io.ReadAll(io.LimitReader(out, 4*mebibyte))
	if err != nil {
		tb.Fatal(err)
	}
	out.Close()
	_ = cmd.Wait() // it was cut short
	return strings.ToValidUTF8(string(text), "")
}

// hardTexts are the inputs that make careless tokenizers quadratic.
func hardTexts() map[string]string {
	random := rand.New(rand.NewPCG(1, 2))
	bytes := make([]byte, mebibyte)
	for i := range bytes {
		bytes[i] = byte(random.Uint32())
	}
	emoji := []string{"😀", "👍🏽", "👨‍👩‍👧", "🇫🇷", "❤️"}
	var emojis, letters, han strings.Builder
	for emojis.Len() < mebibyte {
		emojis.WriteString(emoji[random.IntN(len(emoji))])
	}
	for letters.Len() < mebibyte {
		letters.WriteByte('a' + byte(random.IntN(26)))
	}
	for han.Len() < mebibyte {
		han.WriteRune(0x4E00 + rune(random.IntN(3000)))
	}
	repeat := func(s string) string { return strings.Repeat(s, mebibyte/len(s)) }
	return map[string]string{
		"letter": repeat("a"), "spaces": repeat(" "), "newlines": repeat("\n"), "digits": repeat("1234567890"),
		"emoji": repeat("😀"), "emojis": emojis.String(), "bytes": string(bytes), "less": repeat("<"),
		"brackets": repeat("<|"), "letters": letters.String(), "upper": repeat("A"), "marks": repeat("\u0301"),
		"han": han.String(), "tabs": repeat("\t "), "crlf": repeat(" \r\n"), "quotes": repeat("'"),
		"mark▁": repeat("▁"),
	}
}

// benchmarkBytes reports the best rate of any round by processor time, which
// other work on the machine disturbs less than the clock.
func benchmarkBytes(b *testing.B, bytes int, round func()) {
	b.SetBytes(int64(bytes))
	best := time.Duration(math.MaxInt64)
	for b.Loop() {
		start := processorTime()
		round()
		best = min(best, processorTime()-start)
	}
	b.ReportMetric(float64(bytes)/1e6/best.Seconds(), "best-MB/cpu-s")
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func benchmarkEncode(b *testing.B, tok *Tokenizer, text string) {
	dst := make([]parley.Token, 0, len(text))
	benchmarkBytes(b, len(text), func() {
		if _, err := tok.AppendEncode(dst, text, Options{ParseSpecial: true}); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	english := prose(b)
	hard := hardTexts()
	for _, r := range references(b) {
		for file, tok := range r.tokenizers(b) {
			name := filepath.Base(r.dir) + "/" + file
			b.Run(name+"/english", func(b *testing.B) { benchmarkEncode(b, tok, english) })
			for kind, text := range hard {
				b.Run(name+"/"+kind, func(b *testing.B) { benchmarkEncode(b, tok, text) })
			}
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, r := range references(b) {
		b.Run(filepath.Base(r.dir), func(b *testing.B) {
			file, err := os.Stat(filepath.Join(r.dir, "tokenizer.json"))
			if err != nil {
				b.Skip(err)
			}
			benchmarkBytes(b, int(file.Size()), func() {
				if _, err := Load(r.dir); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	english := prose(b)[:mebibyte]
	for _, r := range references(b) {
		for file, tok := range r.tokenizers(b) {
			b.Run(filepath.Base(r.dir)+"/"+file, func(b *testing.B) {
				ids := encode(b, tok, english)
				benchmarkBytes(b, len(english), func() { tok.Decode(ids, false) })
			})
		}
	}
}
