package token

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"parley"
)

// newScoredBPE builds the model of a SentencePiece vocabulary. Such a vocabulary has no list of merges: any two
// neighbours join if their texts together are a token, and the token with the best score goes first, the leftmost of
// equals. Written out as pairs and ranks this is byte pair encoding: every way to cut a token in two gives a pair.
//
// Only tokens that are joinable are built from characters.
func newScoredBPE(v *vocabulary, scores []float64, joinable func(id int) bool, unknown int32) *bpe {
	m := newBPE(v, bpeOptions{byteFallback: true, unknown: unknown})
	b := &scoredBuilder{
		v:        v,
		joinable: joinable,
		m:        m,
		runes:    new(runeTable),
		spelled:  map[string]int32{},
	}
	byScore := make([]int, 0, len(v.texts))
	for id, text := range v.texts {
		if !joinable(id) {
			continue
		}
		byScore = append(byScore, id)
		if r, width := utf8.DecodeRuneInString(text); width > 0 && width == len(text) {
			b.runes.set(r, int32(v.ids[text]))
		}
	}
	slices.SortStableFunc(byScore, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	rules, crossings := b.addPairs(byScore, scores)
	m.setScored(v, rules, crossings, b.runes, b.spellings)
	return m
}

type scoredBuilder struct {
	v         *vocabulary
	joinable  func(id int) bool
	m         *bpe
	runes     *runeTable
	spelled   map[string]int32 // characters that are parts of tokens but not tokens
	spellings [][]parley.Token // of those characters, in bytes
	pairs     []scoredPair
	cuts      [][2]string
}

type scoredPair struct {
	left, right int32
	merge
}

// addPairs lists every cut of every token. Tokens of equal score share a rank.
func (b *scoredBuilder) addPairs(byScore []int, scores []float64) (mergeRules, *crossings) {
	rank := uint32(0)
	for i, id := range byScore {
		if i > 0 && scores[id] != scores[byScore[i-1]] {
			rank++
		}
		if text := b.v.texts[id]; int(b.v.ids[text]) == id {
			b.addCuts(text, merge{rank, int32(id)})
		}
	}
	rules := mergeRules{pairs: newPairTable(len(b.pairs)), ranks: int(rank) + 1}
	crossings := newCrossings(false, len(b.pairs))
	for i, p := range b.pairs {
		rules.pairs.set(p.left, p.right, p.merge)
		crossings.add(b.cuts[i][0], b.cuts[i][1])
	}
	return rules, crossings
}

// cutsMax bounds the work for one token of a hostile file; no real token is longer.
const cutsMax = 512

func (b *scoredBuilder) addCuts(text string, m merge) {
	if len(text) > cutsMax || !utf8.ValidString(text) {
		return
	}
	for at := range text {
		if at == 0 {
			continue
		}
		left, right := b.part(text[:at]), b.part(text[at:])
		if left == missing || right == missing {
			continue
		}
		b.pairs = append(b.pairs, scoredPair{left, right, m})
		b.cuts = append(b.cuts, [2]string{text[:at], text[at:]})
	}
}

// part returns the symbol of one side of a cut: a token, or a character that is not a token and is spelled in bytes
// if it stays alone.
func (b *scoredBuilder) part(text string) int32 {
	if id := b.v.id(text); id != missing && b.joinable(int(id)) {
		return id
	}
	if id, ok := b.spelled[text]; ok {
		return id
	}
	r, width := utf8.DecodeRuneInString(text)
	if width != len(text) {
		return missing
	}
	id := int32(len(b.v.texts) + len(b.spellings))
	b.spelled[text] = id
	b.spellings = append(b.spellings, b.spelling(text))
	b.runes.set(r, id)
	return id
}

func (b *scoredBuilder) spelling(text string) []parley.Token {
	var ids []parley.Token
	for i := range len(text) {
		id := b.m.fallback[text[i]]
		if id == missing {
			if b.m.unknown == missing {
				return nil
			}
			return []parley.Token{parley.Token(b.m.unknown)}
		}
		ids = append(ids, parley.Token(id))
	}
	return ids
}
