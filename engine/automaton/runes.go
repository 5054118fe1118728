package automaton

import (
	"slices"
	"unicode/utf8"
)

// A dialect says how a character is spelled in the text.
type dialect bool

const (
	// PlainText spells characters as they are.
	PlainText dialect = false
	// QuotedText spells them as between the quotes of a JSON string. Of the
	// spellings that JSON has for one character it takes the shortest.
	QuotedText dialect = true
)

// EveryRune are all characters.
var EveryRune = []rune{0, utf8.MaxRune}

// The first rune after the surrogates, and the last before them.
const (
	surrogateBefore = 0xD7FF
	surrogateAfter  = 0xE000
)

// shortEscapes are the characters that JSON escapes in two bytes and never
// writes as they are.
var shortEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

// Runes takes one character between lo and hi, pair after pair of ranges.
// Control characters that JSON has no short spelling for are left out of
// quoted text.
func (s *Sketch) Runes(from int32, ranges []rune, d dialect) int32 {
	to := s.Node()
	for i := 0; i+1 < len(ranges); i += 2 {
		lo, hi := ranges[i], min(ranges[i+1], utf8.MaxRune)
		if d == PlainText {
			s.raw(from, to, lo, hi)
			continue
		}
		for _, r := range "\"\\\b\f\n\r\t" {
			if lo <= r && r <= hi {
				s.Link(s.Literal(from, shortEscapes[r]), to)
			}
		}
		for _, part := range [][2]rune{{' ', '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, utf8.MaxRune}} {
			s.raw(from, to, max(lo, part[0]), min(hi, part[1]))
		}
	}
	return to
}

// raw takes the UTF-8 encoding of one character between lo and hi.
func (s *Sketch) raw(from, to int32, lo, hi rune) {
	for _, part := range [][2]rune{{0, 0x7F}, {0x80, 0x7FF}, {0x800, surrogateBefore}, {surrogateAfter, 0xFFFF},
		{0x10000, utf8.MaxRune}} {
		if a, b := max(lo, part[0]), min(hi, part[1]); a <= b {
			s.encoded(from, to, utf8.AppendRune(nil, a), utf8.AppendRune(nil, b))
		}
	}
}

// encoded takes the encodings between lo and hi, which are equally long. Where
// the first bytes differ, what lies between them has free choice of the rest.
func (s *Sketch) encoded(from, to int32, lo, hi []byte) {
	switch {
	case len(lo) == 1:
		s.add(from, arc{kind: takesByte, lo: lo[0], hi: hi[0], to: to})
		return
	case lo[0] == hi[0]:
		s.encoded(s.span(from, lo[0], lo[0]), to, lo[1:], hi[1:])
		return
	}
	least, most := slices.Repeat([]byte{0x80}, len(lo)-1), slices.Repeat([]byte{0xBF}, len(lo)-1)
	first, last := lo[0], hi[0]
	if slices.Compare(lo[1:], least) > 0 {
		s.encoded(s.span(from, first, first), to, lo[1:], most)
		first++
	}
	if slices.Compare(hi[1:], most) < 0 {
		s.encoded(s.span(from, last, last), to, least, hi[1:])
		last--
	}
	if first <= last {
		s.encoded(s.span(from, first, last), to, least, most)
	}
}

// Quote returns text as JSON writes it between quotes, in the spelling of
// quotedText.
func Quote(text string) string {
	const hex = "0123456789abcdef"
	var b []byte
	for _, r := range text {
		if short, ok := shortEscapes[r]; ok {
			b = append(b, short...)
		} else if r < ' ' {
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		} else {
			b = utf8.AppendRune(b, r)
		}
	}
	return string(b)
}
