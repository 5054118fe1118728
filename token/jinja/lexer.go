package jinja

import (
	"fmt"
	"regexp"
	"strconv"
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
// unescaped.
type token struct {
	kind tokenKind
	text string
	line int
}

var tokenNames = map[tokenKind]string{
	tokenEOF:        "end of template",
	tokenData:       "template text",
	tokenVarBegin:   "'{{'",
	tokenVarEnd:     "end of print statement",
	tokenBlockBegin: "'{%'",
	tokenBlockEnd:   "end of statement block",
	tokenName:       "a name",
}

// describe names the token for an error.
func (t token) describe() string {
	if name := tokenNames[t.kind]; name != "" && (t.text == "" || t.kind == tokenData) {
		return name
	}
	return "'" + t.text + "'"
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

func lex(source string) []token {
	lx := &lexer{src: normalizeSource(source), line: 1, lineStarting: true}
	for lx.pos < len(lx.src) {
		begin := nextTag(lx.src, lx.pos)
		if begin < 0 {
			lx.emit(tokenData, lx.src[lx.pos:])
			lx.advance(len(lx.src))
			break
		}
		lx.lexTag(begin)
	}
	lx.emit(tokenEOF, "")
	return lx.tokens
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

func (lx *lexer) fail(format string, args ...any) {
	panic(&Error{Kind: SyntaxError, Line: lx.line, Message: fmt.Sprintf(format, args...)})
}

// lexTag emits the text before the tag at begin and then the tag.
func (lx *lexer) lexTag(begin int) {
	text := lx.src[lx.pos:begin]
	sign := byteAt(lx.src, begin+2)
	kind := lx.src[begin+1]
	lx.emit(tokenData, lx.stripBefore(text, sign, kind == '{'))
	lx.advance(begin)
	after := begin + 2
	if sign == '-' || sign == '+' {
		after++
	}
	switch kind {
	case '#':
		lx.lexComment(after)
		return
	case '{':
		lx.emit(tokenVarBegin, "")
	default:
		lx.emit(tokenBlockBegin, "")
	}
	lx.advance(after)
	lx.lexCode(kind)
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

func (lx *lexer) lexComment(body int) {
	end := strings.Index(lx.src[body:], "#}")
	if end < 0 {
		lx.fail("missing end of comment tag")
	}
	lx.finishTag(body, body+end)
}

// finishTag moves past the end tag of two bytes at end, with the sign before
// it (not before from) and the whitespace that goes with them. A line end after
// a tag that prints stays.
func (lx *lexer) finishTag(from, end int) {
	after, isBlock := end+2, lx.src[end] != '}'
	switch {
	case end > from && lx.src[end-1] == '-':
		after = skipSpace(lx.src, after)
	case isBlock && (end == from || lx.src[end-1] != '+') && byteAt(lx.src, after) == '\n':
		after++
	}
	lx.lineStarting = lx.src[after-1] == '\n'
	lx.advance(after)
}

// lexCode emits the tokens of a print or block tag up to and including its
// end, which counts only outside brackets.
func (lx *lexer) lexCode(kind byte) {
	var brackets []byte
	for lx.pos < len(lx.src) {
		if len(brackets) == 0 && lx.lexCodeEnd(kind) {
			return
		}
		r, _ := utf8.DecodeRuneInString(lx.src[lx.pos:])
		switch {
		case isSpace(r):
			lx.advance(skipSpace(lx.src, lx.pos))
		case r >= '0' && r <= '9':
			lx.lexNumber()
		case isNameRune(r):
			lx.lexName()
		case r == '\'' || r == '"':
			lx.lexString(byte(r))
		default:
			brackets = lx.lexOperator(brackets)
		}
	}
}

func (lx *lexer) lexCodeEnd(kind byte) bool {
	end, closing, ended := lx.pos, "%}", tokenBlockEnd
	if kind == '{' {
		closing, ended = "}}", tokenVarEnd
	}
	if sign := lx.src[end]; sign == '-' || sign == '+' && kind == '%' {
		end++
	}
	if !strings.HasPrefix(lx.src[end:], closing) {
		return false
	}
	lx.emit(ended, "")
	lx.finishTag(lx.pos, end)
	return true
}

func (lx *lexer) lexName() {
	rest := lx.src[lx.pos:]
	name := rest[:len(rest)-len(strings.TrimLeftFunc(rest, isNameRune))]
	if first, _ := utf8.DecodeRuneInString(name); first != '_' && !unicode.IsLetter(first) {
		lx.fail("invalid character in identifier %q", name)
	}
	lx.emit(tokenName, name)
	lx.pos += len(name)
}

// numberPattern matches the decimal numbers of Python without underscores.
var numberPattern = regexp.MustCompile(`^\d+(\.\d+)?([eE][+-]?\d+)?`)

func (lx *lexer) lexNumber() {
	m := numberPattern.FindStringSubmatch(lx.src[lx.pos:])
	text := m[0]
	if lx.src[lx.pos-1] == '.' { // an item, as in pair.0.name
		text, m[1], m[2] = text[:len(text)-len(strings.TrimLeft(text, "0123456789"))], "", ""
	}
	switch {
	case m[1]+m[2] != "":
		lx.emit(tokenFloat, text)
	case len(text) > 1 && text[0] == '0':
		lx.fail("the integer %s begins with 0", text)
	default:
		lx.emit(tokenInt, text)
	}
	lx.pos += len(text)
}

func (lx *lexer) lexString(quote byte) {
	end := lx.pos + 1
	for end < len(lx.src) && lx.src[end] != quote {
		if lx.src[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(lx.src) {
		lx.fail("unexpected char %q: the string has no end", quote)
	}
	text, ok := unescape(lx.src[lx.pos+1 : end])
	if !ok {
		lx.fail("invalid escape in string %s", lx.src[lx.pos:end+1])
	}
	lx.emit(tokenString, text)
	lx.advance(end + 1)
}

// unescape undoes the backslash escapes of a Python string literal. Unknown
// escapes stay as they are.
func unescape(s string) (string, bool) {
	var sb strings.Builder
	for {
		before, rest, found := strings.Cut(s, "\\")
		sb.WriteString(before)
		if !found {
			return sb.String(), true
		}
		switch c := byteAt(rest, 0); {
		case c == '\'' || c == '"':
			sb.WriteByte(c)
			s = rest[1:]
		case c == '\n':
			s = rest[1:]
		default:
			r, _, tail, err := strconv.UnquoteChar("\\"+rest, 0)
			switch {
			case err == nil:
				sb.WriteRune(r)
				s = tail
			case strings.IndexByte("xuUN01234567", c) >= 0:
				return "", false
			default:
				sb.WriteByte('\\')
				s = rest
			}
		}
	}
}

var longOperators = []string{"//", "==", "!=", ">=", "<="}

func (lx *lexer) lexOperator(brackets []byte) []byte {
	rest := lx.src[lx.pos:]
	for _, op := range longOperators {
		if strings.HasPrefix(rest, op) {
			lx.emit(tokenOp, op)
			lx.pos += 2
			return brackets
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
			lx.fail("unexpected '%c'", c)
		}
		want := brackets[len(brackets)-1]
		if want != c {
			lx.fail("unexpected '%c', expected '%c'", c, want)
		}
		brackets = brackets[:len(brackets)-1]
	default:
		if !strings.ContainsRune("+-/*%~><=.:|,;", rune(c)) {
			r, _ := utf8.DecodeRuneInString(rest)
			lx.fail("unexpected char %q", r)
		}
	}
	lx.emit(tokenOp, rest[:1])
	lx.pos++
	return brackets
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
