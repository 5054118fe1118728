package token

import (
	"errors"
	"maps"
	"math"
	"unicode/utf8"

	"parley"
)

// unknownPenalty is how much worse than the worst token an unknown character scores.
const unknownPenalty = 10

// A unigram model takes the segmentation of a word with the highest sum of token scores.
type unigram struct {
	trie         unigramTrie
	scores       []float64
	unknown      int32 // or missing
	unknownScore float64
	fallback     [256]int32
	byteFallback bool
	ids          map[string]parley.Token
	cache        *wordCache
}

var errNoUnknown = errors.New(
	"the text has a character that is not in the vocabulary, and the vocabulary has no unknown token")

func (m *unigram) appendWord(dst []parley.Token, word string, s *scratch) ([]parley.Token, error) {
	if len(word) > cachedWordMax {
		return m.appendBest(dst, word, s)
	}
	hash := m.cache.hash(word)
	if ids, ok := m.cache.find(hash, word); ok {
		return append(dst, ids...), nil
	}
	before := len(dst)
	dst, err := m.appendBest(dst, word, s)
	if err == nil {
		m.cache.store(hash, word, dst[before:], &s.misses)
	}
	return dst, err
}

func (m *unigram) appendBest(dst []parley.Token, word string, s *scratch) ([]parley.Token, error) {
	nodes := append(s.nodes[:0], unigramNode{})
	for range len(word) {
		nodes = append(nodes, unigramNode{start: missing})
	}
	s.nodes = nodes
	for at := 0; at < len(word); {
		_, width := utf8.DecodeRuneInString(word[at:])
		if !m.extend(nodes, word, at, width) {
			if m.unknown == missing {
				return dst, errNoUnknown
			}
			reach(&nodes[at+width], nodes[at].score+m.unknownScore, m.unknown, at)
		}
		at += width
	}
	return m.appendPath(dst, word, s)
}

// extend follows every token that begins at a position and reports whether one of them is exactly the character
// there.
func (m *unigram) extend(nodes []unigramNode, word string, at, width int) (single bool) {
	state := int32(0)
	for i := at; i < len(word); i++ {
		if state = m.trie.next(state, word[i]); state < 0 {
			break
		}
		if id := m.trie.tokens[state]; id >= 0 {
			reach(&nodes[i+1], nodes[at].score+m.scores[id], id, at)
			single = single || i+1 == at+width
		}
	}
	return single
}

func reach(n *unigramNode, score float64, id int32, start int) {
	if n.start == missing || score > n.score {
		*n = unigramNode{score, id, int32(start)}
	}
}

// appendPath walks the best path back and writes its tokens in order. Neighbouring unknown characters are one unknown
// token.
func (m *unigram) appendPath(dst []parley.Token, word string, s *scratch) ([]parley.Token, error) {
	path := s.spans[:0]
	for end := len(word); end > 0; {
		n := s.nodes[end]
		start := int(n.start)
		if n.id == m.unknown {
			for start > 0 && s.nodes[start].id == m.unknown {
				start = int(s.nodes[start].start)
			}
		}
		path = append(path, textRange{start, end})
		end = start
	}
	s.spans = path
	for i := len(path) - 1; i >= 0; i-- {
		var err error
		if dst, err = m.appendPiece(dst, word[path[i].start:path[i].end]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (m *unigram) appendPiece(dst []parley.Token, text string) ([]parley.Token, error) {
	if id, ok := m.ids[text]; ok {
		return append(dst, id), nil
	}
	before := len(dst)
	for i := 0; m.byteFallback && i < len(text); i++ {
		id := m.fallback[text[i]]
		if id == missing {
			dst = dst[:before]
			break
		}
		dst = append(dst, parley.Token(id))
	}
	if len(dst) > before {
		return dst, nil
	}
	if m.unknown == missing {
		return dst, errNoUnknown
	}
	return append(dst, parley.Token(m.unknown)), nil
}

// A unigramTrie holds the vocabulary by bytes.
type unigramTrie struct {
	tokens []int32    // by node: the token that ends there, or missing
	edges  *pairTable // from node and byte to node, which is the id of the merge
}

func newUnigramTrie(bytesTotal int) unigramTrie {
	return unigramTrie{tokens: []int32{missing}, edges: newPairTable(bytesTotal)}
}

func (t *unigramTrie) next(state int32, b byte) int32 {
	return t.edges.find(state, int32(b)).id
}

func (t *unigramTrie) add(text string, id int32) {
	state := int32(0)
	for i := range len(text) {
		to := t.next(state, text[i])
		if to < 0 {
			to = int32(len(t.tokens))
			t.tokens = append(t.tokens, missing)
			t.edges.set(state, int32(text[i]), merge{0, to})
		}
		state = to
	}
	t.tokens[state] = id
}

// newUnigram builds the model from texts and scores in the order of their ids.
func newUnigram(v *vocabulary, scores []float64, unknown int32, byteFallback bool) *unigram {
	total := 1
	for _, text := range v.texts {
		total += len(text)
	}
	m := &unigram{
		trie:         newUnigramTrie(total),
		scores:       scores,
		unknown:      unknown,
		byteFallback: byteFallback,
		ids:          maps.Clone(v.ids),
		fallback:     v.byteTokens(),
		cache:        newWordCache(),
	}
	worst := math.Inf(1)
	for id := range scores {
		worst = min(worst, scores[id])
		m.trie.add(v.texts[id], int32(v.ids[v.texts[id]]))
	}
	m.unknownScore = worst - unknownPenalty
	return m
}
