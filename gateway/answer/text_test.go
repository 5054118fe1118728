package answer

import (
	"slices"
	"strings"
	"testing"

	"parley"
)

// wholeText is the text of tokens with a stop string cut off, found by hand.
func wholeText(decoded string, stops []string) (string, bool) {
	for end := 1; end <= len(decoded); end++ {
		longest := -1
		for _, s := range stops {
			if strings.HasSuffix(decoded[:end], s) {
				longest = max(longest, len(s))
			}
		}
		if longest >= 0 {
			return decoded[:end-longest], true
		}
	}
	return decoded, false
}

func TestTextStops(t *testing.T) {
	for _, c := range []struct {
		stops string
		said  string
		want  []string
	}{
		{"", "Hello", []string{"H", "e", "l", "l", "o", ""}},
		{"ll", "Hello", []string{"H", "e", "", "", "", ""}},
		{"lx", "Hello", []string{"H", "e", "", "l", "lo", ""}},
		{"abcd|bc", "abce", []string{"", "", "a", "", ""}},
		{"abcd|cd", "abcd", []string{"", "", "", "", ""}},
		{"aab", "aaab", []string{"", "", "a", "", ""}},
		{"é", "eé!", []string{"e", "", "", ""}},
		{"\n\nQ", "a\n\nA", []string{"a", "", "", "\n\nA", ""}},
		{"x", "no", []string{"n", "o", ""}},
		{"end", "the e", []string{"t", "h", "", "e ", "", "e"}},
	} {
		var stops []string
		if c.stops != "" {
			stops = strings.Split(c.stops, "|")
		}
		x := newText(tinyTokenizer().NewDecoder(true), stops)
		var got []string
		for _, r := range c.said {
			var shown strings.Builder
			for _, id := range tokensOf(t, string(r)) {
				shown.WriteString(x.push(id))
			}
			got = append(got, shown.String())
		}
		got = append(got, x.flush())
		want, _ := wholeText(c.said, stops)
		if strings.Join(got, "") != want {
			t.Errorf("stops %q in %q: got %q, want %q", c.stops, c.said, strings.Join(got, ""), want)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("stops %q in %q: pieces %q, want %q", c.stops, c.said, got, c.want)
		}
	}
}

// FuzzText checks that what is shown does not depend on how it came: it is
// the whole decoding, cut at the stop string that is complete first.
func FuzzText(f *testing.F) {
	f.Add([]byte("Hello, world"), "o, w", "xyz")
	f.Add([]byte{0xf0, 0x9f, 0x98, 0x80, 0xff, 'a'}, "a", "😀")
	f.Add([]byte("aaabaab"), "aab", "ba")
	f.Add([]byte{1, 2, 3, 200, 201}, "\ufffd", "")
	f.Fuzz(func(t *testing.T, raw []byte, stop1, stop2 string) {
		var stops []string
		for _, s := range []string{stop1, stop2} {
			if s = strings.ToValidUTF8(s, ""); s != "" {
				stops = append(stops, s)
			}
		}
		ids := fuzzTokens(raw)
		x := newText(tinyTokenizer().NewDecoder(true), stops)
		shown := ""
		for _, id := range ids {
			shown += x.push(id)
			if x.shownBytes != len(shown) || x.shownBytes > x.decodedBytes {
				t.Fatalf("counted %d shown of %d decoded, but %q was shown", x.shownBytes, x.decodedBytes, shown)
			}
		}
		shown += x.flush()
		want, stopped := wholeText(decoded(ids), stops)
		if shown != want || x.stopped != stopped {
			t.Errorf("tokens %v with stops %q: shown %q, want %q", ids, stops, shown, want)
		}
	})
}

// decoded is the text of tokens without the half of a character at its end.
func decoded(ids []parley.Token) string {
	d := tinyTokenizer().NewDecoder(true)
	var text strings.Builder
	for _, id := range ids {
		text.WriteString(d.Push(id))
	}
	return text.String() + strings.TrimRight(d.Flush(), "\ufffd")
}

// fuzzTokens spreads bytes over the vocabulary: most stay single bytes, which
// make the hardest text.
func fuzzTokens(raw []byte) []parley.Token {
	ids := make([]parley.Token, 0, len(raw))
	for i, b := range raw {
		id := parley.Token(b)
		if i%5 == 4 {
			id = parley.Token(int(b) * 4 % tinyTokenizer().Size())
		}
		ids = append(ids, id)
	}
	return ids
}
