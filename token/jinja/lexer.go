package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokenEOF tokenKind = iota
	tokenData
	tokenVarBegin
	tokenVarEnd
	tokenBlockBegin
	tokenBlockEnd
	tokenName
	tokenString
	tokenInt
	tokenFloat
	tokenOp
)

// A token is one word of the template. The text of a string token is already
// unescaped, that of a number has no underscores.
type token struct {
	kind tokenKind
	text string
	line int
}

func (t token) is(kind tokenKind, text string) bool { return t.kind == kind && t.text == text }

// A lexer cuts a template into tokens. Whitespace control is decided here:
// after a tag with trim_blocks, before a tag with lstrip_blocks, and at both
// ends with the signs - and +.
type lexer struct {
	src  string
	pos  int
	line int
	// lineStarting says that the text before pos ended a line, or that it was
	// swallowed up to the end of a line.
	lineStarting bool
	tokens       []token
}

func lex(source string) ([]token, error) {
	lx := &lexer{src: normalizeSource(source), line: 1, lineStarting: true}
	for lx.pos < len(lx.src) {
		begin := nextTag(lx.src, lx.pos)
		if begin < 0 {
			lx.emit(tokenData, lx.src[lx.pos:])
			lx.advance(len(lx.src))
			break
		}
		if err := lx.lexTag(begin); err != nil {
			return nil, err
		}
	}
	lx.emit(tokenEOF, "")
	return lx.tokens, nil
}

// normalizeSource makes every line end a \n and drops one at the very end.
func normalizeSource(source string) string {
	source = strings.ToValidUTF8(source, "\uFFFD")
	source = strings.ReplaceAll(source, "\r\n", "\n")
	source = strings.ReplaceAll(source, "\r", "\n")
	return strings.TrimSuffix(source, "\n")
}

func nextTag(src string, from int) int {
	for i := from; ; i++ {
		next := strings.IndexByte(src[i:], '{')
		if next < 0 || i+next+1 >= len(src) {
			return -1
		}
		i += next
		switch src[i+1] {
		case '%', '{', '#':
			return i
		}
	}
}

func (lx *lexer) emit(kind tokenKind, text string) {
	if kind == tokenData && text == "" {
		return
	}
	lx.tokens = append(lx.tokens, token{kind: kind, text: text, line: lx.line})
}

func (lx *lexer) advance(to int) {
	lx.line += strings.Count(lx.src[lx.pos:to], "\n")
	lx.pos = to
}

func (lx *lexer) errorf(format string, args ...any) error {
	err := errorf(SyntaxError, format, args...)
	err.Line = lx.line
	return err
}

// lexTag emits the text before the tag at begin and then the tag.
func (lx *lexer) lexTag(begin int) error {
	text := lx.src[lx.pos:begin]
	sign := byteAt(lx.src, begin+2)
	kind := lx.src[begin+1]
	lx.emit(tokenData, lx.stripBefore(text, sign, kind == '{'))
	lx.advance(begin)
	if kind == '%' {
		if end := matchRawBegin(lx.src, begin); end >= 0 {
			return lx.lexRaw(end)
		}
	}
	after := begin + 2
	if sign == '-' || sign == '+' {
		after++
	}
	switch kind {
	case '#':
		return lx.lexComment(after)
	case '{':
		lx.emit(tokenVarBegin, "")
	default:
		lx.emit(tokenBlockBegin, "")
	}
	lx.advance(after)
	return lx.lexCode(kind)
}

// stripBefore applies whitespace control to the text before a tag.
func (lx *lexer) stripBefore(text string, sign byte, isVariable bool) string {
	if sign == '-' {
		return strings.TrimRightFunc(text, isSpace)
	}
	if sign == '+' || isVariable {
		return text
	}
	lineBegin := strings.LastIndexByte(text, '\n') + 1
	if (lineBegin > 0 || lx.lineStarting) && strings.TrimLeftFunc(text[lineBegin:], isSpace) == "" {
		return text[:lineBegin]
	}
	return text
}

func (lx *lexer) lexComment(body int) error {
	end := strings.Index(lx.src[body:], "#}")
	if end < 0 {
		return lx.errorf("missing end of comment tag")
	}
	lx.finishTag(body, body+end)
	return nil
}

// finishTag moves past the end tag of two bytes at end, with the sign before
// it (not before from) and the whitespace that goes with them.
func (lx *lexer) finishTag(from, end int) {
	sign := byte(0)
	if end > from {
		sign = lx.src[end-1]
	}
	after := end + 2
	switch {
	case sign == '-':
		after = skipSpace(lx.src, after)
	case sign != '+' && byteAt(lx.src, after) == '\n':
		after++
	}
	lx.lineStarting = lx.src[after-1] == '\n'
	lx.advance(after)
}

// matchRawBegin returns the end of a raw tag at begin, or -1.
func matchRawBegin(src string, begin int) int {
	pos, ok := matchTagWord(src, begin, "raw")
	switch {
	case !ok:
		return -1
	case strings.HasPrefix(src[pos:], "-%}"):
		return skipSpace(src, pos+3)
	case strings.HasPrefix(src[pos:], "%}"):
		return pos + 2
	}
	return -1
}

