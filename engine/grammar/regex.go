package grammar

import (
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// everyRune are all characters.
var everyRune = []rune{0, utf8.MaxRune}

// pattern returns the machine of the texts in which a pattern of JSON Schema
// is found: anywhere, unless it is anchored.
func pattern(m *meter, expression string, d dialect) *machine {
	s := newSketch(m)
	anything := func(from int32) int32 { return s.runes(from, everyRune, d) }
	match := s.regexp(s.star(0, anything), parseRegexp(m, expression), d)
	return s.machine(s.star(match, anything))
}

// whole returns the machine of the texts that an expression matches from end
// to end.
func whole(m *meter, expression string, d dialect) *machine {
	s := newSketch(m)
	return s.machine(s.regexp(0, parseRegexp(m, expression), d))
}

func parseRegexp(m *meter, expression string) *syntax.Regexp {
	if len(expression) > patternBytesMax {
		m.refuse("the pattern has %d bytes, more than %d", len(expression), patternBytesMax)
	}
	re, err := syntax.Parse(fromECMA(expression), syntax.Perl)
	if err != nil {
		m.refuse("the pattern cannot be used: %v", err)
	}
	return re
}

// fromECMA rewrites the escapes \uXXXX of JSON Schema's expressions, which Go
// spells \x{XXXX}.
func fromECMA(expression string) string {
	var b strings.Builder
	for i := 0; i < len(expression); i++ {
		rest := expression[i:]
		switch {
		case len(rest) >= 6 && rest[:2] == `\u` && isHex(rest[2:6]):
			b.WriteString(`\x{` + rest[2:6] + `}`)
			i += 5
		case len(rest) >= 2 && rest[0] == '\\':
			b.WriteString(rest[:2])
			i++
		default:
			b.WriteByte(rest[0])
		}
	}
	return b.String()
}

func isHex(text string) bool {
	return strings.Trim(text, "0123456789abcdefABCDEF") == ""
}

// regexp takes what an expression matches.
func (s *sketch) regexp(from int32, re *syntax.Regexp, d dialect) int32 {
	s.meter.step(1)
	one := func(from int32) int32 { return s.regexp(from, re.Sub[0], d) }
	switch re.Op {
	case syntax.OpNoMatch:
		return s.node()
	case syntax.OpEmptyMatch:
		return from
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			from = s.runes(from, folded(r, re.Flags), d)
		}
		return from
	case syntax.OpCharClass:
		return s.runes(from, re.Rune, d)
	case syntax.OpAnyChar:
		return s.runes(from, everyRune, d)
	case syntax.OpAnyCharNotNL:
		return s.runes(from, []rune{0, '\n' - 1, '\n' + 1, utf8.MaxRune}, d)
	case syntax.OpBeginText, syntax.OpEndText:
		return s.anchor(from, re.Op)
	case syntax.OpCapture:
		return one(from)
	case syntax.OpStar:
		return s.star(from, one)
	case syntax.OpPlus:
		return s.times(from, 1, -1, one)
	case syntax.OpQuest:
		return s.maybe(from, one)
	case syntax.OpRepeat:
		return s.times(from, re.Min, re.Max, one)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			from = s.regexp(from, sub, d)
		}
		return from
	case syntax.OpAlternate:
		end := s.node()
		for _, sub := range re.Sub {
			s.link(s.regexp(from, sub, d), end)
		}
		return end
	}
	s.meter.refuse("the pattern uses %q, which is not supported", re)
	return from
}

func (s *sketch) anchor(from int32, op syntax.Op) int32 {
	to, kind := s.node(), takesBegin
	if op == syntax.OpEndText {
		kind = takesEnd
	}
	s.add(from, arc{kind: kind, to: to})
	return to
}

// folded returns the ranges of r and, if case does not count, its variants.
func folded(r rune, flags syntax.Flags) []rune {
	ranges := []rune{r, r}
	if flags&syntax.FoldCase != 0 {
		for v := unicode.SimpleFold(r); v != r; v = unicode.SimpleFold(v) {
			ranges = append(ranges, v, v)
		}
	}
	return ranges
}
