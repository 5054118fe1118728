package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// caseMethods are the conversions of case, each on a whole text.
var caseMethods = map[string]func(string) string{
	"upper":      toUpper,
	"lower":      strings.ToLower,
	"title":      toTitle,
	"capitalize": capitalize,
}

// upperSpecial has the characters whose upper case is more than one
// character, which Go's simple mapping leaves alone.
var upperSpecial = strings.NewReplacer("ß", "SS", "ﬀ", "FF", "ﬁ", "FI", "ﬂ", "FL", "ﬃ", "FFI", "ﬄ", "FFL", "ﬅ", "ST",
	"ﬆ", "ST", "ŉ", "ʼN")

func toUpper(s string) string { return strings.ToUpper(upperSpecial.Replace(s)) }

// toTitle starts every run of letters with a capital.
func toTitle(s string) string {
	inWord := false
	return strings.Map(func(r rune) rune {
		wasInWord := inWord
		inWord = isCased(r)
		if wasInWord {
			return unicode.ToLower(r)
		}
		return unicode.ToTitle(r)
	}, s)
}

func isCased(r rune) bool {
	return unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r)
}

func capitalize(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return s
	}
	if first == 'ß' {
		return "Ss" + strings.ToLower(s[size:])
	}
	return string(unicode.ToTitle(first)) + strings.ToLower(s[size:])
}

// textTests are the yes-or-no methods of strings.
var textTests = map[string]func(string) bool{
	"isalpha": all(unicode.IsLetter),
	"isdigit": all(isDigit),
	"isalnum": all(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
	"isspace": all(isSpace),
	"isupper": isUpperText,
	"islower": isLowerText,
}

func all(holds func(rune) bool) func(string) bool {
	return func(s string) bool {
		return s != "" && strings.IndexFunc(s, func(r rune) bool { return !holds(r) }) < 0
	}
}

// isDigit adds superscript and subscript digits to the decimal ones.
func isDigit(r rune) bool {
	return unicode.IsDigit(r) || r == '²' || r == '³' || r == '¹' || r == '⁰' ||
		(r >= '⁴' && r <= '⁹') || (r >= '₀' && r <= '₉')
}

func isUpperText(s string) bool {
	return strings.IndexFunc(s, unicode.IsUpper) >= 0 &&
		strings.IndexFunc(s, func(r rune) bool { return unicode.IsLower(r) || unicode.IsTitle(r) }) < 0
}

func isLowerText(s string) bool {
	return strings.IndexFunc(s, unicode.IsLower) >= 0 &&
		strings.IndexFunc(s, func(r rune) bool { return unicode.IsUpper(r) || unicode.IsTitle(r) }) < 0
}
