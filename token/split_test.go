package token

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// nasty is an alphabet in which every property and every literal of the known
// patterns occurs.
var nasty = []string{"a", "b", "S", "s", "t", "T", "re", "Re", "ve", "ll", "L", "m", "d", "D", "'", "'", "’", "ſ", "é",
	"É", "ǅ", "ʰ", "ª", "中", "你",
	"カ", "ん", "가", "ا", "\u0301", "\u064b", "\u0e31", "\u20dd", "1", "2", "99", "٣", "½", "Ⅷ", "²", " ", " ", "  ",
	"\t", "\n", "\r", "\r\n", "\u00a0", "\u2028",
	"\u3000", "\u0085", ".", ",", "!", "(", "/", "//", "_", "-", "$", "+", "<", "|", "\\", "`", "€", "№", "。", "「",
	"😀", "👍🏽", "\u200d", "\u200b", "\ufeff",
	"\u0000", "\u007f", "\U00020000", "\U00010400", "\U00010428", "\ue000", "\ufffd", "\U0010ffff"}

func nastyText(random *rand.Rand) string {
	var text strings.Builder
	for range random.IntN(14) {
		text.WriteString(nasty[random.IntN(len(nasty))])
	}
	return text.String()
}

// TestKnownPatterns compares every scanner with its pattern on the
// backtracking engine.
func TestKnownPatterns(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for pattern, scan := range knownScanners {
		engine, err := newRegexMatcher(pattern)
		if err != nil {
			t.Fatal(err)
		}
		s := new(scratch)
		for range 400 {
			text := nastyText(random)
			want, err := engine.appendMatches(nil, text, s)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := scan.appendMatches(nil, text, s)
			if pattern == gpt2NoSpaces {
				// The scanner also matches what the pattern leaves as gaps.
				want = withGaps(want, len(text))
			}
			if !slices.Equal(got, want) {
				t.Fatalf("pattern %s\ntext %q\n got %v\nwant %v", pattern, text, got, want)
			}
		}
	}
}

func withGaps(matches []textRange, length int) []textRange {
	var all []textRange
	for _, e := range appendEvents(nil, matches, length, false) {
		all = append(all, e.textRange)
	}
	return all
}

func TestCompletePatternsLeaveNoGaps(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for pattern, complete := range completePatterns {
		for range 100 {
			if !complete {
				break
			}
			text := nastyText(random) + string([]byte{0xFF, 0xE2, byte(random.Uint32())})
			at := 0
			for at < len(text) {
				start, end := knownScanners[pattern](text, at)
				if start != at || end <= at {
					t.Fatalf("pattern %s on %q: %d to %d at %d", pattern, text, start, end, at)
				}
				at = end
			}
		}
	}
}

func TestUnknownPatternTakesTheEngine(t *testing.T) {
	m, err := newMatcher(`x+(?=y)`)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := m.(regexMatcher); !ok {
		t.Fatalf("got %T", m)
	}
	got, err := m.appendMatches(nil, "a\xFFxxy你xy", new(scratch))
	if want := []textRange{{2, 4}, {8, 9}}; err != nil || !slices.Equal(got, want) {
		t.Fatalf("got %v, %v, want %v", got, err, want)
	}
	if _, err := newMatcher(`(`); err == nil {
		t.Fatal("a broken pattern was accepted")
	}
}

func TestRepeatIntervals(t *testing.T) {
	for in, want := range map[string]string{
		`\p{N}{1,3}+`:   `(?:\p{N}{1,3})+`,
		`[a-z]{2}+b`:    `(?:[a-z]{2})+b`,
		`(ab|c){1,}+`:   `(?:(ab|c){1,})+`,
		`a{1,3}?b{2}`:   `a{1,3}?b{2}`,
		`x{a}+`:         `x{a}+`,
		`\p{L}++ ?[^s]`: `\p{L}++ ?[^s]`,
	} {
		if got := repeatIntervals(in); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
}

func TestBehaviors(t *testing.T) {
	for then, want := range map[behavior]string{
		isolated:           "a|-|-|b|-|c|-",
		removed:            "a|b|c",
		contiguous:         "a|--|b|-|c|-",
		mergedWithPrevious: "a-|-|b-|c-",
		mergedWithNext:     "a|-|-b|-c|-",
	} {
		pieces, err := patternSplit{pattern: literalMatcher("-"), then: then}.split(nil, piece{"a--b-c-", true},
			new(scratch))
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for i, p := range pieces {
			texts = append(texts, p.text)
			if p.first != (i == 0) {
				t.Errorf("%s: piece %d has first %v", then, i, p.first)
			}
		}
		if got := strings.Join(texts, "|"); got != want {
			t.Errorf("%s: got %s, want %s", then, got, want)
		}
	}
}
