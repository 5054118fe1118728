// Package jsonscan reads large JSON documents front to back. The vocabulary and the merges are most of a
// tokenizer.json and hundreds of thousands of strings: encoding/json takes several times as long to build them through
// maps and interfaces.
package jsonscan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A Scanner reads one document.
type Scanner struct {
	data string
	at   int
}

// New returns a scanner at the beginning of a document.
func New(data string) *Scanner { return &Scanner{data: data} }

// depthMax bounds nesting.
const depthMax = 64

var errEnd = errors.New("the document ends too early")

func (s *Scanner) fail(want string) error {
	if s.at >= len(s.data) {
		return errEnd
	}
	return fmt.Errorf("at byte %d there is %q instead of %s", s.at, s.data[s.at], want)
}

// End fails unless the document is over.
func (s *Scanner) End() error {
	if s.skipSpace() < len(s.data) {
		return s.fail("the end")
	}
	return nil
}

// Peek returns the next byte that is not white space, or 0.
func (s *Scanner) Peek() byte {
	for s.at < len(s.data) {
		switch c := s.data[s.at]; c {
		case ' ', '\n', '\r', '\t':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// Expect reads the byte c after white space.
func (s *Scanner) Expect(c byte) error {
	if s.Peek() != c {
		return s.fail(strconv.QuoteRune(rune(c)))
	}
	s.at++
	return nil
}

// Object calls field for every key; field must read the value.
func (s *Scanner) Object(field func(key string) error) error {
	if err := s.Expect('{'); err != nil {
		return err
	}
	return s.items('}', func() error {
		key, err := s.String()
		if err != nil {
			return err
		}
		if err := s.Expect(':'); err != nil {
			return err
		}
		return field(key)
	})
}

// Array calls item at the start of every element; item must read it.
func (s *Scanner) Array(item func() error) error {
	if err := s.Expect('['); err != nil {
		return err
	}
	return s.items(']', item)
}

func (s *Scanner) items(end byte, item func() error) error {
	if s.Peek() == end {
		s.at++
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		switch s.Peek() {
		case ',':
			s.at++
		case end:
			s.at++
			return nil
		default:
			return s.fail(strconv.QuoteRune(rune(end)))
		}
	}
}

// String reads a string. Without escapes it shares the memory of the document.
func (s *Scanner) String() (string, error) {
	if err := s.Expect('"'); err != nil {
		return "", err
	}
	start := s.at
	for ; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; {
		case c == '"':
			text := s.data[start:s.at]
			s.at++
			return s.checked(text)
		case c == '\\':
			return s.escaped(start)
		case c < ' ':
			return "", s.fail("a string without control characters")
		}
	}
	return "", errEnd
}

func (s *Scanner) checked(text string) (string, error) {
	if !utf8.ValidString(text) {
		return "", fmt.Errorf("the string that ends at byte %d is not UTF-8", s.at)
	}
	return text, nil
}

// escaped reads the rest of a string that begins at start and has its first escape here.
func (s *Scanner) escaped(start int) (string, error) {
	out := append(make([]byte, 0, 2*(s.at-start)+16), s.data[start:s.at]...)
	for s.at < len(s.data) {
		c := s.data[s.at]
		s.at++
		switch {
		case c == '"':
			return s.checked(string(out))
		case c < ' ':
			return "", s.fail("a string without control characters")
		case c != '\\':
			out = append(out, c)
		default:
			var err error
			if out, err = s.escape(out); err != nil {
				return "", err
			}
		}
	}
	return "", errEnd
}

var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape appends the character of the escape after a backslash.
func (s *Scanner) escape(dst []byte) ([]byte, error) {
	if s.at >= len(s.data) {
		return dst, errEnd
	}
	c := s.data[s.at]
	if c != 'u' {
		plain, ok := escapes[c]
		if !ok {
			return dst, s.fail("an escape")
		}
		s.at++
		return append(dst, plain), nil
	}
	s.at++
	r, err := s.hex4()
	if err != nil {
		return dst, err
	}
	if utf16.IsSurrogate(r) && s.at+1 < len(s.data) && s.data[s.at] == '\\' && s.data[s.at+1] == 'u' {
		mark := s.at
		s.at += 2
		low, err := s.hex4()
		if err != nil {
			return dst, err
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			s.at = mark
		}
	}
	return utf8.AppendRune(dst, r), nil
}

func (s *Scanner) hex4() (rune, error) {
	if s.at+4 > len(s.data) {
		return 0, errEnd
	}
	r, err := strconv.ParseUint(s.data[s.at:s.at+4], 16, 16)
	if err != nil {
		return 0, s.fail("four hexadecimal digits")
	}
	s.at += 4
	return rune(r), nil
}

// Integer reads a whole number of at most limit.
func (s *Scanner) Integer(limit int64) (int64, error) {
	start, n := s.skipSpace(), int64(0)
	for ; s.at < len(s.data) && s.data[s.at]-'0' < 10; s.at++ {
		if n = n*10 + int64(s.data[s.at]-'0'); n > limit {
			return 0, fmt.Errorf("the number at byte %d is larger than %d", start, limit)
		}
	}
	if s.at == start {
		return 0, s.fail("a whole number")
	}
	return n, nil
}

func (s *Scanner) skipSpace() int {
	s.Peek()
	return s.at
}

// Number reads any number.
func (s *Scanner) Number() (float64, error) {
	raw, err := s.Raw()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimRight(string(raw), " \n\r\t"), 64)
}

// Raw skips one value and returns its bytes. Its inside is not checked beyond brackets and strings.
func (s *Scanner) Raw() (json.RawMessage, error) {
	start, depth := s.skipSpace(), 0
	for s.at < len(s.data) {
		switch c := s.data[s.at]; c {
		case '"':
			if err := s.skipString(); err != nil {
				return nil, err
			}
		case '{', '[':
			if depth++; depth > depthMax {
				return nil, fmt.Errorf("at byte %d the nesting is deeper than %d", s.at, depthMax)
			}
			s.at++
		case '}', ']':
			if depth--; depth < 0 {
				return json.RawMessage(s.data[start:s.at]), nil
			}
			s.at++
		case ',':
			if depth == 0 {
				return json.RawMessage(s.data[start:s.at]), nil
			}
			s.at++
		default:
			s.at++
		}
	}
	if depth > 0 {
		return nil, errEnd
	}
	return json.RawMessage(s.data[start:s.at]), nil
}

func (s *Scanner) skipString() error {
	for s.at++; s.at < len(s.data); s.at++ {
		switch s.data[s.at] {
		case '\\':
			s.at++
		case '"':
			s.at++
			return nil
		}
	}
	return errEnd
}
