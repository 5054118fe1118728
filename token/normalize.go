package token

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A normalizer rewrites text before it is split.
type normalizer func(text string, s *scratch) (string, error)

// unicodeForm normalizes to a Unicode form. The library breaks up runs of more than thirty combining marks with a
// joiner, which the reference does not, so such runs are put in order here.
func unicodeForm(form norm.Form) normalizer {
	moving := sync.OnceValue(func() *classTable { return movingRunes(form) })
	compatible := form == norm.NFKC || form == norm.NFKD
	return func(text string, _ *scratch) (string, error) {
		if isASCII(text) {
			return text, nil
		}
		return normalizeMoving(text, moving(), func(part string) string {
			if compatible {
				return aroundLateCompatible(part, form)
			}
			return normalizeTo(part, form)
		}), nil
	}
}

// normalizeMoving calls normalize for each run of moving characters with the one before it, and keeps the rest.
func normalizeMoving(text string, moving *classTable, normalize func(string) string) string {
	var out strings.Builder
	kept := 0 // text before here is in out
	for i, last := 0, 0; i < len(text); {
		width, moves := movingAt(text, i, moving)
		if !moves {
			last = i
			i += width
			continue
		}
		for ; moves; width, moves = movingAt(text, i, moving) {
			i += width
		}
		out.WriteString(text[kept:last])
		out.WriteString(normalize(text[last:i]))
		kept, last = i, i
	}
	if kept == 0 {
		return text
	}
	out.WriteString(text[kept:])
	return out.String()
}

// movingAt returns the width of the character at i and whether it moves. At the end of the text there is none.
func movingAt(text string, i int, moving *classTable) (width int, moves bool) {
	if i == len(text) {
		return 0, false
	}
	if !startsRune(text, i) {
		return 1, false
	}
	r, width := utf8.DecodeRuneInString(text[i:])
	return width, moving.of(r) != 0
}

// movingRunes marks the characters that a form changes, or that it may join to or order among their neighbours. Text
// without them is normal.
func movingRunes(form norm.Form) *classTable {
	t := &classTable{class: make([][256]class, 1)}
	for r := rune(utf8.RuneSelf); r <= utf8.MaxRune; r++ {
		if classes.block[r>>8] == 0 {
			r |= 0xFF // nothing is assigned in this block
			continue
		}
		text := string(r)
		p := form.PropertiesString(text)
		if p.CCC() != 0 || !p.BoundaryBefore() || !form.IsNormalString(text) {
			t.add(r, r, mark)
		}
	}
	return t
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// lateCompatible lists characters whose compatibility mapping is newer than the table of the reference: they stay as
// they are.
var lateCompatible = [][2]rune{{0x32FF, 0x32FF}, {0xA7F2, 0xA7F4}, {0xAB69, 0xAB69}, {0x10781, 0x10785},
	{0x10787, 0x107B0}, {0x107B2, 0x107BA}, {0x1E030, 0x1E06D}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}}

func aroundLateCompatible(text string, form norm.Form) string {
	late := func(r rune) bool { return r >= 0x32FF && inRanges(r, lateCompatible) }
	var out strings.Builder
	for {
		at := strings.IndexFunc(text, late)
		if at < 0 {
			out.WriteString(normalizeTo(text, form))
			return out.String()
		}
		out.WriteString(normalizeTo(text[:at], form))
		_, width := utf8.DecodeRuneInString(text[at:])
		out.WriteString(text[at : at+width])
		text = text[at+width:]
	}
}

// normalizeTo takes the library's way unless the text has runs of marks it would break up.
func normalizeTo(text string, form norm.Form) string {
	if hasLongMarks(text) {
		return normalizeByHand(text, form)
	}
	return form.String(text)
}

// marksMax is how many combining characters in a row the library leaves alone. A starter may decompose to some of its
// own.
const marksMax = 24

