package token

import (
	"strings"
	"unicode/utf8"

	"parley"
)

// A bpe is a byte pair encoding model: words are cut into single characters (or bytes) and the best-ranked neighbours
// are joined until none is left.
type bpe struct {
	bpeOptions
	mergeRules
	// bytePairs answers the first lookup of every pair of bytes; byte-level only.
	bytePairs []merge
	// shortcuts are the words of two bytes that are one token; nil unless every byte is a token.
	shortcuts  []merge
	byteIDs    [256]int32 // byte-level: symbol of each byte, or missing
	runeIDs    *runeTable // otherwise: symbol of each character
	words      map[string]parley.Token
	wordFilter hashFilter

	fallback      [256]int32 // byte tokens such as <0x0A>
	crossings     *crossings
	cuts          bool  // long words are cut where no merge can join
	wordsBySpace  bool  // no merge joins another character to a "▁" after it
	firstSpelling int32 // symbols from here on are characters without a token
	spellings     [][]parley.Token

	cache *wordCache
}

// bpeOptions are what a file says about a model beside its tokens and merges.
type bpeOptions struct {
	byteLevel bool
	// wholeWords: a word that is a token is that token, whatever the merges say.
	wholeWords   bool
	unknown      int32 // missing when the vocabulary has none: unknown characters vanish
	fuseUnknown  bool
	byteFallback bool
	prefix       string // of every character but the first of a word
	suffix       string // of the last character of a word
}

const (
	// shortWord is the number of symbols up to which rescanning a flat array beats keeping buckets.
	shortWord = 96
	// cutWord is the length up to which looking for cuts does not pay.
	cutWord = 16
)

// appendWord appends the tokens of one word. The word is raw bytes for byte-level models and normalized text for all
// others.
func (m *bpe) appendWord(dst []parley.Token, word string, s *scratch) ([]parley.Token, error) {
	if !m.wordsBySpace {
		return m.appendCached(dst, word, s), nil
	}
	for word != "" {
		end := nextSpaceWord(word)
		dst = m.appendCached(dst, word[:end], s)
		word = word[end:]
	}
	return dst, nil
}

// nextSpaceWord returns where the next "▁" begins that follows another character.
func nextSpaceWord(word string) int {
	at := 0
	for strings.HasPrefix(word[at:], spaceMark) {
		at += len(spaceMark)
	}
	if next := strings.Index(word[at:], spaceMark); next >= 0 {
		return at + next
	}
	return len(word)
}

func (m *bpe) appendCached(dst []parley.Token, word string, s *scratch) []parley.Token {
	if m.shortcuts != nil && len(word) <= 2 {
		return m.appendShortest(dst, word)
	}
	switch {
	case len(word) > cachedWordMax:
		return m.appendMerged(dst, word, s)
	case len(word) <= 4 && m.shortcuts != nil && !m.wholeWords && m.staysBytes(word):
		return m.appendBytes(dst, word)
	}
	hash := m.cache.hash(word)
	if ids, ok := m.cache.find(hash, word); ok {
		return append(dst, ids...)
	}
	before := len(dst)
	dst = m.appendMerged(dst, word, s)
	m.cache.store(hash, word, dst[before:], &s.misses)
	return dst
}

// staysBytes says that no two neighbours merge.
func (m *bpe) staysBytes(word string) bool {
	for i := 1; i < len(word); i++ {
		if m.bytePairs[int(word[i-1])<<8|int(word[i])].rank != noRank {
			return false
		}
	}
	return true
}

func (m *bpe) appendBytes(dst []parley.Token, word string) []parley.Token {
	for i := range len(word) {
		dst = append(dst, parley.Token(m.byteIDs[word[i]]))
	}
	return dst
}

// appendShortest appends the tokens of a word of one or two bytes.
func (m *bpe) appendShortest(dst []parley.Token, word string) []parley.Token {
	if len(word) == 2 {
		if joined := m.shortcuts[int(word[0])<<8|int(word[1])]; joined.rank != noRank {
			return append(dst, parley.Token(joined.id))
		}
	}
	return m.appendBytes(dst, word)
}

func (m *bpe) appendMerged(dst []parley.Token, word string, s *scratch) []parley.Token {
	if m.wholeWords && m.wordFilter.mayHave(m.cache.hash(word)) {
		if id, ok := m.words[word]; ok {
			return append(dst, id)
		}
	}
	for m.cuts && len(word) > cutWord {
		end := m.cut(word)
		dst = m.appendPart(dst, word[:end], s)
		word = word[end:]
	}
	return m.appendPart(dst, word, s)
}

// appendPart appends the tokens of a word that is merged as a whole.
func (m *bpe) appendPart(dst []parley.Token, word string, s *scratch) []parley.Token {
	s.symbols = m.appendSymbols(s.symbols[:0], word)
	if len(s.symbols) > 1 {
		s.pending = m.appendFirstMerges(s.pending[:0], s.symbols, word)
		if len(s.symbols) > shortWord {
			s.symbols = s.long.run(&m.mergeRules, s.symbols, s.pending)
		} else {
			s.symbols = m.mergeShort(s.symbols, s.pending)
		}
	}
	for _, id := range s.symbols {
		if id >= m.firstSpelling {
			dst = append(dst, m.spellings[id-m.firstSpelling]...)
			continue
		}
		dst = append(dst, parley.Token(id))
	}
	return dst
}

