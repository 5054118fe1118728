package lark

import (
	"fmt"
	"strings"
)

// A word is a piece of a grammar's text.
type word struct {
	kind wordKind
	// text is what was written; of strings and expressions, what stands between their marks.
	text string
	// flags stand behind a string or an expression.
	flags string
	line  int
}

type wordKind byte

const (
	wordName   wordKind = 'n'
	wordString wordKind = 's'
	wordRegexp wordKind = 'r'
	wordNumber wordKind = '0'
	// wordSign is one of : | ( ) [ ] ? * + ~ . .. , -> { } and a directive such as %import.
	wordSign wordKind = ':'
	// wordLine ends a line.
	wordLine wordKind = '\n'
	wordEnd  wordKind = 0
)

// scan cuts the text of a grammar into words.
func scan(text string) ([]word, error) {
	s := &scanner{rest: text, line: 1}
	for {
		w, err := s.next()
		if err != nil {
			return nil, err
		}
		s.words = append(s.words, w)
		if w.kind == wordEnd {
			return s.words, nil
		}
	}
}

type scanner struct {
	rest  string
	line  int
	words []word
}

func (s *scanner) next() (word, error) {
	s.skip()
	w := word{line: s.line}
	switch {
	case s.rest == "":
		return w, nil
	case s.rest[0] == '\n':
		w.kind, w.text = wordLine, s.take(1)
		s.line++
	case s.rest[0] == '"':
		return s.quoted(wordString, '"', "i")
	case s.rest[0] == '/':
		return s.quoted(wordRegexp, '/', "imslux")
	case isDigit(s.rest[0]):
		w.kind, w.text = wordNumber, s.takeWhile(isDigit)
	case s.rest[0] == '%':
		w.kind, w.text = wordSign, s.take(1)
		w.text += s.takeWhile(isNameByte)
	case isNameByte(s.rest[0]):
		w.kind, w.text = wordName, s.takeWhile(isNameByte)
	default:
		for _, sign := range []string{"->", "..", ":", "|", "(", ")", "[", "]", "?", "*", "+", "~", ".", ",", "{", "}",
			"!", "-"} {
			if strings.HasPrefix(s.rest, sign) {
				w.kind, w.text = wordSign, s.take(len(sign))
				return w, nil
			}
		}
		return w, fmt.Errorf("line %d: %q is not a part of a grammar", s.line, s.rest[:1])
	}
	return w, nil
}

// skip passes over blanks and comments.
func (s *scanner) skip() {
	for {
		s.rest = strings.TrimLeft(s.rest, " \t\r\f")
		if !strings.HasPrefix(s.rest, "//") && !strings.HasPrefix(s.rest, "#") {
			return
		}
		end := strings.IndexByte(s.rest, '\n')
		if end < 0 {
			end = len(s.rest)
		}
		s.rest = s.rest[end:]
	}
}

func (s *scanner) take(n int) (text string) {
	text, s.rest = s.rest[:n], s.rest[n:]
	return text
}

func (s *scanner) takeWhile(is func(byte) bool) string {
	n := 0
	for n < len(s.rest) && is(s.rest[n]) {
		n++
	}
	return s.take(n)
}

// quoted takes what stands between two marks.
func (s *scanner) quoted(kind wordKind, mark byte, flags string) (word, error) {
	for i := 1; i < len(s.rest) && s.rest[i] != '\n'; i++ {
		switch s.rest[i] {
		case '\\':
			i++
		case mark:
			w := word{kind: kind, text: s.rest[1:i], line: s.line}
			s.take(i + 1)
			w.flags = s.takeWhile(func(b byte) bool { return strings.IndexByte(flags, b) >= 0 })
			return w, nil
		}
	}
	return word{}, fmt.Errorf("line %d: %c is not closed", s.line, mark)
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func isNameByte(b byte) bool {
	return isDigit(b) || b == '_' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}
