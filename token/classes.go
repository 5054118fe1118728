package token

import (
	"unicode"
	"unicode/utf8"
)

// A class is the set of character properties that split patterns ask about.
type class uint16

const (
	upper    class = 1 << iota // \p{Lu}
	lower                      // \p{Ll}
	title                      // \p{Lt}
	modifier                   // \p{Lm}
	other                      // \p{Lo}
	mark                       // \p{M}
	number                     // \p{N}
	space                      // \s
	newline                    // [\r\n]
	punct                      // \p{P}
	symbol                     // \p{S}

	letter    = upper | lower | title | modifier | other
	upperLike = upper | title | modifier | other | mark
	lowerLike = lower | modifier | other | mark
)

// classTable maps every code point to its class in two steps, so that a lookup costs two loads whatever the script.
type classTable struct {
	block [(utf8.MaxRune + 1) >> 8]uint16
	class [][256]class
}

var (
	classes    = buildClasses()
	asciiClass = firstClasses(classes)
)

func firstClasses(t *classTable) (ascii [utf8.RuneSelf]class) {
	for c := range ascii {
		ascii[c] = t.of(rune(c))
	}
	return ascii
}

func (t *classTable) of(r rune) class { return t.class[t.block[r>>8]][r&0xFF] }

func (t *classTable) add(lo, hi rune, c class) {
	for r := lo; r <= hi; r++ {
		b := t.block[r>>8]
		if b == 0 {
			b = uint16(len(t.class))
			t.class = append(t.class, [256]class{})
			t.block[r>>8] = b
		}
		t.class[b][r&0xFF] |= c
	}
}

func (t *classTable) addTable(table *unicode.RangeTable, c class) {
	for _, r := range table.R16 {
		for lo := rune(r.Lo); lo <= rune(r.Hi); lo += rune(r.Stride) {
			t.add(lo, lo, c)
		}
	}
	for _, r := range table.R32 {
		for lo := rune(r.Lo); lo <= rune(r.Hi); lo += rune(r.Stride) {
			t.add(lo, lo, c)
		}
	}
}

func buildClasses() *classTable {
	t := &classTable{class: make([][256]class, 1, 512)}
	t.addTable(unicode.Lu, upper)
	t.addTable(unicode.Ll, lower)
	t.addTable(unicode.Lt, title)
	t.addTable(unicode.Lm, modifier)
	t.addTable(unicode.Lo, other)
	t.addTable(unicode.M, mark)
	t.addTable(unicode.N, number)
	t.addTable(unicode.White_Space, space)
	t.addTable(unicode.P, punct)
	t.addTable(unicode.S, symbol)
	t.add('\n', '\n', newline)
	t.add('\r', '\r', newline)
	for c, ranges := range unicode16 {
		for _, r := range ranges {
			t.add(r[0], r[1], c)
		}
	}
	return t
}

// unicode16 lists what Unicode 16 assigned after version 15, which is the version of the unicode package: the
// reference tokenizers already know it.
var unicode16 = map[class][][2]rune{
	upper:    {{0x1C89, 0x1C89}, {0xA7CB, 0xA7CC}, {0xA7DA, 0xA7DA}, {0xA7DC, 0xA7DC}, {0x10D50, 0x10D65}},
	lower:    {{0x1C8A, 0x1C8A}, {0xA7CD, 0xA7CD}, {0xA7DB, 0xA7DB}, {0x10D70, 0x10D85}},
	modifier: {{0x10D4E, 0x10D4E}, {0x10D6F, 0x10D6F}, {0x16D40, 0x16D42}, {0x16D6B, 0x16D6C}},
	other: {{0x105C0, 0x105F3}, {0x10D4A, 0x10D4D}, {0x10D4F, 0x10D4F}, {0x10EC2, 0x10EC4}, {0x11380, 0x11389},
		{0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x113B5}, {0x113B7, 0x113B7}, {0x113D1, 0x113D1},
		{0x113D3, 0x113D3}, {0x11BC0, 0x11BE0}, {0x13460, 0x143FA}, {0x16100, 0x1611D}, {0x16D43, 0x16D6A},
		{0x18CFF, 0x18CFF}, {0x1E5D0, 0x1E5ED}, {0x1E5F0, 0x1E5F0}, {0x2EBF0, 0x2EE5D}},
	mark: {{0x897, 0x897}, {0x10D69, 0x10D6D}, {0x10EFC, 0x10EFC}, {0x113B8, 0x113C0}, {0x113C2, 0x113C2},
		{0x113C5, 0x113C5}, {0x113C7, 0x113CA}, {0x113CC, 0x113D0}, {0x113D2, 0x113D2}, {0x113E1, 0x113E2},
		{0x11F5A, 0x11F5A}, {0x1611E, 0x1612F}, {0x1E5EE, 0x1E5EF}},
	number: {{0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9}, {0x16130, 0x16139}, {0x16D70, 0x16D79},
		{0x1CCF0, 0x1CCF9}, {0x1E5F1, 0x1E5FA}},
	punct: {{0x1B4E, 0x1B4F}, {0x1B7F, 0x1B7F}, {0x10D6E, 0x10D6E}, {0x113D4, 0x113D5}, {0x113D7, 0x113D8},
		{0x11BE1, 0x11BE1}, {0x16D6D, 0x16D6F}, {0x1E5FF, 0x1E5FF}},
	symbol: {{0x2427, 0x2429}, {0x2FFC, 0x2FFF}, {0x31E4, 0x31E5}, {0x31EF, 0x31EF}, {0x10D8E, 0x10D8F},
		{0x1CC00, 0x1CCEF}, {0x1CD00, 0x1CEB3}, {0x1F8B2, 0x1F8BB}, {0x1F8C0, 0x1F8C1}, {0x1FA89, 0x1FA89},
		{0x1FA8F, 0x1FA8F}, {0x1FABE, 0x1FABE}, {0x1FAC6, 0x1FAC6}, {0x1FADC, 0x1FADC}, {0x1FADF, 0x1FADF},
		{0x1FAE9, 0x1FAE9}, {0x1FBCB, 0x1FBEF}},
}