// mergeShort joins pairs in place: quadratic, but over a few numbers that lie side by side.
func (m *bpe) mergeShort(symbols []int32, pending []merge) []int32 {
	for {
		best, at := noRank, 0
		for i := range pending {
			if pending[i].rank < best {
				best, at = pending[i].rank, i
			}
		}
		if best == noRank {
			return symbols
		}
		symbols[at] = pending[at].id
		symbols = append(symbols[:at+1], symbols[at+2:]...)
		pending = append(pending[:at], pending[at+1:]...)
		if at > 0 {
			pending[at-1] = m.pairs.find(symbols[at-1], symbols[at])
		}
		if at < len(pending) {
			pending[at] = m.pairs.find(symbols[at], symbols[at+1])
		}
	}
}

// appendFirstMerges appends the merge of each neighbouring pair.
func (m *bpe) appendFirstMerges(dst []merge, symbols []int32, word string) []merge {
	if m.bytePairs != nil && len(symbols) == len(word) {
		for i := 1; i < len(word); i++ {
			dst = append(dst, m.bytePairs[int(word[i-1])<<8|int(word[i])])
		}
		return dst
	}
	for i := 1; i < len(symbols); i++ {
		dst = append(dst, m.pairs.find(symbols[i-1], symbols[i]))
	}
	return dst
}

// appendSymbols appends the symbols a word starts from.
func (m *bpe) appendSymbols(dst []int32, word string) []int32 {
	if m.byteLevel {
		return m.appendByteSymbols(dst, word)
	}
	unknown := false // an unknown token is waiting to be written
	for i := 0; i < len(word); {
		r, width := rune(word[i]), 1
		if r >= utf8.RuneSelf {
			r, width = utf8.DecodeRuneInString(word[i:])
		}
		last := i+width == len(word)
		id := m.symbolOf(r, width, word[i:i+width], i == 0, last)
		dst, unknown = m.appendSymbol(dst, id, unknown, word[i:i+width], i == 0, last)
		i += width
	}
	if unknown {
		dst = append(dst, m.unknown)
	}
	return dst
}

func (m *bpe) symbolOf(r rune, width int, text string, first, last bool) int32 {
	if r == utf8.RuneError && width == 1 {
		return missing
	}
	if m.prefix == "" && m.suffix == "" {
		return m.runeIDs.find(r)
	}
	if id, ok := m.words[m.decorated(text, first, last)]; ok {
		return int32(id)
	}
	return missing
}

// decorated puts the word-position marks of the vocabulary around a character.
func (m *bpe) decorated(text string, first, last bool) string {
	if !first {
		text = m.prefix + text
	}
	if last {
		text += m.suffix
	}
	return text
}

// appendSymbol appends one character's symbol, or what stands for a character without one. It follows the reference
// in that byte tokens do not write out an unknown token that is waiting.
func (m *bpe) appendSymbol(dst []int32, id int32, unknown bool, text string, first, last bool) ([]int32, bool) {
	if id != missing {
		if unknown {
			dst = append(dst, m.unknown)
		}
		return append(dst, id), false
	}
	if m.byteFallback {
		if out, ok := m.appendFallback(dst, m.decorated(text, first, last)); ok {
			return out, unknown
		}
	}
	if m.unknown == missing {
		return dst, unknown
	}
	if unknown && !m.fuseUnknown {
		dst = append(dst, m.unknown)
	}
	return dst, true
}

func (m *bpe) appendFallback(dst []int32, text string) ([]int32, bool) {
	before := len(dst)
	for i := range len(text) {
		id := m.fallback[text[i]]
		if id == missing {
			return dst[:before], false
		}
		dst = append(dst, id)
	}
	return dst, true
}

func (m *bpe) appendByteSymbols(dst []int32, word string) []int32 {
	unknown := false
	for i := range len(word) {
		id := m.byteIDs[word[i]]
		if id >= 0 && !unknown {
			dst = append(dst, id)
			continue
		}
		dst, unknown = m.appendSymbol(dst, id, unknown, string(byteToChar[word[i]]), i == 0, i == len(word)-1)
	}
	if unknown {
		dst = append(dst, m.unknown)
	}
	return dst
}

// A runeTable maps characters to symbols by pages of 256.
type runeTable struct {
	page [(utf8.MaxRune + 1) >> 8]*[256]int32
}

func (t *runeTable) find(r rune) int32 {
	if p := t.page[r>>8]; p != nil {
		return p[r&0xFF]
	}
	return missing
}

func (t *runeTable) set(r rune, id int32) {
	p := t.page[r>>8]
	if p == nil {
		p = new([256]int32)
		for i := range p {
			p[i] = missing
		}
		t.page[r>>8] = p
	}
	p[r&0xFF] = id
}

// cut returns the length of a first part of word that no merge leaves.
func (m *bpe) cut(word string) int {
	if m.byteLevel {
		return m.crossings.cutBytes(word)
	}
	before, known := rune(0), false
	for i, r := range word {
		now := m.runeIDs.find(r) != missing
		// Unknown characters may fuse, so they stay together.
		if i > 0 && now && known && !m.crossings.hasRunes(before, r) {
			return i
		}
		before, known = r, now
	}
	return len(word)
}
