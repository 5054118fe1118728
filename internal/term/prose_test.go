package term

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"parley/internal/testkit"
)

// told writes an answer to a screen in pieces of so many bytes.
func told(text string, columns, piece int, color bool) (*testkit.Screen, string) {
	screen := testkit.NewScreen(columns, 10000)
	p := Prose{Columns: columns, Color: color}
	var all strings.Builder
	for runes := []rune(text); len(runes) > 0; runes = runes[min(piece, len(runes)):] {
		all.WriteString(p.Add(string(runes[:min(piece, len(runes))])))
	}
	all.WriteString(p.End())
	_, _ = screen.Write([]byte(strings.ReplaceAll(all.String(), "\n", "\r\n")))
	return screen, all.String()
}

func TestProseWraps(t *testing.T) {
	for text, want := range map[string]string{
		"one two three":                           "one two\nthree",
		"123456789 x":                             "123456789\nx",
		"a 123456789":                             "a\n123456789",
		"a 12345678901234567 b":                   "a\n1234567890\n1234567 b",
		"one\ntwo\n\nthree":                       "one\ntwo\n\nthree",
		"世界世界世界":                                  "世界世界\n世界",
		"ab 世界世界":                                 "ab 世界世\n界",
		"```\nlong code that is not wrapped\n```": "```\nlong code\nthat is no\nt wrapped\n```",
		"| a table | as it is |":                  "| a table\n| as it is\n |",
		"x \x1b[31mred\x07":                       "x\n␛[31mred␇",
		"e\u0301e\u0301e\u0301 cafe\u0301 x":      "e\u0301e\u0301e\u0301 cafe\u0301\nx",
	} {
		for piece := 1; piece <= 4; piece++ {
			screen, raw := told(text, 10, piece, false)
			if got := screen.Text(); got != want {
				t.Errorf("%q in pieces of %d:\n%s\nwant\n%s\nraw %q", text, piece, got, want, raw)
			}
			if screen.Styled() {
				t.Errorf("%q was styled without colour: %q", text, raw)
			}
		}
	}
}

// TestCopiesAreWhatWasSaid: code and long words come back from the screen as
// they are, and prose with other line breaks between words only.
func TestCopiesAreWhatWasSaid(t *testing.T) {
	code := "```sh\ncurl http://127.0.0.1:8080/v1/chat/completions -H 'content-type: application/json'\n```"
	screen, _ := told(code, 20, 3, true)
	if got := screen.Copied(); got != code {
		t.Errorf("copied\n%s\nwant\n%s", got, code)
	}
	words := []string{"a", "**bold**", "`code span`", "*it*", "世界", "_x_", "snake_case_name", "e\u0301",
		"a-word-much-longer-than-the-line", "\n", "# h", "* item", "2*3", "**", "\\*"}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var text strings.Builder
		for range 30 {
			text.WriteString(words[rng.IntN(len(words))] + " ")
		}
		said := text.String()
		screen, raw := told(said, 8+rng.IntN(30), 1+rng.IntN(9), rng.IntN(2) == 0)
		if got, want := squeezed(screen.Copied()), squeezed(said); got != want {
			t.Fatalf("seed %d: copied\n%q\nwant\n%q\nraw %q", seed, got, want, raw)
		}
	}
}

// squeezed leaves out where the spaces and line breaks are, which wide
// characters may be broken by.
func squeezed(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
}

func TestProseStyles(t *testing.T) {
	const end = "\x1b[0m"
	for text, want := range map[string]string{
		"a **b** c":         "a \x1b[0;2m**\x1b[0;1mb\x1b[0;2m**" + end + " c\n",
		"`x`.":              "\x1b[0;2m`\x1b[0;36mx\x1b[0;2m`" + end + ".\n",
		"# T":               "\x1b[0;1m# T" + end + "\n",
		"2 * 3 * 4":         "2 * 3 * 4\n",
		"a_b_c":             "a_b_c\n",
		"\\*a*":             "\\*a*\n",
		"**a\nb":            "\x1b[0;2m**\x1b[0;1ma" + end + "\nb\n",
		"``` go\nx\n```\ny": "\x1b[0;2m``` go" + end + "\n\x1b[0;36mx" + end + "\n\x1b[0;2m```" + end + "\ny\n",
		"#no":               "#no\n",
		"`a **b`":           "\x1b[0;2m`\x1b[0;36ma **b\x1b[0;2m`" + end + "\n",
	} {
		for piece := 1; piece <= 3; piece++ {
			if _, got := told(text, 40, piece, true); got != want {
				t.Errorf("%q in pieces of %d gave\n%q, want\n%q", text, piece, got, want)
			}
		}
	}
}

// TestProseIsPrompt: what cannot change any more is written at once.
func TestProseIsPrompt(t *testing.T) {
	p := Prose{Columns: 40}
	if got := p.Add("Hel"); got != "Hel" {
		t.Errorf("the first piece gave %q", got)
	}
	if got := p.Add("lo *"); got != "lo " {
		t.Errorf("the second gave %q", got)
	}
	if got := p.Add("x"); got != "*x" {
		t.Errorf("the third gave %q", got)
	}
}

func FuzzProse(f *testing.F) {
	f.Add("# T\n**b** `c` \x1b[2J\n```\nx\n```\n|a|\n世界", 10, 3)
	f.Fuzz(func(t *testing.T, text string, columns, piece int) {
		columns, piece = 4+abs(columns)%100, 1+abs(piece)%50
		screen, raw := told(text, columns, piece, false) // the screen panics on what it does not know
		_ = screen.Text()
		if strings.Contains(raw, "\x1b[2J") {
			t.Errorf("a control sequence got through: %q", raw)
		}
	})
}

func abs(n int) int { return max(n, -(n + 1)) }
