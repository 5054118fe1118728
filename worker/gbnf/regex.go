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
	return regex(re.Simplify(), text)
}

var often = map[syntax.Op]string{syntax.OpStar: "*", syntax.OpPlus: "+", syntax.OpQuest: "?"}

func regex(re *syntax.Regexp, whole string) (string, error) {
	switch re.Op {
	case syntax.OpLiteral:
		return literal(re), nil
	case syntax.OpCharClass:
		return class(re.Rune), nil
	case syntax.OpAnyChar:
		return `[^\x01]`, nil
	case syntax.OpAnyCharNotNL:
		return `[^\n\x01]`, nil
	case syntax.OpEmptyMatch, syntax.OpBeginText, syntax.OpEndText:
		return empty, nil
	case syntax.OpCapture:
		return regex(re.Sub[0], whole)
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		inner, err := regex(re.Sub[0], whole)
		return "(" + inner + ")" + often[re.Op], err
	case syntax.OpConcat, syntax.OpAlternate:
		separator := " "
		if re.Op == syntax.OpAlternate {
			separator = " | "
		}
		parts := make([]string, len(re.Sub))
		for i, sub := range re.Sub {
			var err error
			if parts[i], err = regex(sub, whole); err != nil {
				return "", err
			}
		}
		return "(" + strings.Join(parts, separator) + ")", nil
	}
	return "", fmt.Errorf("the expression %q has a part (%v) that cannot be written", whole, re.Op)
}

// literal writes characters, each in all its cases if case does not matter.
func literal(re *syntax.Regexp) string {
	if re.Flags&syntax.FoldCase == 0 {
		return quote(string(re.Rune))
	}
	var parts []string
	for _, c := range re.Rune {
		var all strings.Builder
		all.WriteString(classRune(c))
		for other := unicode.SimpleFold(c); other != c; other = unicode.SimpleFold(other) {
			all.WriteString(classRune(other))
		}
		parts = append(parts, "["+all.String()+"]")
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