// latePunct lists punctuation that the Punctuation and Bert splitters of the reference do not know: their table is
// older than every other.
var latePunct = [][2]rune{
	{0x61D, 0x61D}, {0x9FD, 0x9FD}, {0xA76, 0xA76}, {0xC77, 0xC77}, {0xC84, 0xC84}, {0x1B4E, 0x1B4F},
	{0x1B7D, 0x1B7F}, {0x2E43, 0x2E4F}, {0x2E52, 0x2E5D}, {0x10D6E, 0x10D6E}, {0x10EAD, 0x10EAD},
	{0x10F55, 0x10F59}, {0x10F86, 0x10F89}, {0x113D4, 0x113D8}, {0x1144B, 0x1144F}, {0x1145A, 0x1145B},
	{0x1145D, 0x1145D}, {0x11660, 0x1166C}, {0x116B9, 0x116B9}, {0x1183B, 0x1183B}, {0x11944, 0x11946},
	{0x119E2, 0x119E2}, {0x11A3F, 0x11A46}, {0x11A9A, 0x11A9C}, {0x11A9E, 0x11AA2}, {0x11B00, 0x11B09},
	{0x11BE1, 0x11BE1}, {0x11C41, 0x11C45}, {0x11C70, 0x11C71}, {0x11EF7, 0x11EF8}, {0x11F43, 0x11F4F},
	{0x11FFF, 0x11FFF}, {0x12FF1, 0x12FF2}, {0x16D6D, 0x16D6F}, {0x16E97, 0x16E9A}, {0x16FE2, 0x16FE2},
	{0x1E5FF, 0x1E5FF}, {0x1E95E, 0x1E95F},
}

func inRanges(r rune, ranges [][2]rune) bool {
	for _, g := range ranges {
		if g[0] <= r && r <= g[1] {
			return true
		}
	}
	return false
}

// isPunctuation is the reference's notion for the Punctuation and Bert splitters: ASCII symbols count.
func isPunctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return asciiClass[r]&(punct|symbol) != 0
	}
	if r == 0x166D || r == 0x111C9 {
		return true
	}
	return classes.of(r)&punct != 0 && !inRanges(r, latePunct)
}

// isWordRune is \w as the reference uses it around single-word added tokens.
func isWordRune(r rune) bool {
	return classes.of(r)&(letter|mark) != 0 ||
		unicode.In(r, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}

func isSpaceRune(r rune) bool  { return classes.of(r)&space != 0 }
func isNumberRune(r rune) bool { return classes.of(r)&number != 0 }

// classAt returns the class and the width of the character at s[i]. A byte that is not UTF-8 is one character without
// properties.
func classAt(s string, i int) (class, int) {
	if b := s[i]; b < utf8.RuneSelf {
		return asciiClass[b], 1
	}
	if !startsRune(s, i) {
		return 0, 1
	}
	r, width := utf8.DecodeRuneInString(s[i:])
	if r == utf8.RuneError && width == 1 {
		return 0, 1
	}
	return classes.of(r), width
}

// startsRune says whether a character of several bytes may begin at s[i]. It spares decoding most bytes of data that
// is not text.
func startsRune(s string, i int) bool {
	return s[i] >= 0xC2 && s[i] <= 0xF4 && i+1 < len(s) && s[i+1]&0xC0 == 0x80
}
