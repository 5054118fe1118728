package token

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"parley"
)

// scoredPairs builds the model of a SentencePiece vocabulary. Such a vocabulary has no list of merges: any two
// neighbours join if their texts together are a token, and the token with the best score goes first, the leftmost of
// equals. Written out as pairs and ranks this is byte pair encoding: every way to cut a token in two gives a pair.
//
// Control tokens, byte tokens and the unknown token are never built from characters, so that text cannot become one
// of them.
func (g *ggufVocabulary) scoredPairs(v *vocabulary) *bpe {
	b := &scoredBuilder{g: g, v: v, m: newBPE(v, false), spelled: map[string]int32{}}
	b.m.byteFallback = true
	b.m.unknown = int32(g.token("unknown_token_id"))
	b.m.firstSpelling = int32(len(g.tokens))
	b.m.runeIDs = new(runeTable)
	byScore := make([]int, 0, len(g.tokens))
	for id, text := range g.tokens {
		if !b.joinable(id) {
			continue
		}
		byScore = append(byScore, id)
		if r, width := utf8.DecodeRuneInString(text); width > 0 && width == len(text) {
			b.m.runeIDs.set(r, int32(v.ids[text]))
		}
	}
	slices.SortStableFunc(byScore, func(a, b int) int { return cmp.Compare(g.scores[b], g.scores[a]) })
	b.addPairs(byScore)
	b.m.finish(v)
	return b.m
}

type scoredBuilder struct {
	g       *ggufVocabulary
	v       *vocabulary
	m       *bpe
	spelled map[string]int32 // characters that are parts of tokens but not tokens
	pairs   []scoredPair
	cuts    [][2]string
}

type scoredPair struct {
	left, right int32
	merge
}

func (b *scoredBuilder) joinable(id int) bool {
	kind := b.g.typeOf(id)
	return kind == ggufNormal || kind == ggufUserDefined || kind == ggufUnused
}

// addPairs lists every cut of every token. Tokens of equal score share a rank.
func (b *scoredBuilder) addPairs(byScore []int) {
	rank := uint32(0)
	for i, id := range byScore {
		if i > 0 && b.g.scores[id] != b.g.scores[byScore[i-1]] {
			rank++
		}
		if text := b.g.tokens[id]; int(b.v.ids[text]) == id {
			b.addCuts(text, merge{rank, int32(id)})
		}
	}
	b.m.pairs, b.m.ranks = newPairTable(len(b.pairs)), int(rank)+1
	b.m.crossings = newCrossings(false, len(b.pairs))
	for i, p := range b.pairs {
		b.m.pairs.set(p.left, p.right, p.merge)
		b.m.crossings.add(b.cuts[i][0], b.cuts[i][1])
	}
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
	id := b.m.firstSpelling + int32(len(b.m.spellings))
	b.spelled[text] = id
	b.m.spellings = append(b.m.spellings, b.spelling(text))
	b.m.runeIDs.set(r, id)
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
