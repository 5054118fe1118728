package token

import "unicode/utf8"

// crossings knows which neighbouring characters some merge can join. Between any others a long word can be cut
// without changing its tokens, and short words merge faster than long ones.
type crossings struct {
	ascii [utf8.RuneSelf][2]uint64
	bytes []uint64   // byte-level models: one bit per pair of bytes
	runes *pairTable // other models: pairs beyond ASCII
	// unsure: a merge uses tokens that do not spell the text they stand for.
	unsure bool
}

// newCrossings returns a set with room for the given number of merges.
func newCrossings(byteLevel bool, merges int) *crossings {
	if byteLevel {
		return &crossings{bytes: make([]uint64, 1<<16/64)}
	}
	return &crossings{runes: newPairTable(merges)}
}

// add records the merge of two tokens.
func (c *crossings) add(left, right string) {
	_, leftByte := byteOf(left)
	_, rightByte := byteOf(right)
	if leftByte || rightByte || left == "" || right == "" {
		c.unsure = true
		return
	}
	a, _ := utf8.DecodeLastRuneInString(left)
	b, _ := utf8.DecodeRuneInString(right)
	switch {
	case c.bytes == nil && a < utf8.RuneSelf && b < utf8.RuneSelf:
		c.ascii[a][b>>6] |= 1 << (b & 63)
	case c.bytes == nil:
		c.runes.set(a, b, merge{})
	case a >= byteLevelChars || b >= byteLevelChars || charToByte[a] < 0 || charToByte[b] < 0:
		// No byte is spelled so: the merge never happens.
	default:
		bit := int(charToByte[a])<<8 | int(charToByte[b])
		c.bytes[bit>>6] |= 1 << (bit & 63)
	}
}

func (c *crossings) hasRunes(a, b rune) bool {
	if a < utf8.RuneSelf && b < utf8.RuneSelf {
		return c.ascii[a][b>>6]>>(b&63)&1 != 0
	}
	return c.runes.find(a, b).rank != noRank
}

func (c *crossings) cutBytes(word string) int {
	for i := 1; i < len(word); i++ {
		bit := int(word[i-1])<<8 | int(word[i])
		if c.bytes[bit>>6]>>(bit&63)&1 == 0 {
			return i
		}
	}
	return len(word)
}