func hasLongMarks(text string) bool {
	run := 0
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			run = 0
			i++
			continue
		}
		p := norm.NFD.PropertiesString(text[i:])
		if run++; p.CCC() == 0 && p.LeadCCC() == 0 {
			run = 0
		}
		if run > marksMax {
			return true
		}
		i += max(1, p.Size())
	}
	return false
}

// normalizeStrip removes white space at the ends.
func normalizeStrip(left, right bool) normalizer {
	return func(text string, _ *scratch) (string, error) {
		if left {
			text = strings.TrimLeftFunc(text, isSpaceRune)
		}
		if right {
			text = strings.TrimRightFunc(text, isSpaceRune)
		}
		return text, nil
	}
}

func normalizeLowercase(text string, _ *scratch) (string, error) {
	if isASCII(text) {
		return strings.ToLower(text), nil
	}
	return strings.Map(toLower, strings.ReplaceAll(text, "İ", "i̇")), nil
}

// toLower knows the letters of Unicode 16, like the class table.
func toLower(r rune) rune {
	switch {
	case r == 0x1C89, r == 0xA7CC, r == 0xA7DA:
		return r + 1
	case r == 0xA7CB:
		return 0x0264
	case r == 0xA7DC:
		return 0x019B
	case 0x10D50 <= r && r <= 0x10D65:
		return r + 0x20
	}
	return unicode.ToLower(r)
}

func normalizeStripAccents(text string, _ *scratch) (string, error) {
	return filterRunes(text, func(r rune) bool { return !unicode.Is(unicode.M, r) }), nil
}

func normalizePrepend(prefix string) normalizer {
	return func(text string, _ *scratch) (string, error) {
		if text == "" {
			return text, nil
		}
		return prefix + text, nil
	}
}

func normalizeReplace(old, replacement string) normalizer {
	return func(text string, _ *scratch) (string, error) {
		if old == "" {
			return text, nil
		}
		return strings.ReplaceAll(text, old, replacement), nil
	}
}

// normalizeSpaces is Prepend "▁" followed by Replace " " with "▁", the normalizer of every Llama 2 file, in one pass.
func normalizeSpaces(text string, _ *scratch) (string, error) {
	if text == "" {
		return text, nil
	}
	var out strings.Builder
	out.Grow(len(text) + len(spaceMark)*(1+strings.Count(text, " ")))
	out.WriteString(spaceMark)
	for {
		at := strings.IndexByte(text, ' ')
		if at < 0 {
			break
		}
		out.WriteString(text[:at])
		out.WriteString(spaceMark)
		text = text[at+1:]
	}
	out.WriteString(text)
	return out.String(), nil
}

func normalizePattern(pattern matcher, replacement string) normalizer {
	return func(text string, s *scratch) (string, error) {
		matches, err := pattern.appendMatches(s.spans[:0], text, s)
		s.spans = matches
		if err != nil || len(matches) == 0 {
			return text, err
		}
		var out strings.Builder
		at := 0
		for _, m := range matches {
			out.WriteString(text[at:m.start])
			out.WriteString(replacement)
			at = m.end
		}
		out.WriteString(text[at:])
		return out.String(), nil
	}
}

func normalizeByteLevel(text string, _ *scratch) (string, error) {
	return string(appendByteLevel(nil, text)), nil
}

// normalizeNmt drops control characters and turns unusual spaces into spaces.
func normalizeNmt(text string, _ *scratch) (string, error) {
	return strings.Map(func(r rune) rune {
		switch {
		case 0x01 <= r && r <= 0x08, r == 0x0B, 0x0E <= r && r <= 0x1F, r == 0x7F, r == 0x8F, r == 0x9F:
			return -1
		case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, 0x200B <= r && r <= 0x200F,
			r == 0x2028, r == 0x2029, r == 0x2581, r == 0xFEFF, r == 0xFFFD:
			return ' '
		}
		return r
	}, text), nil
}

func filterRunes(text string, keep func(rune) bool) string {
	return strings.Map(func(r rune) rune {
		if keep(r) {
			return r
		}
		return -1
	}, text)
}
