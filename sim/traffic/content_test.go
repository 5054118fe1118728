package traffic

import (
	"slices"
	"strings"
	"testing"

	"parley"
)

var testContent = Content{Seed: 1, First: DefaultFirst}

func TestContentDependsOnTheKeyAlone(t *testing.T) {
	long := testContent.Tokens([]Part{{Key: 77, Tokens: 100}})
	short := testContent.Tokens([]Part{{Key: 5, Tokens: 3}, {Key: 77, Tokens: 40}})
	if !slices.Equal(long[:40], short[3:]) {
		t.Error("a key has different content in different places")
	}
	if slices.Equal(long, Content{Seed: 2, First: DefaultFirst}.Tokens([]Part{{Key: 77, Tokens: 100}})) {
		t.Error("different seeds gave the same content")
	}
	for _, token := range long {
		if token < DefaultFirst || token >= DefaultFirst+DefaultChoices {
			t.Errorf("token %d is outside the range", token)
		}
	}
}

// Keys below the number of choices differ at the first token, below its square
// within two: that is what keeps prefixes from being shared by accident.
func TestKeysDifferAtOnce(t *testing.T) {
	c := Content{Seed: 9, Choices: 60}
	first, second := map[parley.Token]bool{}, map[[2]parley.Token]bool{}
	for k := range uint64(3600) {
		tokens := c.Tokens([]Part{{Key: k, Tokens: 2}})
		if k < 60 {
			first[tokens[0]] = true
		}
		second[[2]parley.Token(tokens)] = true
	}
	if len(first) != 60 || len(second) != 3600 {
		t.Errorf("60 keys gave %d first tokens, 3600 gave %d pairs", len(first), len(second))
	}
}

func TestContentSpreadsOverTheRange(t *testing.T) {
	c := Content{Seed: 9, Choices: 64}
	counts := make([]int, 64)
	for k := range uint64(200) {
		for _, token := range c.Tokens([]Part{{Key: k, Tokens: 640}}) {
			counts[token]++
		}
	}
	for token, n := range counts {
		if !near(float64(n), 2000, 0.15) {
			t.Errorf("token %d came %d times of about 2000", token, n)
		}
	}
}

func TestWordsArePlainAndDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range words {
		if seen[w] || strings.ToLower(w) != w || strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("word %q is there twice or not plain", w)
		}
		seen[w] = true
	}
	var text strings.Builder
	testContent.WriteWords(&text, Part{Key: 1, Tokens: 30})
	testContent.WriteWords(&text, Part{Key: 2, Tokens: 20})
	if n := len(strings.Fields(text.String())); n != 50 || strings.Contains(text.String(), "  ") {
		t.Errorf("%d words of 50 in %q", n, text.String())
	}
}

func TestContentRefusesEmptyRanges(t *testing.T) {
	for _, c := range []Content{{First: -1}, {Choices: 1}, {Choices: -3}, {First: 1<<31 - 2, Choices: 3}} {
		if c.Validate() == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	if err := testContent.Validate(); err != nil {
		t.Error(err)
	}
}
