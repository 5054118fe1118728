package term

import (
	"unicode"

	"golang.org/x/text/width"
)

const joiner = '\u200d' // joins two emoji into one

func isControl(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 }

// runeCells is how many cells terminals give a character.
func runeCells(r rune) int {
	switch {
	case r < 0x20 || r == joiner:
		return 0
	case r < 0x7f:
		return 1
	case isControl(r) || unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// cells is how many cells a text takes.
func cells(text []rune) (n int) {
	for _, r := range text {
		n += runeCells(r)
	}
	return n
}

// joins reports whether r belongs to the character before it: an accent, a
// variation, a skin tone, or what follows a joiner.
func joins(before, r rune) bool {
	return before == joiner || r == joiner || unicode.In(r, unicode.Mn, unicode.Me) || r >= 0x1f3fb && r <= 0x1f3ff
}

// after returns where the character that begins at i ends.
func after(text []rune, i int) int {
	if i >= len(text) {
		return len(text)
	}
	for i++; i < len(text) && joins(text[i-1], text[i]); i++ {
	}
	return i
}

// before returns where the character that ends at i begins.
func before(text []rune, i int) int {
	if i <= 0 {
		return 0
	}
	for i--; i > 0 && joins(text[i-1], text[i]); i-- {
	}
	return i
}

// shown is text as it may be written to a screen: control characters are
// replaced by pictures of themselves, tabs by spaces.
func shown(text []rune) []rune {
	out := make([]rune, 0, len(text))
	for _, r := range text {
		switch {
		case r == '\t':
			out = append(out, ' ', ' ', ' ', ' ')
		default:
			out = append(out, picture(r))
		}
	}
	return out
}

// picture returns what is shown for a character that a terminal would obey,
// and every other one as it is.
func picture(r rune) rune {
	switch {
	case r < 0x20:
		return 0x2400 + r
	case r == 0x7f:
		return 0x2421
	case isControl(r):
		return unicode.ReplacementChar
	}
	return r
}
