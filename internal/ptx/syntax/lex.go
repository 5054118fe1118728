package syntax

import (
	"fmt"
	"strings"
)

// A token is one word or sign of PTX text.
type token struct {
	text string
	line int
}

// A ParseError says where Parse stopped and why.
type ParseError struct {
	Line   int
	Reason string
}

// Error returns the line and the reason.
func (e *ParseError) Error() string { return fmt.Sprintf("ptx: line %d: %s", e.Line, e.Reason) }

// Errorf returns an error at a line.
func Errorf(line int, format string, args ...any) error {
	return &ParseError{Line: line, Reason: fmt.Sprintf(format, args...)}
}

func wordByte(c byte) bool {
	return c == '_' || c == '$' || c == '%' || c == '.' ||
		c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// lex cuts source into tokens. Comments vanish; a word keeps its dots and
// double colons, so that ld.shared::cta.u32 is one token.
func lex(source string) ([]token, error) {
	tokens := make([]token, 0, len(source)/4)
	line := 1
	for i := 0; i < len(source); {
		switch c := source[i]; {
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case strings.HasPrefix(source[i:], "//"):
			i += lengthUntil(source[i:], "\n")
		case strings.HasPrefix(source[i:], "/*"):
			n := lengthUntil(source[i:], "*/")
			line += strings.Count(source[i:i+n], "\n")
			i = min(i+n+2, len(source))
		case c == '"':
			n := strings.IndexByte(source[i+1:], '"')
			if n < 0 {
				return nil, Errorf(line, "a string without its end")
			}
			tokens = append(tokens, token{source[i : i+n+2], line})
			line += strings.Count(source[i:i+n+2], "\n")
			i += n + 2
		case wordByte(c):
			n := wordLength(source[i:])
			tokens = append(tokens, token{source[i : i+n], line})
			i += n
		default:
			tokens = append(tokens, token{source[i : i+1], line})
			i++
		}
	}
	return tokens, nil
}

// lengthUntil returns the number of bytes before sep, or all of them.
func lengthUntil(s, sep string) int {
	if n := strings.Index(s, sep); n >= 0 {
		return n
	}
	return len(s)
}

func wordLength(s string) int {
	n := 0
	for n < len(s) {
		if wordByte(s[n]) {
			n++
		} else if strings.HasPrefix(s[n:], "::") {
			n += 2
		} else {
			break
		}
	}
	return n
}
