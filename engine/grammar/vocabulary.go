package grammar

import (
	"slices"
	"unicode/utf8"

	"parley"
)

const (
	// tokenBytesMax is the longest token that is offered under a grammar. Longer
	// ones are runs of one character, and always have shorter spellings.
	tokenBytesMax = 256
	// shortBytesMax is the longest token in the trie. The few that are longer are
	// tried one by one, so that a counter matters only this near to its bounds.
	shortBytesMax = 24
)

// A trieNode is a node of the trie. The trie is a list in which a node stands
// before its children, and the first child directly after it.
type trieNode struct {
	// below are the classes of all bytes in the subtree, read from this node on.
	below classes
	// end is the first node after the subtree.
	end int32
	// first is the place of the node's first token in the list of all tokens,
	// which stand in the order of the nodes.
	first int32
	// height is the length of the longest way down, and characters the most
	// characters that begin on one.
	height, characters uint16
	b                  byte
}

// A Vocabulary is what tokens spell, arranged for walking with a grammar. It
// does not change after it was made and may be shared by all goroutines.
type Vocabulary struct {
	size   int
	words  int // of a mask
	nodes  []trieNode
	tokens []parley.Token
	spell  [][]byte // by token
	ends   []parley.Token
	// spelled are the bytes that are a token by themselves.
	spelled    [256]bool
	spelledAll bool
	// longest is the length of the longest token of all, and long are those that
	// are not in the trie.
	longest int
	long    []longToken
	// texts are the parts of masks that are the same for all programs, and short
	// those of strings by the number of characters left.
	texts map[string]*partial
	short []*partial
}

// A longToken is summed up as if it stood below a node alone.
type longToken struct {
	token    parley.Token
	trieNode trieNode
}

// sumUp returns what a node knows of the text below it.
func sumUp(text []byte) (t trieNode) {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r < asciiEnd:
			t.below |= classOf[r]
		case r == utf8.RuneError && n == 1:
			t.below |= classFragment
		default:
			t.below |= classCharacter
		}
		t.characters++
		text = text[n:]
	}
	return t
}

// Size returns the number of tokens.
func (v *Vocabulary) Size() int { return v.size }

// plant builds the trie from the sorted tokens.
func (v *Vocabulary) plant() {
	v.nodes = append(v.nodes, trieNode{})
	var path []int32 // the nodes on the way to the last token
	last := []byte(nil)
	for i, t := range v.tokens {
		text := v.spell[t]
		common := 0
		for common < len(last) && common < len(text) && last[common] == text[common] {
			common++
		}
		v.finish(path[common:])
		path = path[:common]
		for _, b := range text[common:] {
			path = append(path, int32(len(v.nodes)))
			v.nodes = append(v.nodes, trieNode{b: b, first: int32(i)})
		}
		last = text
	}
	v.finish(path)
	v.finish([]int32{0})
	// One more, so that the tokens of every node end where the next one's begin.
	v.nodes = append(v.nodes, trieNode{first: int32(len(v.tokens)), end: int32(len(v.nodes)) + 1})
}

// finish sums up nodes whose subtrees are complete, the deepest last.
func (v *Vocabulary) finish(path []int32) {
	for _, at := range slices.Backward(path) {
		t := &v.nodes[at]
		t.end = int32(len(v.nodes))
		for child := at + 1; child < t.end; child = v.nodes[child].end {
			c := &v.nodes[child]
			t.below |= v.classesFrom(child)
			t.height = max(t.height, c.height+1)
			t.characters = max(t.characters, c.characters+begins(c.b))
		}
	}
}

// begins is 1 for a byte with which a character begins.
func begins(b byte) uint16 {
	if utf8.RuneStart(b) {
		return 1
	}
	return 0
}

// classesFrom returns the classes of a node's own byte and what is below it,
// as characters that begin with that byte.
func (v *Vocabulary) classesFrom(at int32) classes {
	t := &v.nodes[at]
	if t.b < asciiEnd {
		return classOf[t.b] | t.below
	}
	return v.character(at, nil)
}

// character returns the classes of the characters beyond ASCII that begin with
// the bytes before and the node's: fragments where a token ends within one.
func (v *Vocabulary) character(at int32, before []byte) (all classes) {
	t := &v.nodes[at]
	bytes := append(slices.Clip(before), t.b)
	if utf8.FullRune(bytes) {
		if r, n := utf8.DecodeRune(bytes); r == utf8.RuneError && n == 1 {
			return classFragment
		}
		return classCharacter | t.below
	}
	if v.own(at) > 0 {
		all |= classFragment
	}
	for child := at + 1; child < t.end; child = v.nodes[child].end {
		all |= v.character(child, bytes)
	}
	return all
}

// own returns the number of tokens that end at a node. While the trie is being
// built, the node must have a child or be the last.
func (v *Vocabulary) own(at int32) int {
	next := at + 1
	if int(next) == len(v.nodes) {
		return 1
	}
	return int(v.nodes[next].first - v.nodes[at].first)
}

// child returns the node to which b leads, or -1.
func (v *Vocabulary) child(at int32, b byte) int32 {
	for child := at + 1; child < v.nodes[at].end; child = v.nodes[child].end {
		if v.nodes[child].b == b {
			return child
		}
	}
	return -1
}

// A partial is what a place decides by itself, without what its stack
// returns to: the tokens it takes, and the nodes at which it could return with
// more of the token to come.
type partial struct {
	words []uint64
	exits []int32
}

// include adds a token.
func (p *partial) include(t parley.Token) { p.words[t>>6] |= 1 << (uint(t) & 63) }
