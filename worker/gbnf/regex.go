package gbnf

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode"
)

// expression writes a regular expression that is matched from end to end.
func expression(text string) (string, error) {
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return "", err
	}
	return regex(re.Simplify(), text, plainText)
}

var often = map[syntax.Op]string{syntax.OpStar: "*", syntax.OpPlus: "+", syntax.OpQuest: "?"}

// An alphabet is how characters are written: as they are, or as they stand in a JSON string.
type alphabet struct {
	// set writes one character of some ranges, text several in a row.
	set  func(ranges []rune) string
	text func(text string) string
	// dot and dotInLine write any character, and any but a line feed.
	dot, dotInLine string
}

var plainText = &alphabet{set: class, text: quote, dot: `[^\x01]`, dotInLine: `[^\n\x01]`}

// regex writes an expression.
func regex(re *syntax.Regexp, whole string, of *alphabet) (string, error) {
	switch re.Op {
	case syntax.OpLiteral:
		return literal(re, of), nil
	case syntax.OpCharClass:
		if len(re.Rune) == 0 {
			return "", fmt.Errorf("the expression %q allows no text", whole)
		}
		return of.set(re.Rune), nil
	case syntax.OpAnyChar:
		return of.dot, nil
	case syntax.OpAnyCharNotNL:
		return of.dotInLine, nil
	case syntax.OpEmptyMatch, syntax.OpBeginText, syntax.OpEndText:
		return empty, nil
	case syntax.OpCapture:
		return regex(re.Sub[0], whole, of)
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		inner, err := regex(re.Sub[0], whole, of)
		return "(" + inner + ")" + often[re.Op], err
	case syntax.OpConcat, syntax.OpAlternate:
		separator := " "
		if re.Op == syntax.OpAlternate {
			separator = " | "
		}
		parts := make([]string, len(re.Sub))
		for i, sub := range re.Sub {
			var err error
			if parts[i], err = regex(sub, whole, of); err != nil {
				return "", err
			}
		}
		return "(" + strings.Join(parts, separator) + ")", nil
	}
	return "", fmt.Errorf("the expression %q has a part (%v) that cannot be written", whole, re.Op)
}

// literal writes characters, each in all its cases if case does not matter.
func literal(re *syntax.Regexp, of *alphabet) string {
	if re.Flags&syntax.FoldCase == 0 {
		return of.text(string(re.Rune))
	}
	var parts []string
	for _, c := range re.Rune {
		all := []rune{c, c}
		for other := unicode.SimpleFold(c); other != c; other = unicode.SimpleFold(other) {
			all = append(all, other, other)
		}
		parts = append(parts, of.set(all))
	}
	return strings.Join(parts, " ")
}

// class writes a set of ranges.
func class(ranges []rune) string {
	var b strings.Builder
	b.WriteByte('[')
	for i := 0; i+1 < len(ranges); i += 2 {
		b.WriteString(classRune(ranges[i]))
		if ranges[i+1] > ranges[i] {
			b.WriteString("-" + classRune(ranges[i+1]))
		}
	}
	b.WriteByte(']')
	return b.String()
}
