package token

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"parley"
)

// newBPE returns a model that knows the vocabulary's single characters and nothing to merge yet.
func newBPE(v *vocabulary, o bpeOptions) *bpe {
	m := &bpe{
		bpeOptions:    o,
		firstSpelling: math.MaxInt32,
		fallback:      v.byteTokens(),
		cache:         newWordCache(),
	}
	if o.byteLevel {
		for b := range m.byteIDs {
			m.byteIDs[b] = v.id(string(byteToChar[b]))
		}
		return m
	}
	m.runeIDs = new(runeTable)
	for text, id := range v.ids {
		if r, width := utf8.DecodeRuneInString(text); width > 0 && width == len(text) {
			m.runeIDs.set(r, int32(id))
		}
	}
	return m
}

// setMerges fills the table of pairs. Ranks are positions in the list.
func (m *bpe) setMerges(v *vocabulary, merges [][2]string) (sum [sha256.Size]byte, err error) {
	m.mergeRules = mergeRules{pairs: newPairTable(len(merges)), ranks: len(merges)}
	m.crossings = newCrossings(m.byteLevel, len(merges))
	h := sha256.New()
	var joined, numbers []byte
	for rank, pair := range merges {
		joined = append(append(joined[:0], pair[0]...), strings.TrimPrefix(pair[1], m.prefix)...)
		a, b := v.id(pair[0]), v.id(pair[1])
		id, ok := v.ids[string(joined)]
		if a == missing || b == missing || !ok {
			return sum, fmt.Errorf("merge %d of %q and %q needs tokens that are not in the vocabulary", rank,
				clip(pair[0]), clip(pair[1]))
		}
		m.pairs.set(a, b, merge{uint32(rank), int32(id)})
		numbers = appendPair(numbers[:0], a, b)
		h.Write(numbers)
		m.crossings.add(pair[0], pair[1])
	}
	h.Sum(sum[:0])
	m.finish(v)
	return sum, nil
}

// setScored gives the model merges that have scores instead of places, and the characters it starts from: from the
// symbol after the last token on they have no token and are spelled in others.
func (m *bpe) setScored(v *vocabulary, rules mergeRules, c *crossings, runes *runeTable, spellings [][]parley.Token) {
	m.mergeRules, m.crossings, m.runeIDs = rules, c, runes
	m.firstSpelling, m.spellings = int32(len(v.texts)), spellings
	m.finish(v)
}

func appendPair(dst []byte, a, b int32) []byte {
	return append(dst, byte(a), byte(a>>8), byte(a>>16), byte(a>>24), byte(b), byte(b>>8), byte(b>>16), byte(b>>24))
}

// finish prepares what the table of pairs allows.
func (m *bpe) finish(v *vocabulary) {
	m.ordered = m.pairs.ordered(len(v.texts) + len(m.spellings))
	whole := !slices.Contains(m.byteIDs[:], missing)
	if !m.byteLevel {
		whole = m.unknown != missing || m.byteFallback && !slices.Contains(m.fallback[:], missing)
	}
	// Where characters vanish, their neighbours meet.
	m.cuts = whole && !m.crossings.unsure && m.prefix == "" && m.suffix == ""
	m.wordsBySpace = m.cuts && !m.byteLevel && !m.wholeWords && v.id(spaceMark) != missing && !m.joinsSpaces()
	if m.wholeWords || m.prefix != "" || m.suffix != "" {
		m.words = m.wordsOf(v)
		m.wordFilter = newHashFilter(len(m.words))
		for word := range m.words {
			m.wordFilter.add(m.cache.hash(word))
		}
	}
	if !m.byteLevel {
		return
	}
	m.bytePairs = make([]merge, 1<<16)
	for i := range m.bytePairs {
		m.bytePairs[i] = m.pairs.find(m.byteIDs[i>>8], m.byteIDs[i&0xFF])
	}
	if !whole {
		return
	}
	m.shortcuts = m.bytePairs
	if m.wholeWords {
		m.shortcuts = slices.Clone(m.bytePairs)
		for word, id := range m.words {
			if len(word) == 2 {
				m.shortcuts[int(word[0])<<8|int(word[1])] = merge{0, int32(id)}
			}
		}
	}
}

// wordsOf returns the vocabulary as the model meets its words.
func (m *bpe) wordsOf(v *vocabulary) map[string]parley.Token {
	if !m.byteLevel {
		return maps.Clone(v.ids)
	}
	words := make(map[string]parley.Token, len(v.ids))
	var word []byte
	for text, id := range v.ids {
		var ok bool
		if word, ok = appendFromByteLevel(word[:0], text); ok {
			words[string(word)] = id
		}
	}
	return words
}

// joinsSpaces says whether a merge joins another character to a "▁" after it.
func (m *bpe) joinsSpaces() bool {
	spaces, _ := utf8.DecodeRuneInString(spaceMark)
	for _, slot := range m.crossings.runes.slots {
		if slot.key != emptyPair && rune(uint32(slot.key)) == spaces && rune(slot.key>>32) != spaces {
			return true
		}
	}
	return false
}
