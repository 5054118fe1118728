package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A jsonScanner reads a JSON document front to back. The vocabulary and the merges are most of a tokenizer.json and
// hundreds of thousands of strings: encoding/json takes several times as long to build them through maps and
// interfaces.
type jsonScanner struct {
	data string
	at   int
}

// jsonDepthMax bounds nesting.
const jsonDepthMax = 64

var errJSONEnd = errors.New("the document ends too early")

func (s *jsonScanner) fail(want string) error {
	if s.at >= len(s.data) {
		return errJSONEnd
	}
	return fmt.Errorf("at byte %d there is %q instead of %s", s.at, s.data[s.at], want)
}

// peek returns the next byte that is not white space, or 0.
func (s *jsonScanner) peek() byte {
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

func (s *jsonScanner) expect(c byte) error {
	if s.peek() != c {
		return s.fail(strconv.QuoteRune(rune(c)))
	}
	s.at++
	return nil
}

// object calls field for every key; field must read the value.
func (s *jsonScanner) object(field func(key string) error) error {
	if err := s.expect('{'); err != nil {
		return err
	}
	return s.items('}', func() error {
		key, err := s.str()
		if err != nil {
			return err
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		return field(key)
	})
}

// array calls item at the start of every element; item must read it.
func (s *jsonScanner) array(item func() error) error {
	if err := s.expect('['); err != nil {
		return err
	}
	return s.items(']', item)
}

func (s *jsonScanner) items(end byte, item func() error) error {
	if s.peek() == end {
		s.at++
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		switch s.peek() {
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

// str reads a string. Without escapes it shares the memory of the document.
func (s *jsonScanner) str() (string, error) {
	if err := s.expect('"'); err != nil {
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
	return "", errJSONEnd
}

func (s *jsonScanner) checked(text string) (string, error) {
	if !utf8.ValidString(text) {
		return "", fmt.Errorf("the string that ends at byte %d is not UTF-8", s.at)
	}
	return text, nil
}

// escaped reads the rest of a string that begins at start and has its first escape here.
func (s *jsonScanner) escaped(start int) (string, error) {
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
	return "", errJSONEnd
}

var jsonEscapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape appends the character of the escape after a backslash.
func (s *jsonScanner) escape(dst []byte) ([]byte, error) {
	if s.at >= len(s.data) {
		return dst, errJSONEnd
	}
	c := s.data[s.at]
	if c != 'u' {
		plain, ok := jsonEscapes[c]
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

func (s *jsonScanner) hex4() (rune, error) {
	r := rune(0)
	for range 4 {
		if s.at >= len(s.data) {
			return 0, errJSONEnd
		}
		d := hexDigit(s.data[s.at])
		if d < 0 {
			return 0, s.fail("a hexadecimal digit")
		}
		r = r<<4 | rune(d)
		s.at++
	}
	return r, nil
}

// integer reads a number that must be whole.
func (s *jsonScanner) integer() (int64, error) {
	start, n := s.skipSpace(), int64(0)
	for ; s.at < len(s.data) && s.data[s.at]-'0' < 10; s.at++ {
		if n = n*10 + int64(s.data[s.at]-'0'); n > vocabularyMax {
			return 0, fmt.Errorf("the number at byte %d is too large for a token id", start)
		}
	}
	if s.at == start {
		return 0, s.fail("a whole number")
	}
	return n, nil
}

func (s *jsonScanner) skipSpace() int {
	s.peek()
	return s.at
}

// number reads any number.
func (s *jsonScanner) number() (float64, error) {
	raw, err := s.raw()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(string(raw), 64)
}

// raw skips one value and returns its bytes. Its inside is not checked beyond brackets and strings.
func (s *jsonScanner) raw() (json.RawMessage, error) {
	start, depth := s.skipSpace(), 0
	for s.at < len(s.data) {
		switch c := s.data[s.at]; c {
		case '"':
			if err := s.skipString(); err != nil {
				return nil, err
			}
		case '{', '[':
			if depth++; depth > jsonDepthMax {
				return nil, fmt.Errorf("at byte %d the nesting is deeper than %d", s.at, jsonDepthMax)
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
		return nil, errJSONEnd
	}
	return json.RawMessage(s.data[start:s.at]), nil
}

func (s *jsonScanner) skipString() error {
	for s.at++; s.at < len(s.data); s.at++ {
		switch s.data[s.at] {
		case '\\':
			s.at++
		case '"':
			s.at++
			return nil
		}
	}
	return errJSONEnd
}
