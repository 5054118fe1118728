package automaton

import (
	"iter"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Pattern returns the machine of the texts in which a pattern of JSON Schema
// is found: anywhere, unless it is anchored. What a pattern looks ahead for at its
// beginning is a pattern of its own.
func Pattern(m *Meter, expression string, d dialect) *Machine {
	if len(expression) > patternBytesMax {
		m.Refuse("the pattern has %d bytes, more than %d", len(expression), patternBytesMax)
	}
	rest, looks := lookaheads(m, expression)
	out := found(m, rest, d)
	for _, l := range looks {
		if l.negative {
			out = Subtract(m, out, Pattern(m, l.expression, d))
		} else {
			out = Intersect(m, out, Pattern(m, l.expression, d))
		}
	}
	return out
}

// Anchored lets a pattern that begins by looking ahead be found only where the text begins.
func Anchored(expression string) string {
	if strings.HasPrefix(expression, "(?=") || strings.HasPrefix(expression, "(?!") {
		return "^" + expression
	}
	return expression
}

// found returns the machine of the texts in which a plain expression is found.
func found(m *Meter, expression string, d dialect) *Machine {
	s := NewSketch(m)
	anything := func(from int32) int32 { return s.Runes(from, EveryRune, d) }
	match := s.regexp(s.Star(0, anything), parseRegexp(m, expression), d)
	return s.Machine(s.Star(match, anything))
}

// A lookahead is what must, or must not, be found in a text.
type lookahead struct {
	expression string
	negative   bool
}

// lookaheads takes what an expression looks ahead for at the beginning of the text out of
// it. A dot repeated from end to end, before each of which something must not stand, is a
// text in which that is not found.
func lookaheads(m *Meter, expression string) (rest string, looks []lookahead) {
	if !strings.Contains(expression, "(?=") && !strings.Contains(expression, "(?!") {
		return expression, nil
	}
	if inner, ok := tempered(expression); ok {
		return `^.*$`, []lookahead{{inner, true}}
	}
	rest, anchored := strings.CutPrefix(expression, "^")
	for strings.HasPrefix(rest, "(?=") || strings.HasPrefix(rest, "(?!") {
		end := closing(rest)
		if end < 0 {
			m.Refuse("the pattern cannot be used: a parenthesis is not closed")
		}
		look := lookahead{"^(?:" + rest[3:end] + ")", rest[2] == '!'}
		if strings.HasPrefix(look.expression, "^(?:^") {
			look.expression = "^(?:" + look.expression[len("^(?:^"):]
		}
		looks = append(looks, look)
		rest = rest[end+1:]
	}
	switch {
	case len(looks) == 0 || strings.Contains(rest, "(?=") || strings.Contains(rest, "(?!"):
		m.Refuse("the pattern cannot be used: it may look ahead only at its beginning")
	case !anchored:
		m.Refuse("the pattern cannot be used: it looks ahead without being anchored")
	case alternates(rest):
		m.Refuse("the pattern cannot be used: it looks ahead in one of several alternatives")
	}
	return "^(?:" + rest + ")", looks
}

// tempered returns X of ^(?:(?!X).)*$.
func tempered(expression string) (inner string, ok bool) {
	rest, _ := strings.CutPrefix(expression, "^")
	rest = strings.Replace(rest, "((?!", "(?:(?!", 1)
	rest, ok = strings.CutPrefix(rest, "(?:")
	if !ok || !strings.HasPrefix(rest, "(?!") || expression[0] != '^' {
		return "", false
	}
	end := closing(rest)
	if end < 0 || rest[end+1:] != ".)*$" && rest[end+1:] != ".)+$" {
		return "", false
	}
	return rest[3:end], rest[end+1:] == ".)*$"
}

// closing returns where the parenthesis that an expression begins with is closed, or -1.
func closing(expression string) int {
	depth := 0
	for i, c := range outsideClasses(expression) {
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// alternates reports whether an expression has alternatives outside of parentheses.
func alternates(expression string) bool {
	depth := 0
	for _, c := range outsideClasses(expression) {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		case '|':
			if depth == 0 {
				return true
			}
		}
	}
	return false
}

// outsideClasses yields the bytes of an expression that are neither escaped nor in a class.
func outsideClasses(expression string) iter.Seq2[int, byte] {
	return func(yield func(int, byte) bool) {
		class := false
		for i := 0; i < len(expression); i++ {
			switch c := expression[i]; {
			case c == '\\':
				i++
			case class:
				class = c != ']'
			case c == '[':
				class = true
			default:
				if !yield(i, c) {
					return
				}
			}
		}
	}
}

// Whole returns the machine of the texts that an expression matches from end
// to end.
func Whole(m *Meter, expression string, d dialect) *Machine {
	s := NewSketch(m)
	return s.Machine(s.regexp(0, parseRegexp(m, expression), d))
}

func parseRegexp(m *Meter, expression string) *syntax.Regexp {
	if len(expression) > patternBytesMax {
		m.Refuse("the pattern has %d bytes, more than %d", len(expression), patternBytesMax)
	}
	re, err := syntax.Parse(fromECMA(expression), syntax.Perl)
	if err != nil {
		m.Refuse("the pattern cannot be used: %v", err)
	}
	return re
}

// fromECMA rewrites the escapes \uXXXX of JSON Schema's expressions, which Go
// spells \x{XXXX}. Where the two differ about what white space is, neither \s nor \S
// takes it.
func fromECMA(expression string) string {
	var b strings.Builder
	class := false
	for i := 0; i < len(expression); i++ {
		rest := expression[i:]
		switch {
		case len(rest) >= 6 && rest[:2] == `\u` && isHex(rest[2:6]):
			b.WriteString(`\x{` + rest[2:6] + `}`)
			i += 5
		case strings.HasPrefix(rest, `\S`) && !class:
			b.WriteString(`[^\s\v\x{a0}\x{feff}\x{2028}\x{2029}\p{Zs}]`)
			i++
		case len(rest) >= 2 && rest[0] == '\\':
			b.WriteString(rest[:2])
			i++
		default:
			class = rest[0] == '[' || class && rest[0] != ']'
			b.WriteByte(rest[0])
		}
	}
	return b.String()
}

func isHex(text string) bool {
	return strings.Trim(text, "0123456789abcdefABCDEF") == ""
}

// regexp takes what an expression matches.
func (s *Sketch) regexp(from int32, re *syntax.Regexp, d dialect) int32 {
	s.Meter.Step(1)
	one := func(from int32) int32 { return s.regexp(from, re.Sub[0], d) }
	switch re.Op {
	case syntax.OpNoMatch:
		return s.Node()
	case syntax.OpEmptyMatch:
		return from
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			from = s.Runes(from, folded(r, re.Flags), d)
		}
		return from
	case syntax.OpCharClass:
		return s.Runes(from, re.Rune, d)
	case syntax.OpAnyChar:
		return s.Runes(from, EveryRune, d)
	case syntax.OpAnyCharNotNL:
		return s.Runes(from, []rune{0, '\n' - 1, '\n' + 1, '\r' - 1, '\r' + 1, 0x2027, 0x202A, utf8.MaxRune}, d)
	case syntax.OpBeginText, syntax.OpEndText:
		return s.anchor(from, re.Op)
	case syntax.OpCapture:
		return one(from)
	case syntax.OpStar:
		return s.Star(from, one)
	case syntax.OpPlus:
		return s.Times(from, 1, -1, one)
	case syntax.OpQuest:
		return s.maybe(from, one)
	case syntax.OpRepeat:
		return s.Times(from, re.Min, re.Max, one)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			from = s.regexp(from, sub, d)
		}
		return from
	case syntax.OpAlternate:
		end := s.Node()
		for _, sub := range re.Sub {
			s.Link(s.regexp(from, sub, d), end)
		}
		return end
	}
	s.Meter.Refuse("the pattern uses %q, which is not supported", re)
	return from
}

func (s *Sketch) anchor(from int32, op syntax.Op) int32 {
	to, kind := s.Node(), takesBegin
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
