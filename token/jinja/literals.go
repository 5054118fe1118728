package jinja

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// lexNumber emits an integer or a float, with Python's rules for underscores
// and prefixes.
func (lx *lexer) lexNumber() {
	end, isFloat := scanFloat(lx.src, lx.pos)
	if isFloat && (lx.pos == 0 || lx.src[lx.pos-1] != '.') {
		lx.emit(tokenFloat, strings.ReplaceAll(lx.src[lx.pos:end], "_", ""))
		lx.pos = end
		return
	}
	end = scanInt(lx.src, lx.pos)
	lx.emit(tokenInt, strings.ReplaceAll(lx.src[lx.pos:end], "_", ""))
	lx.pos = end
}

// scanDigits returns the end of digits that may be separated by single
// underscores.
func scanDigits(s string, from int, isDigit func(byte) bool) int {
	end := from
	for end < len(s) {
		switch {
		case isDigit(s[end]):
			end++
		case s[end] == '_' && end > from && isDigit(byteAt(s, end+1)):
			end += 2
		default:
			return end
		}
	}
	return end
}

func isDecimal(c byte) bool { return c >= '0' && c <= '9' }

func scanFloat(s string, from int) (end int, ok bool) {
	end = scanDigits(s, from, isDecimal)
	if byteAt(s, end) == '.' && isDecimal(byteAt(s, end+1)) {
		end = scanDigits(s, end+1, isDecimal)
		ok = true
	}
	if c := byteAt(s, end); c == 'e' || c == 'E' {
		exp := end + 1
		if sign := byteAt(s, exp); sign == '+' || sign == '-' {
			exp++
		}
		if isDecimal(byteAt(s, exp)) {
			return scanDigits(s, exp, isDecimal), true
		}
	}
	return end, ok
}

func scanInt(s string, from int) int {
	if s[from] != '0' {
		return scanDigits(s, from, isDecimal)
	}
	isDigit := map[byte]func(byte) bool{
		'b': func(c byte) bool { return c == '0' || c == '1' },
		'o': func(c byte) bool { return c >= '0' && c <= '7' },
		'x': func(c byte) bool {
			return isDecimal(c) || (c|0x20 >= 'a' && c|0x20 <= 'f')
		},
	}[byteAt(s, from+1)|0x20]
	if isDigit != nil {
		first := from + 2
		if byteAt(s, first) == '_' {
			first++
		}
		if isDigit(byteAt(s, first)) {
			return scanDigits(s, first, isDigit)
		}
	}
	return scanDigits(s, from, func(c byte) bool { return c == '0' })
}

func (lx *lexer) lexString(quote byte) error {
	end := lx.pos + 1
	for end < len(lx.src) && lx.src[end] != quote {
		if lx.src[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(lx.src) {
		return lx.errorf("unexpected char %q: the string has no end", quote)
	}
	text, ok := unescape(lx.src[lx.pos+1 : end])
	if !ok {
		return lx.errorf("invalid escape in string %s", lx.src[lx.pos:end+1])
	}
	lx.emit(tokenString, text)
	lx.advance(end + 1)
	return nil
}

var simpleEscapes = map[byte]string{
	'\n': "", '\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b", 'f': "\f",
	'n': "\n", 'r': "\r", 't': "\t", 'v': "\v",
}

// unescape undoes the backslash escapes of a Python string literal. Unknown
// escapes stay as they are.
func unescape(s string) (string, bool) {
	if !strings.Contains(s, "\\") {
		return s, true
	}
	var sb strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			sb.WriteByte(s[i])
			i++
			continue
		}
		c := byteAt(s, i+1)
		if text, ok := simpleEscapes[c]; ok {
			sb.WriteString(text)
			i += 2
			continue
		}
		size, ok := writeCodeEscape(&sb, s[i:])
		if !ok {
			return "", false
		}
		i += size
	}
	return sb.String(), true
}

// writeCodeEscape writes the character of a numeric escape at the start of s
// and returns the length of the escape.
func writeCodeEscape(sb *strings.Builder, s string) (int, bool) {
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[1]]
	if digits == 0 {
		if s[1] == 'N' {
			return 0, false
		}
		return writeOctalEscape(sb, s)
	}
	code, ok := hexCode(s, 2, digits)
	if !ok || code > utf8.MaxRune {
		return 0, false
	}
	size := 2 + digits
	if utf16.IsSurrogate(rune(code)) && strings.HasPrefix(s[size:], "\\u") {
		if low, ok := hexCode(s, size+2, 4); ok {
			if r := utf16.DecodeRune(rune(code), rune(low)); r != utf8.RuneError {
				sb.WriteRune(r)
				return size + 6, true
			}
		}
	}
	sb.WriteRune(rune(code))
	return size, true
}

func hexCode(s string, from, digits int) (uint64, bool) {
	if from+digits > len(s) {
		return 0, false
	}
	code, err := strconv.ParseUint(s[from:from+digits], 16, 32)
	return code, err == nil
}

func writeOctalEscape(sb *strings.Builder, s string) (int, bool) {
	end := 1
	for end < 4 && end < len(s) && s[end] >= '0' && s[end] <= '7' {
		end++
	}
	if end == 1 {
		sb.WriteByte('\\')
		return 1, true
	}
	code, err := strconv.ParseUint(s[1:end], 8, 32)
	if err != nil {
		return 0, false
	}
	sb.WriteRune(rune(code))
	return end, true
}