// matchTagWord matches a block tag at begin that starts with word and returns
// the place after the word and the space around it.
func matchTagWord(src string, begin int, word string) (int, bool) {
	pos := begin + 2
	if sign := byteAt(src, pos); sign == '-' || sign == '+' {
		pos++
	}
	pos = skipSpace(src, pos)
	if !strings.HasPrefix(src[pos:], word) {
		return 0, false
	}
	return skipSpace(src, pos+len(word)), true
}

func (lx *lexer) lexRaw(body int) error {
	lx.lineStarting = lx.src[body-1] == '\n'
	lx.advance(body)
	for at := body; ; at += 2 {
		next := strings.Index(lx.src[at:], "{%")
		if next < 0 {
			return lx.errorf("missing end of raw directive")
		}
		at += next
		pos, ok := matchTagWord(lx.src, at, "endraw")
		if !ok {
			continue
		}
		from := pos
		if sign := byteAt(lx.src, pos); sign == '-' || sign == '+' {
			pos++
		}
		if !strings.HasPrefix(lx.src[pos:], "%}") {
			continue
		}
		lx.emit(tokenData, lx.stripBefore(lx.src[body:at], byteAt(lx.src, at+2), false))
		lx.finishTag(from, pos)
		return nil
	}
}

// lexCode emits the tokens of a print or block tag up to and including its
// end, which counts only outside brackets.
func (lx *lexer) lexCode(kind byte) error {
	var brackets []byte
	for lx.pos < len(lx.src) {
		if len(brackets) == 0 && lx.lexCodeEnd(kind) {
			return nil
		}
		r, _ := utf8.DecodeRuneInString(lx.src[lx.pos:])
		var err error
		switch {
		case isSpace(r):
			lx.advance(skipSpace(lx.src, lx.pos))
		case r >= '0' && r <= '9':
			lx.lexNumber()
		case isNameRune(r):
			err = lx.lexName()
		case r == '\'' || r == '"':
			err = lx.lexString(byte(r))
		default:
			brackets, err = lx.lexOperator(brackets)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (lx *lexer) lexCodeEnd(kind byte) bool {
	rest := lx.src[lx.pos:]
	if kind == '%' {
		for _, end := range []string{"%}", "-%}", "+%}"} {
			if strings.HasPrefix(rest, end) {
				lx.emit(tokenBlockEnd, "")
				lx.finishTag(lx.pos, lx.pos+len(end)-2)
				return true
			}
		}
		return false
	}
	after := 0
	switch {
	case strings.HasPrefix(rest, "-}}"):
		after = skipSpace(lx.src, lx.pos+3)
	case strings.HasPrefix(rest, "}}"):
		after = lx.pos + 2
	default:
		return false
	}
	lx.emit(tokenVarEnd, "")
	lx.lineStarting = lx.src[after-1] == '\n'
	lx.advance(after)
	return true
}

func (lx *lexer) lexName() error {
	end := lx.pos
	for end < len(lx.src) {
		r, size := utf8.DecodeRuneInString(lx.src[end:])
		if !isNameRune(r) {
			break
		}
		end += size
	}
	name := lx.src[lx.pos:end]
	if first, _ := utf8.DecodeRuneInString(name); first != '_' && !unicode.IsLetter(first) {
		return lx.errorf("invalid character in identifier %q", name)
	}
	lx.emit(tokenName, name)
	lx.pos = end
	return nil
}

var operators = []string{"//", "**", "==", "!=", ">=", "<="}

func (lx *lexer) lexOperator(brackets []byte) ([]byte, error) {
	rest := lx.src[lx.pos:]
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			lx.emit(tokenOp, op)
			lx.pos += 2
			return brackets, nil
		}
	}
	c := rest[0]
	switch c {
	case '(':
		brackets = append(brackets, ')')
	case '[':
		brackets = append(brackets, ']')
	case '{':
		brackets = append(brackets, '}')
	case ')', ']', '}':
		if len(brackets) == 0 {
			return nil, lx.errorf("unexpected '%c'", c)
		}
		want := brackets[len(brackets)-1]
		if want != c {
			return nil, lx.errorf("unexpected '%c', expected '%c'", c, want)
		}
		brackets = brackets[:len(brackets)-1]
	default:
		if !strings.ContainsRune("+-/*%~><=.:|,;", rune(c)) {
			r, _ := utf8.DecodeRuneInString(rest)
			return nil, lx.errorf("unexpected char %q", r)
		}
	}
	lx.emit(tokenOp, rest[:1])
	lx.pos++
	return brackets, nil
}

func byteAt(s string, i int) byte {
	if i < len(s) {
		return s[i]
	}
	return 0
}

func skipSpace(s string, from int) int {
	return len(s) - len(strings.TrimLeftFunc(s[from:], isSpace))
}

func isNameRune(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) || (r > 127 && unicode.IsMark(r))
}

// isSpace is Python's str.isspace for one character, which is also \s in its
// regular expressions.
func isSpace(r rune) bool {
	return r == ' ' || (r >= '\t' && r <= '\r') || (r >= 0x1c && r <= 0x1f) || (r > 127 && unicode.IsSpace(r))
}
