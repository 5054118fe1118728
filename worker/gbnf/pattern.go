package gbnf

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// pattern writes the JSON strings in which a pattern of JSON Schema is found: anywhere, unless it is anchored.
func (w *writer) pattern(text string) (string, error) {
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return "", err
	}
	parts := []*syntax.Regexp{re}
	if re.Op == syntax.OpConcat {
		parts = re.Sub
	}
	w.anyString()
	before, after := "char* ", " char*"
	if len(parts) > 0 && parts[0].Op == syntax.OpBeginText {
		before, parts = "", parts[1:]
	}
	if n := len(parts); n > 0 && parts[n-1].Op == syntax.OpEndText {
		after, parts = "", parts[:n-1]
	}
	if slices.ContainsFunc(parts, isAnchored) {
		return "", fmt.Errorf("the pattern %q has an anchor inside, and %w", text, errPoint)
	}
	inner, err := regex((&syntax.Regexp{Op: syntax.OpConcat, Sub: parts}).Simplify(), text, quotedText)
	return `"\"" ` + before + "(" + inner + ")" + after + ` "\""`, err
}

func isAnchored(re *syntax.Regexp) bool {
	return re.Op == syntax.OpBeginText || re.Op == syntax.OpEndText || slices.ContainsFunc(re.Sub, isAnchored)
}

// escapes are the characters that stand in JSON strings only escaped, and how.
var escapes = map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

var quotedText = &alphabet{
	set:       quotedClass,
	text:      func(text string) string { return quote(escaped(text)) },
	dot:       quotedClass([]rune{0, unicode.MaxRune}),
	dotInLine: quotedClass([]rune{0, '\n' - 1, '\n' + 1, unicode.MaxRune}),
}

// escaped returns a text as it stands between the quotes of a JSON string.
func escaped(text string) string {
	var b strings.Builder
	for _, c := range text {
		switch escape, short := escapes[c]; {
		case short:
			b.WriteString(escape)
		case c < ' ' || c == 0x7F:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// quotedClass writes a set of ranges as it stands in a JSON string.
func quotedClass(ranges []rune) string {
	var plain []rune
	var parts []string
	add := func(low, high rune) {
		if low <= high {
			plain = append(plain, low, high)
		}
	}
	for i := 0; i+1 < len(ranges); i += 2 {
		low, high := ranges[i], ranges[i+1]
		for c := low; c <= min(high, 0x7F); c++ {
			if text := escaped(string(c)); len(text) > 1 {
				parts = append(parts, quote(text))
			} else {
				add(c, c)
			}
		}
		add(max(low, 0x80), min(high, 0xD7FF))
		add(max(low, 0xE000), min(high, unicode.MaxRune))
	}
	if len(plain) > 0 {
		parts = append(parts, class(joined(plain)))
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return "(" + strings.Join(parts, " | ") + ")"
}

// joined puts ranges together that follow each other.
func joined(ranges []rune) (out []rune) {
	for i := 0; i+1 < len(ranges); i += 2 {
		if n := len(out); n > 0 && out[n-1]+1 == ranges[i] {
			out[n-1] = ranges[i+1]
			continue
		}
		out = append(out, ranges[i], ranges[i+1])
	}
	return out
}
