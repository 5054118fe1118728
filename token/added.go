package token

import (
	"strings"
	"unicode/utf8"

	"parley"
)

// An addedToken is matched in the text as a whole, before any splitting.
type addedToken struct {
	id         parley.Token
	content    string
	singleWord bool // must not touch other word characters
	lstrip     bool // takes the white space before it
	rstrip     bool // takes the white space after it
	normalized bool // matches normalized text
	special    bool
	control    bool // structures a prompt; see isControl
}

// addedTokens are the tokens of a vocabulary that are not built by its model.
type addedTokens struct {
	added      *addedMatcher // matched in text as written
	normalized *addedMatcher // matched in normalized text
	// normalizedForm is how added tokens that match normalized text decode, where that differs from their
	// content.
	normalizedForm map[parley.Token]string
	special        []bool // by id
}

// An addedMatcher finds added tokens: the leftmost, and of those that start there the longest. It is a trie over
// bytes; a table of first bytes skips text in which nothing can start.
type addedMatcher struct {
	nodes     []addedNode
	starts    [256]bool
	onlyStart int // the single possible first byte, or -1
	tokens    []addedToken
}

type addedNode struct {
	child, sibling int32 // indexes, 0 for none
	token          int32 // index into tokens, or -1
	label          byte
}

func newAddedMatcher() *addedMatcher {
	return &addedMatcher{nodes: []addedNode{{token: -1}}, onlyStart: -1}
}

// add makes pattern stand for t; a later token replaces an earlier one.
func (m *addedMatcher) add(pattern string, t addedToken) {
	if pattern == "" {
		return
	}
	at := int32(0)
	for i := range len(pattern) {
		at = m.childOf(at, pattern[i])
	}
	m.nodes[at].token = int32(len(m.tokens))
	m.tokens = append(m.tokens, t)
	first := int(pattern[0])
	if len(m.tokens) == 1 {
		m.onlyStart = first
	} else if m.onlyStart != first {
		m.onlyStart = -1
	}
	m.starts[first] = true
}

// childOf returns the child of a node, making it if need be.
func (m *addedMatcher) childOf(at int32, label byte) int32 {
	for c := m.nodes[at].child; c != 0; c = m.nodes[c].sibling {
		if m.nodes[c].label == label {
			return c
		}
	}
	m.nodes = append(m.nodes, addedNode{sibling: m.nodes[at].child, token: -1, label: label})
	m.nodes[at].child = int32(len(m.nodes) - 1)
	return m.nodes[at].child
}

func (m *addedMatcher) empty() bool { return m == nil || len(m.tokens) == 0 }

// find returns the first match at or after pos, or nil.
func (m *addedMatcher) find(text string, pos int) (t *addedToken, start, end int) {
	for {
		pos = m.candidate(text, pos)
		if pos == len(text) {
			return nil, 0, 0
		}
		if t, end := m.longest(text, pos); t != nil {
			return t, pos, end
		}
		pos++
	}
}

// candidate returns the next position where a token can start.
func (m *addedMatcher) candidate(text string, pos int) int {
	if m.onlyStart >= 0 {
		n := strings.IndexByte(text[pos:], byte(m.onlyStart))
		if n < 0 {
			return len(text)
		}
		return pos + n
	}
	for pos < len(text) && !m.starts[text[pos]] {
		pos++
	}
	return pos
}

func (m *addedMatcher) longest(text string, pos int) (t *addedToken, end int) {
	at := int32(0)
	for i := pos; i < len(text); i++ {
		c := m.nodes[at].child
		for c != 0 && m.nodes[c].label != text[i] {
			c = m.nodes[c].sibling
		}
		if c == 0 {
			break
		}
		at = c
		if index := m.nodes[at].token; index >= 0 {
			t, end = &m.tokens[index], i+1
		}
	}
	return t, end
}

// cut calls plain for text between matches and found for each match, in order. Control tokens outside of authored are
// text like any other.
func (m *addedMatcher) cut(text string, authored authorship, plain func(string, int) error,
	found func(parley.Token)) error {
	done := 0
	for pos := 0; ; {
		t, start, end := m.find(text, pos)
		if t == nil {
			break
		}
		if t.control && !authored.all {
			if t, end = m.permitted(text, t, start, end, authored); t == nil {
				pos = end
				continue
			}
		}
		pos = end
		if t.singleWord && !standsAlone(text, start, end) {
			continue
		}
		if t.lstrip {
			start = max(done, trimSpaceEnd(text, start))
		}
		if t.rstrip {
			end += leadingSpace(text[end:])
		}
		if done < start {
			if err := plain(text[done:start], done); err != nil {
				return err
			}
		}
		found(t.id)
		done = end
	}
	if done < len(text) {
		return plain(text[done:], done)
	}
	return nil
}

// permitted returns the longest token at start that may be read there, given that the longest of all is the control
// token t. Without any, end says where the search continues: after a token that is data throughout, otherwise at the
// next byte, because the author's next token may begin within.
func (m *addedMatcher) permitted(text string, t *addedToken, start, end int, authored authorship) (*addedToken, int) {
	own, data := authored.covers(start, end)
	switch {
	case own:
		return t, end
	case data:
		return nil, end
	}
	for stop := end - 1; stop > start; stop-- {
		shorter, to := m.longest(text[:stop], start)
		if shorter == nil {
			break
		}
		if own, _ := authored.covers(start, to); own || !shorter.control {
			return shorter, to
		}
		stop = to
	}
	return nil, start + 1
}

func standsAlone(text string, start, end int) bool {
	if before, n := utf8.DecodeLastRuneInString(text[:start]); n > 0 && isWordRune(before) {
		return false
	}
	after, n := utf8.DecodeRuneInString(text[end:])
	return n == 0 || !isWordRune(after)
}

// trimSpaceEnd returns where the white space that ends at end begins.
func trimSpaceEnd(text string, end int) int {
	return len(strings.TrimRightFunc(text[:end], isSpaceRune))
}

func leadingSpace(text string) int {
	return len(text) - len(strings.TrimLeftFunc(text, isSpaceRune))
}
