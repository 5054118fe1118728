package token

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"parley"
)

// randomMerges makes a vocabulary over few letters. Its merges are in the order
// in which they build on each other, or in random order.
func randomMerges(random *rand.Rand) (texts []string, merges [][2]string) {
	inOrder := random.IntN(2) == 0
	texts = []string{"a", "b", "c", "d"}
	for len(texts) < 40 {
		pair := [2]string{texts[random.IntN(len(texts))], texts[random.IntN(len(texts))]}
		if joined := pair[0] + pair[1]; len(joined) < 9 {
			known := slices.Contains(texts, joined)
			if !known {
				texts = append(texts, joined)
			}
			if !known || !inOrder {
				merges = append(merges, pair)
			}
		}
	}
	if inOrder {
		return texts, merges
	}
	random.Shuffle(len(merges), func(i, j int) { merges[i], merges[j] = merges[j], merges[i] })
	return texts, merges
}

// mergeByDefinition joins the best-ranked pair, leftmost first, until there is
// none.
func mergeByDefinition(word string, merges [][2]string) []string {
	rank := map[[2]string]int{}
	for i, pair := range merges {
		rank[pair] = i
	}
	parts := strings.Split(word, "")
	for {
		at, best := -1, len(merges)
		for i := 1; i < len(parts); i++ {
			if r, ok := rank[[2]string{parts[i-1], parts[i]}]; ok && r < best {
				at, best = i, r
			}
		}
		if at < 0 {
			return parts
		}
		parts[at-1] += parts[at]
		parts = slices.Delete(parts, at, at+1)
	}
}

func TestMergesByDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	for range 60 {
		texts, merges := randomMerges(random)
		ids := make([]int64, len(texts))
		for i := range ids {
			ids[i] = int64(i)
		}
		v, err := newVocabulary(texts, ids)
		if err != nil {
			t.Fatal(err)
		}
		m := newBPE(v, bpeOptions{unknown: 0})
		if _, err := m.setMerges(v, merges); err != nil {
			t.Fatal(err)
		}
		for _, length := range []int{1, 7, 30, shortWord, shortWord + 1, 400, 1500} {
			word := randomWord(random, length)
			var want []parley.Token
			for _, part := range mergeByDefinition(word, merges) {
				want = append(want, v.ids[part])
			}
			for name, got := range mergedEveryWay(m, word) {
				if !slices.Equal(got, want) {
					t.Fatalf("%s: %s with %v\n got %v\nwant %v", name, word, merges, got, want)
				}
			}
		}
	}
}

// randomWord has runs of one letter, where ties are decided by position.
func randomWord(random *rand.Rand, length int) string {
	var word strings.Builder
	for word.Len() < length {
		letter := string(rune('a' + random.IntN(4)))
		word.WriteString(strings.Repeat(letter, 1+random.IntN(5)))
	}
	return word.String()[:length]
}

func mergedEveryWay(m *bpe, word string) map[string][]parley.Token {
	s := new(scratch)
	symbols := m.appendSymbols(nil, word)
	first := m.appendFirstMerges(nil, symbols, word)
	toTokens := func(symbols []int32) (ids []parley.Token) {
		for _, id := range symbols {
			ids = append(ids, parley.Token(id))
		}
		return ids
	}
	return map[string][]parley.Token{
		"as encoded": m.appendMerged(nil, word, s),
		"in one":     m.appendPart(nil, word, s),
		"long":       toTokens(new(longMerge).run(&m.mergeRules, slices.Clone(symbols), slices.Clone(first))),
		"short":      toTokens(m.mergeShort(slices.Clone(symbols), slices.Clone(first))),
	}
}

func TestCacheKeepsWordsApart(t *testing.T) {
	c := newWordCache()
	var misses uint32
	words := map[string][]parley.Token{"a": {1}, "ab": {2, 3}, strings.Repeat("x", cachedWordMax): {4, 5, 6, 7, 8, 9},
		"": {}}
	for word, ids := range words {
		c.store(c.hash(word), word, ids, &misses)
		got, ok := c.find(c.hash(word), word)
		if !ok || !slices.Equal(got, ids) {
			t.Errorf("%q: got %v %v, want %v", word, got, ok, ids)
		}
		if _, ok := c.find(c.hash(word), word+"?"); ok {
			t.Errorf("%q was found under another word", word+"?")
		}
	}
	c.store(c.hash("many"), "many", make([]parley.Token, cachedTokensMax+1), &misses)
	if _, ok := c.find(c.hash("many"), "many"); ok {
		t.Error("a word with too many tokens was cached")
	}
}

func FuzzMerges(f *testing.F) {
	f.Add(uint64(1), 200)
	f.Add(uint64(2), 97)
	f.Fuzz(func(t *testing.T, seed uint64, length int) {
		random := rand.New(rand.NewPCG(seed, 1))
		texts, merges := randomMerges(random)
		ids := make([]int64, len(texts))
		for i := range ids {
			ids[i] = int64(i)
		}
		v, err := newVocabulary(texts, ids)
		if err != nil {
			t.Fatal(err)
		}
		m := newBPE(v, bpeOptions{unknown: missing})
		if _, err := m.setMerges(v, merges); err != nil {
			t.Fatal(err)
		}
		word := randomWord(random, max(1, length%700))
		ways := mergedEveryWay(m, word)
		for name, got := range ways {
			if !slices.Equal(got, ways["short"]) {
				t.Fatalf("%s differs from short on %s with %v", name, word, merges)
			}
		}
	})
}
