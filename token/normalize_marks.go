package token

import (
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizeByHand puts text into a Unicode form without limits on runs of combining marks: decompose, order the
// marks, compose.
func normalizeByHand(text string, form norm.Form) string {
	decomposition := norm.NFD
	if form == norm.NFKC || form == norm.NFKD {
		decomposition = norm.NFKD
	}
	runes := decomposed(text, decomposition)
	orderMarks(runes)
	if form == norm.NFC || form == norm.NFKC {
		runes = composed(runes)
	}
	out := make([]byte, 0, len(text))
	for _, m := range runes {
		out = append(out, m.text...)
	}
	return string(out)
}

// A markedRune is a character with its combining class. text keeps bytes that are not UTF-8 as they are.
type markedRune struct {
	text  string
	class uint8
}

func decomposed(text string, form norm.Form) []markedRune {
	var out []markedRune
	for i := 0; i < len(text); {
		p := form.PropertiesString(text[i:])
		width := max(1, p.Size())
		spelled := text[i : i+width]
		i += width
		if d := p.Decomposition(); d != nil {
			spelled = string(d)
		} else if p.CCC() != 0 {
			out = append(out, markedRune{spelled, p.CCC()})
			continue
		} else if hangul, _ := utf8.DecodeRuneInString(spelled); 0xAC00 <= hangul && hangul <= 0xD7A3 {
			spelled = form.String(spelled)
		}
		for j := 0; j < len(spelled); {
			q := norm.NFD.PropertiesString(spelled[j:])
			w := max(1, q.Size())
			out = append(out, markedRune{spelled[j : j+w], q.CCC()})
			j += w
		}
	}
	return out
}

// orderMarks sorts each run of marks by combining class, keeping the order of equal classes.
func orderMarks(runes []markedRune) {
	for i := 0; i < len(runes); {
		if runes[i].class == 0 {
			i++
			continue
		}
		end := i
		for end < len(runes) && runes[end].class != 0 {
			end++
		}
		if !slices.IsSortedFunc(runes[i:end], byClass) {
			slices.SortStableFunc(runes[i:end], byClass)
		}
		i = end
	}
}

func byClass(a, b markedRune) int { return int(a.class) - int(b.class) }

// composed joins each starter with the marks that are not blocked from it.
func composed(runes []markedRune) []markedRune {
	out := runes[:0]
	starter := -1
	last := -1 // combining class of the last character kept after the starter
	for _, m := range runes {
		if starter >= 0 && last < int(m.class) {
			if joined := norm.NFC.String(out[starter].text + m.text); utf8.RuneCountInString(joined) == 1 {
				out[starter].text = joined
				continue
			}
		}
		out = append(out, m)
		if last = int(m.class); m.class == 0 {
			starter, last = len(out)-1, -1
		}
	}
	return out
}
